package zkkerberos

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkactors/zkactors/session"
)

// The tokens before the context is established begin with these (RFC 4121, 4.1).
const (
	tokenRequest = "\x01\x00"
	tokenReply   = "\x02\x00"
)

// Flags of wrapped tokens (RFC 4121, 4.2.2).
const (
	wrapSealed         = 0x02
	wrapAcceptorSubkey = 0x04
)

// noLayer is the bit of the security layer "none" (RFC 4752, 3.3).
const noLayer = 0x01

// A stage is what the server sends next.
type stage int

const (
	awaitsReply stage = iota // its AP-REP
	awaitsOffer              // the security layers that it offers, wrapped
	awaitsEnd                // an empty token
)

// An exchange is the client's side of GSSAPI (RFC 4752) on one connection.
type exchange struct {
	ticket   *ticket
	auth     types.Authenticator
	accepted func() // called when the server has accepted the ticket

	stage    stage
	key      types.EncryptionKey // of the context: the client's, until the server's reply has another
	subkey   byte                // wrapAcceptorSubkey if the key is the server's, else 0
	sequence uint64              // the number of the server's first wrapped token; set by its reply
}

// Format hides the keys, whatever the verb.
func (x *exchange) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "GSSAPI:***") }

// begin returns an exchange, and its first token: the ticket, and the proof that its key is known.
func begin(t *ticket, accepted func()) (x *exchange, token []byte, err error) {
	defer unpanicked(&err)
	auth, err := types.NewAuthenticator(t.realm, t.client)
	if err != nil {
		return nil, nil, fmt.Errorf("kerberos: %w", err)
	}
	auth.SubKey = types.EncryptionKey{KeyType: t.key.KeyType, KeyValue: make([]byte, len(t.key.KeyValue))}
	_, _ = rand.Read(auth.SubKey.KeyValue) // it never fails
	// No channel bindings, and two flags (RFC 4121, 4.1.1).
	sum := binary.LittleEndian.AppendUint32(nil, 16)
	sum = append(sum, make([]byte, 16)...)
	sum = binary.LittleEndian.AppendUint32(sum, gssapi.ContextFlagMutual|gssapi.ContextFlagInteg)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	request, err := messages.NewAPReq(t.sealed, t.key, auth)
	if err != nil {
		return nil, nil, fmt.Errorf("kerberos: %w", err)
	}
	types.SetFlag(&request.APOptions, flags.APOptionMutualRequired)
	body, err := request.Marshal()
	if err != nil {
		return nil, nil, fmt.Errorf("kerberos: %w", err)
	}
	token, err = asn1.Marshal(gssapi.OIDKRB5.OID())
	if err != nil {
		return nil, nil, fmt.Errorf("kerberos: %w", err)
	}
	token = asn1tools.AddASNAppTag(append(append(token, tokenRequest...), body...), 0)
	return &exchange{ticket: t, auth: auth, accepted: accepted, key: auth.SubKey}, token, nil
}

// Step implements [session.SASLExchange].
func (x *exchange) Step(challenge []byte) (response []byte, done bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("kerberos: %w: %w", session.ErrAuthFailed, err)
		}
	}()
	defer unpanicked(&err)
	switch x.stage {
	case awaitsReply:
		x.stage = awaitsOffer
		return []byte{}, false, x.reply(challenge)
	case awaitsOffer:
		x.stage = awaitsEnd
		response, err = x.choose(challenge)
		return response, false, err
	case awaitsEnd:
		if len(challenge) > 0 {
			return nil, false, errors.New("the server goes on after the end of the exchange")
		}
	}
	x.accepted()
	return nil, true, nil
}

// reply takes the server's proof that it knows the key of the ticket.
func (x *exchange) reply(token []byte) error {
	var (
		frame asn1.RawValue
		oid   asn1.ObjectIdentifier
		reply messages.APRep
		part  messages.EncAPRepPart
	)
	after, err := asn1.Unmarshal(token, &frame)
	if err != nil || len(after) > 0 || frame.Class != asn1.ClassApplication || frame.Tag != 0 {
		return errors.New("the server does not speak Kerberos: it may offer DIGEST-MD5")
	}
	body, err := asn1.Unmarshal(frame.Bytes, &oid)
	if err != nil || !oid.Equal(gssapi.OIDKRB5.OID()) || len(body) < 2 || string(body[:2]) != tokenReply {
		return errors.New("the server's reply is not that of Kerberos")
	}
	if err := reply.Unmarshal(body[2:]); err != nil {
		return fmt.Errorf("the server's reply: %w", err)
	}
	plain, err := crypto.DecryptEncPart(reply.EncPart, x.ticket.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return errors.New("the server does not know the key of the ticket")
	}
	if err := part.Unmarshal(plain); err != nil {
		return fmt.Errorf("the server's reply: %w", err)
	}
	if part.CTime.Unix() != x.auth.CTime.Unix() || part.Cusec != x.auth.Cusec {
		return errors.New("the server answers another request")
	}
	if len(part.Subkey.KeyValue) > 0 {
		x.key, x.subkey = part.Subkey, wrapAcceptorSubkey
	}
	x.sequence = uint64(uint32(part.SequenceNumber)) // some write it as a signed number
	return nil
}

// choose takes the offer of security layers, and returns the choice of none.
func (x *exchange) choose(token []byte) ([]byte, error) {
	offer, err := x.unwrap(token)
	switch {
	case err != nil:
		return nil, err
	case len(offer) != 4:
		return nil, errors.New("the offer of security layers is malformed")
	case offer[0]&noLayer == 0:
		return nil, errors.New("the server demands a security layer: set javax.security.sasl.qop=auth there, and use TLS")
	}
	return x.wrap([]byte{noLayer, 0, 0, 0})
}

// unwrap returns what the server has wrapped, with a checksum and not sealed (RFC 4121, 4.2.6.2).
func (x *exchange) unwrap(token []byte) ([]byte, error) {
	token = append([]byte(nil), token...)
	if body := token[min(len(token), gssapi.HdrLen):]; len(body) > 0 {
		// The checksum may stand anywhere: the header says by how much the rest was rotated.
		n := int(binary.BigEndian.Uint16(token[6:8])) % len(body)
		copy(body, append(append([]byte(nil), body[n:]...), body[:n]...))
	}
	var w gssapi.WrapToken
	switch err := w.Unmarshal(token, true); {
	case err != nil:
		return nil, fmt.Errorf("the offer of security layers: %w", err)
	case w.Flags&wrapSealed != 0 || w.Flags&wrapAcceptorSubkey != x.subkey || w.SndSeqNum != x.sequence:
		return nil, errors.New("the offer of security layers is not from this exchange")
	}
	// The error would contain the right checksum of a wrong offer.
	if ok, err := w.Verify(x.key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil || !ok {
		return nil, errors.New("the offer of security layers is not the server's: its checksum is wrong")
	}
	return w.Payload, nil
}

// wrap returns a token with a checksum, which is not sealed.
func (x *exchange) wrap(payload []byte) ([]byte, error) {
	etype, err := crypto.GetEtype(x.key.KeyType)
	if err != nil {
		return nil, err
	}
	w := gssapi.WrapToken{
		Flags: x.subkey, EC: uint16(etype.GetHMACBitLength() / 8),
		SndSeqNum: uint64(x.auth.SeqNumber), Payload: payload,
	}
	if err := w.SetCheckSum(x.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return w.Marshal()
}
