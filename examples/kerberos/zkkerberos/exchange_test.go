package zkkerberos

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkactors/zkactors/session"
)

// newTicket returns a ticket with a key of all the same byte. What is sealed is for the server,
// which does not look into it here.
func newTicket(keyType int32, octet byte) *ticket {
	size := 16
	if keyType == etypeID.AES256_CTS_HMAC_SHA1_96 || keyType == etypeID.AES256_CTS_HMAC_SHA384_192 {
		size = 32
	}
	now := time.Now()
	return &ticket{
		client: types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "alice"), realm: "EXAMPLE.TEST",
		sealed: messages.Ticket{
			TktVNO: 5, Realm: "EXAMPLE.TEST", SName: types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "zookeeper/localhost"),
			EncPart: types.EncryptedData{EType: keyType, KVNO: 1, Cipher: []byte("sealed")},
		},
		key:   types.EncryptionKey{KeyType: keyType, KeyValue: bytes.Repeat([]byte{octet}, size)},
		begin: now, end: now.Add(time.Hour),
	}
}

// A server is the other side of an exchange. What is changed makes it wrong.
type server struct {
	key      types.EncryptionKey // of the ticket
	subkey   bool                // it chooses the key of the context
	late     time.Duration       // its answer is to a request that was sent earlier by this
	layers   []byte
	flags    byte   // besides those that are right
	rotated  int    // bytes by which the offer is rotated
	sequence uint64 // of the offer, beside that of the reply
	end      []byte
	short    bool // its sealed reply has only the first bytes
	length   int  // their number

	context types.EncryptionKey
	request messages.APReq
}

const firstNumber = 77

// reply takes the client's first token, and returns the AP-REP.
func (s *server) reply(t *testing.T, token []byte) []byte {
	t.Helper()
	var frame asn1.RawValue
	if _, err := asn1.Unmarshal(token, &frame); err != nil {
		t.Fatal(err)
	}
	var oid asn1.ObjectIdentifier
	body, err := asn1.Unmarshal(frame.Bytes, &oid)
	if err != nil || string(body[:2]) != tokenRequest {
		t.Fatalf("%x: %v", body, err)
	}
	if err := s.request.Unmarshal(body[2:]); err != nil {
		t.Fatal(err)
	}
	auth := &s.request.Authenticator
	if err := s.request.DecryptAuthenticator(s.key); err != nil { // it has the wrong key
		*auth = types.Authenticator{SubKey: s.key}
	}
	s.context = auth.SubKey
	part := messages.EncAPRepPart{CTime: auth.CTime.Add(-s.late), Cusec: auth.Cusec, SequenceNumber: firstNumber}
	if s.subkey {
		s.context = newTicket(s.key.KeyType, 9).key
		part.Subkey = s.context
	}
	plain, err := asn1.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), s.key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.short {
		sealed.Cipher = sealed.Cipher[:s.length]
	}
	reply, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		t.Fatal(err)
	}
	name, err := asn1.Marshal(gssapi.OIDKRB5.OID())
	if err != nil {
		t.Fatal(err)
	}
	return asn1tools.AddASNAppTag(append(append(name, tokenReply...), asn1tools.AddASNAppTag(reply, asnAppTag.APREP)...), 0)
}

// offer returns the wrapped offer of security layers.
func (s *server) offer(t *testing.T) []byte {
	t.Helper()
	etype, err := crypto.GetEtype(s.context.KeyType)
	if err != nil {
		t.Fatal(err)
	}
	w := gssapi.WrapToken{Flags: 1 | s.flags, EC: uint16(etype.GetHMACBitLength() / 8), SndSeqNum: firstNumber + s.sequence, Payload: s.layers}
	if s.subkey {
		w.Flags |= wrapAcceptorSubkey
	}
	if err := w.SetCheckSum(s.context, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
		t.Fatal(err)
	}
	token, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body := token[gssapi.HdrLen:]
	n := s.rotated % len(body)
	copy(body, append(append([]byte(nil), body[len(body)-n:]...), body[:len(body)-n]...))
	binary.BigEndian.PutUint16(token[6:], uint16(s.rotated))
	return token
}

// run performs the exchange, and returns the client's choice.
func run(t *testing.T, k *ticket, s *server) (choice []byte, accepted bool, err error) {
	t.Helper()
	x, token, err := begin(k, func() { accepted = true })
	if err != nil {
		t.Fatal(err)
	}
	if s.key.KeyType == 0 {
		s.key = k.key
	}
	if token, _, err = x.Step(s.reply(t, token)); err != nil {
		return nil, accepted, err
	}
	if token == nil || len(token) > 0 {
		t.Errorf("the answer to the server's reply is %x", token)
	}
	if choice, _, err = x.Step(s.offer(t)); err != nil {
		return nil, accepted, err
	}
	_, done, err := x.Step(s.end)
	if done != (err == nil) || done != accepted {
		t.Errorf("done %v, accepted %v, %v", done, accepted, err)
	}
	return choice, accepted, err
}

func allLayers() []byte { return []byte{7, 0, 16, 0} }

// TestExchange: the client accepts a right server, of every type of key, and no wrong one.
func TestExchange(t *testing.T) {
	for _, keyType := range []int32{
		etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192,
	} {
		for _, subkey := range []bool{false, true} {
			for _, rotated := range []int{0, 4, 12, 28, 1000} {
				k, s := newTicket(keyType, 1), &server{subkey: subkey, rotated: rotated, layers: allLayers()}
				choice, accepted, err := run(t, k, s)
				if err != nil || !accepted {
					t.Fatalf("key of type %d, rotated by %d: %v", keyType, rotated, err)
				}
				var w gssapi.WrapToken
				if err := w.Unmarshal(choice, false); err != nil {
					t.Fatal(err)
				}
				if ok, err := w.Verify(s.context, keyusage.GSSAPI_INITIATOR_SEAL); !ok || !bytes.Equal(w.Payload, []byte{1, 0, 0, 0}) || w.SndSeqNum != uint64(s.request.Authenticator.SeqNumber) {
					t.Errorf("the choice is %+v: %v", w, err)
				}
				sum := "10000000" + strings.Repeat("00", 16) + "22000000"
				if got := hex.EncodeToString(s.request.Authenticator.Cksum.Checksum); got != sum || s.request.APOptions.At(2) != 1 {
					t.Errorf("flags %s, options %x", got, s.request.APOptions.Bytes)
				}
			}
		}
	}
	const keyType = etypeID.AES256_CTS_HMAC_SHA1_96
	for name, s := range map[string]*server{
		"another key":           {layers: allLayers(), key: newTicket(keyType, 2).key},
		"another request":       {layers: allLayers(), late: time.Second},
		"only with a layer":     {layers: []byte{6, 0, 16, 0}},
		"a long offer":          {layers: append(allLayers(), 0)},
		"a sealed offer":        {layers: allLayers(), flags: wrapSealed},
		"another key's offer":   {layers: allLayers(), flags: wrapAcceptorSubkey},
		"an offer out of order": {layers: allLayers(), sequence: 1},
		"more after the end":    {layers: allLayers(), end: []byte{0}},
	} {
		_, accepted, err := run(t, newTicket(keyType, 1), s)
		if !errors.Is(err, session.ErrAuthFailed) || accepted || errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDamagedTokens: whatever a server sends, the client does not panic. It refuses what is
// damaged, or takes from it what the right token says: not every bit has a meaning. An error does
// not have the checksum that would have been right.
func TestDamagedTokens(t *testing.T) {
	damaged := func(token []byte) (all [][]byte) {
		for i := range token {
			all = append(all, token[:i])
			for _, bit := range []byte{0x01, 0x80} {
				other := bytes.Clone(token)
				other[i] ^= bit
				all = append(all, other)
			}
		}
		return append(all, append(bytes.Clone(token), 0))
	}
	k := newTicket(etypeID.AES256_CTS_HMAC_SHA1_96, 1)
	x, token, err := begin(k, func() { t.Error("accepted") })
	if err != nil {
		t.Fatal(err)
	}
	s := &server{key: k.key, subkey: true, layers: allLayers()}
	tokens := [][]byte{s.reply(t, token), s.offer(t)}
	for _, right := range tokens {
		before := *x
		want, _, err := x.Step(right)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, token := range damaged(right) {
			y := before
			got, done, err := y.Step(token)
			switch {
			case done:
				t.Errorf("%x: the end", token)
			case err == nil && (!bytes.Equal(got, want) || !bytes.Equal(y.key.KeyValue, x.key.KeyValue) || y.sequence != x.sequence):
				t.Errorf("%x: it is accepted", token)
			case err != nil && (!errors.Is(err, session.ErrAuthFailed) || strings.Contains(err.Error(), "Computed")):
				t.Error(err)
			case err != nil:
				refused++
			}
		}
		if refused < 2*len(right) {
			t.Errorf("only %d are refused", refused)
		}
	}
}

// TestShortReplies: gokrb5 panics over some of them.
func TestShortReplies(t *testing.T) {
	panicked := false
	for length := range 40 {
		_, accepted, err := run(t, newTicket(etypeID.AES256_CTS_HMAC_SHA1_96, 1), &server{layers: allLayers(), short: true, length: length})
		if !errors.Is(err, session.ErrAuthFailed) || accepted {
			t.Errorf("%d bytes: %v", length, err)
		}
		panicked = panicked || errors.Is(err, errDamaged)
	}
	if !panicked {
		t.Error("none of them made gokrb5 panic")
	}
}

// TestSecrets: what is printed of the mechanism and of an exchange has no keys.
func TestSecrets(t *testing.T) {
	k := newTicket(etypeID.AES128_CTS_HMAC_SHA1_96, 'K')
	m, err := FromKeytab("app.keytab", "app@EXAMPLE.TEST", nil)
	if err != nil {
		t.Fatal(err)
	}
	m.keep("zookeeper/localhost", k)
	x, _, err := begin(k, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{m, &session.Options{SASL: m}, []any{m}, x} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			for _, secret := range []string{"KKKK", "4b4b4b4b", "75 75 75", "0x4b, 0x4b"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s of %T: %s", verb, v, text)
				}
			}
		}
	}
	if text, err := json.Marshal(m); err != nil || string(text) != `"GSSAPI:app@EXAMPLE.TEST"` {
		t.Errorf("%s, %v", text, err)
	}
}
