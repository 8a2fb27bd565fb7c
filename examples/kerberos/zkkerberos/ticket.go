package zkkerberos

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkactors/zkactors/session"
)

// margin is the time before its end at which a ticket is replaced, but at most a tenth of its life.
const margin = time.Minute

var errDamaged = errors.New("damaged")

// A ticket is a client's, for one service.
type ticket struct {
	client types.PrincipalName
	realm  string // the client's
	sealed messages.Ticket
	key    types.EncryptionKey // of the ticket, which only the client, the server and the KDC know
	begin  time.Time
	end    time.Time
}

// lasts reports whether the ticket is long enough for an authentication.
func (t *ticket) lasts(now time.Time) bool {
	return t.end.Sub(now) > min(margin, t.end.Sub(t.begin)/10)
}

// A source has what proves to the KDC who the client is.
type source interface {
	fmt.Stringer

	// login returns a client of the KDC, and a ticket to ask for other tickets with.
	login(conf *config.Config, now time.Time, settings []func(*client.Settings)) (*client.Client, *ticket, error)
}

type fromKeytab struct{ file, name, realm string }

func (k fromKeytab) String() string {
	if k.realm == "" {
		return k.name
	}
	return k.name + "@" + k.realm
}

// login asks the KDC for a ticket, which only the owner of the key can use.
func (k fromKeytab) login(conf *config.Config, now time.Time, settings []func(*client.Settings)) (*client.Client, *ticket, error) {
	keys, err := read("keytab", k.file, keytab.Load)
	if err != nil {
		return nil, nil, err
	}
	realm := k.realm
	if realm == "" {
		realm = conf.LibDefaults.DefaultRealm
	}
	cl := client.NewWithKeytab(k.name, realm, keys, conf, settings...)
	request, err := messages.NewASReqForTGT(realm, conf, cl.Credentials.CName())
	if err != nil {
		return nil, nil, err
	}
	// Client.Login would do this too, and start a goroutine for the renewal.
	reply, err := cl.ASExchange(realm, request, 0)
	if err != nil {
		return nil, nil, err
	}
	return cl, &ticket{
		client: reply.CName, realm: reply.CRealm, sealed: reply.Ticket,
		key: reply.DecryptedEncPart.Key, begin: now, end: reply.DecryptedEncPart.EndTime,
	}, nil
}

type fromCache struct{ file string }

func (c fromCache) String() string { return c.file }

// login reads the ticket that kinit has written.
func (c fromCache) login(conf *config.Config, now time.Time, settings []func(*client.Settings)) (*client.Client, *ticket, error) {
	cache, err := read("credential cache", c.file, credentials.LoadCCache)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil, fmt.Errorf("%w: kinit -c %s writes it", err, c.file)
	case err != nil:
		return nil, nil, err
	}
	realm := cache.GetClientRealm()
	entry, ok := cache.GetEntry(types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}})
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("credential cache %s has no ticket of %s: kinit -c %[1]s writes one", c.file, realm)
	case !now.Before(entry.EndTime):
		return nil, nil, fmt.Errorf("the ticket in %s has expired at %v: kinit -c %[1]s writes a new one", c.file, entry.EndTime.UTC())
	}
	cl, err := client.NewFromCCache(cache, conf, settings...)
	if err != nil {
		return nil, nil, fmt.Errorf("credential cache %s: %w", c.file, err)
	}
	t := &ticket{client: cache.GetClientPrincipalName(), realm: realm, key: entry.Key, begin: now, end: entry.EndTime}
	if err := t.sealed.Unmarshal(entry.Ticket); err != nil {
		return nil, nil, fmt.Errorf("credential cache %s: %w", c.file, err)
	}
	return cl, t, nil
}

// fetch logs in, and asks the KDC for a ticket for a service.
func fetch(from source, file, service string, settings []func(*client.Settings), now func() time.Time) (t *ticket, err error) {
	defer func() {
		var answer krberror.Krberror
		switch {
		case err == nil:
		case errors.As(err, &answer) && answer.RootCause == krberror.NetworkingError:
			err = fmt.Errorf("%w of %v for %s: %w", ErrNoTicket, from, service, err)
		default:
			err = fmt.Errorf("%w of %v for %s: %w: %w", ErrNoTicket, from, service, session.ErrAuthFailed, err)
		}
	}()
	defer unpanicked(&err)
	conf, err := config.Load(file)
	if _, ignored := errors.AsType[config.UnsupportedDirective](err); err != nil && !ignored {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	cl, tgt, err := from.login(conf, now(), settings)
	if err != nil {
		return nil, err
	}
	defer cl.Destroy() // referrals start goroutines
	begun := now()
	_, reply, err := cl.TGSREQGenerateAndExchange(types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, service), tgt.realm, tgt.sealed, tgt.key, false)
	if err != nil {
		return nil, err
	}
	part := reply.DecryptedEncPart
	switch part.Key.KeyType {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
	default:
		return nil, fmt.Errorf("the ticket's key is of type %d, which is not AES: give the service AES keys", part.Key.KeyType)
	}
	return &ticket{client: tgt.client, realm: tgt.realm, sealed: reply.Ticket, key: part.Key, begin: begun, end: part.EndTime}, nil
}

// read reads a file with gokrb5.
func read[T any](what, file string, load func(file string) (T, error)) (v T, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s: %w", what, file, err)
		}
	}()
	defer unpanicked(&err)
	return load(file)
}

// unpanicked makes a panic of gokrb5 an error. It is deferred. Whatever comes from the network, and
// a file that kinit is writing at this moment, may make gokrb5 panic, and must not end a program
// that holds locks. gokrb5 keeps no state between these calls that a panic could leave damaged.
func unpanicked(err *error) {
	if p := recover(); p != nil {
		*err = errDamaged
	}
}
