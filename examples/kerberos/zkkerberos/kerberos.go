package zkkerberos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"

	"github.com/zkactors/zkactors/session"
)

// ErrNoTicket means that there is no ticket for a server. What wraps it says why. If trying again
// does not help, the error wraps [session.ErrAuthFailed] as well. Errors of a session then wrap
// [session.ErrAuthFailed], and have the text of this one.
var ErrNoTicket = errors.New("kerberos: no ticket")

// Options of a [Mechanism]. The zero value has the defaults.
type Options struct {
	// Config is the file that names the KDCs. The default is the variable KRB5_CONFIG, or
	// /etc/krb5.conf. It is read again for each ticket.
	Config string

	// Service returns the principal of a server, without its realm, given the host as it stands in
	// the list of servers. The default is zookeeper/host.
	Service func(host string) string

	// Settings are those of gokrb5's client, such as client.DisablePAFXFAST(true), which Active
	// Directory needs.
	Settings []func(*client.Settings)
}

// A Mechanism is GSSAPI with Kerberos. It may serve any number of sessions at once, and holds
// nothing that must be closed.
type Mechanism struct {
	source  source
	service func(host string) string
	fetch   func(principal string) (*ticket, error)
	now     func() time.Time

	mu      sync.Mutex
	tickets map[string]*ticket // by the server's principal. A ticket that is in use is not here.
}

// FromKeytab authenticates a principal, such as app@EXAMPLE.COM, whose key is in a keytab. Without
// a realm, the principal is in default_realm of krb5.conf. The keytab is read again for each login.
func FromKeytab(file, principal string, opts *Options) (*Mechanism, error) {
	name, realm, _ := strings.Cut(principal, "@")
	if file == "" || name == "" || strings.Contains(realm, "@") {
		return nil, fmt.Errorf("kerberos: keytab %q and principal %q, such as app@EXAMPLE.COM", file, principal)
	}
	return newMechanism(fromKeytab{file: file, name: name, realm: realm}, opts), nil
}

// FromCache authenticates the owner of a credential cache, which is a file that kinit writes. It is
// read again for each ticket: whoever renews it, or fills it anew, needs not restart the client. An
// empty name is the default of kinit: the variable KRB5CCNAME, or /tmp/krb5cc_ and the user's
// number.
func FromCache(file string, opts *Options) (*Mechanism, error) {
	name := cmp.Or(file, os.Getenv("KRB5CCNAME"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()))
	path := strings.TrimPrefix(name, "FILE:")
	if kind, _, ok := strings.Cut(path, ":"); ok && kind == strings.ToUpper(kind) && len(kind) > 1 {
		return nil, fmt.Errorf("kerberos: credential cache %s: only files can be read: kinit -c FILE:/path writes one", name)
	}
	return newMechanism(fromCache{file: path}, opts), nil
}

func newMechanism(from source, opts *Options) *Mechanism {
	var o Options
	if opts != nil {
		o = *opts
	}
	m := &Mechanism{source: from, service: o.Service, now: time.Now, tickets: make(map[string]*ticket)}
	if m.service == nil {
		m.service = func(host string) string { return "zookeeper/" + host }
	}
	config := cmp.Or(o.Config, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
	m.fetch = func(principal string) (*ticket, error) { return fetch(from, config, principal, o.Settings, m.now) }
	return m
}

// Format hides tickets and keys, whatever the verb.
func (m *Mechanism) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "GSSAPI:"+m.source.String())
}

// MarshalText hides tickets and keys, from encoding/json as well.
func (m *Mechanism) MarshalText() ([]byte, error) { return []byte("GSSAPI:" + m.source.String()), nil }

// Start implements [session.SASL].
func (m *Mechanism) Start(ctx context.Context, server string) (session.SASLExchange, []byte, error) {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return nil, nil, fmt.Errorf("kerberos: %w", err)
	}
	principal := m.service(host)
	t := m.take(principal)
	if t == nil {
		if t, err = m.request(ctx, principal); err != nil {
			return nil, nil, err
		}
	}
	x, first, err := begin(t, func() { m.keep(principal, t) })
	if err != nil {
		return nil, nil, err
	}
	return x, first, nil
}

// take returns the ticket for a server, or nil. A ticket that is in use is not in the table, and
// comes back when the server has accepted it: otherwise a ticket that a server refuses, because its
// key is another now, would be used until it expires.
func (m *Mechanism) take(principal string) *ticket {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tickets[principal]
	delete(m.tickets, principal)
	if t == nil || !t.lasts(m.now()) {
		return nil
	}
	return t
}

// keep keeps a ticket, unless another one lasts longer.
func (m *Mechanism) keep(principal string, t *ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.tickets[principal]; other == nil || other.end.Before(t.end) {
		m.tickets[principal] = t
	}
}

// request fetches a ticket. The library's requests do not end with a context. If one outlives ctx,
// its ticket is for the next connection: a slow KDC does not keep the client out.
func (m *Mechanism) request(ctx context.Context, principal string) (*ticket, error) {
	type outcome struct {
		ticket *ticket
		err    error
	}
	fetched := make(chan outcome, 1)
	go func() {
		t, err := m.fetch(principal)
		if err == nil && ctx.Err() != nil {
			m.keep(principal, t)
		}
		fetched <- outcome{t, err}
	}()
	select {
	case o := <-fetched:
		return o.ticket, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w for %s: the KDC has not answered yet: %w", ErrNoTicket, principal, context.Cause(ctx))
	}
}
