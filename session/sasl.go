package session

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// DigestMD5 is the mechanism DIGEST-MD5 of RFC 2831, which servers offer that have users and
// passwords in the section Server of their JAAS configuration. It protects the password from
// readers of the network, but not from guessing: use TLS as well.
func DigestMD5(user, password string) SASL { return &digestMD5{user, password} }

type digestMD5 struct{ user, password string }

// Format hides the password, whatever the verb.
func (d *digestMD5) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "DIGEST-MD5:***") }

// MarshalText hides the password, from encoding/json as well.
func (d *digestMD5) MarshalText() ([]byte, error) { return []byte("DIGEST-MD5:***"), nil }

// Start implements [SASL].
func (d *digestMD5) Start(context.Context, string) (SASLExchange, []byte, error) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return &digestExchange{who: d, service: digestService, cnonce: hex.EncodeToString(nonce[:])}, nil, nil
}

// A digestExchange is one exchange of DIGEST-MD5.
type digestExchange struct {
	who     *digestMD5
	service string // the digest-uri
	cnonce  string
	proof   string // that the server knows the password; empty until the response was sent
}

// digestService is the service of ZooKeeper's servers, the same for all of them.
const digestService = "zookeeper/zk-sasl-md5"

// Step implements [SASLExchange].
func (x *digestExchange) Step(challenge []byte) (response []byte, done bool, err error) {
	fields, err := directives(string(challenge))
	switch {
	case err != nil:
		return nil, false, err
	case x.proof != "" && fields["rspauth"] == x.proof:
		return nil, true, nil
	case x.proof != "":
		return nil, false, errors.New("DIGEST-MD5: the server does not know the password")
	case fields["nonce"] == "" || fields["algorithm"] != "md5-sess":
		return nil, false, fmt.Errorf("%w: the server does not offer DIGEST-MD5", ErrAuthFailed)
	}
	realm, nonce := fields["realm"], fields["nonce"]
	utf8 := fields["charset"] == "utf-8"
	text := func(s string) string {
		if utf8 {
			return latin1(s)
		}
		return s
	}
	secret := md5.Sum([]byte(text(x.who.user) + ":" + text(realm) + ":" + text(x.who.password)))
	a1 := string(secret[:]) + ":" + nonce + ":" + x.cnonce
	const count, quality = "00000001", "auth"
	proof := func(a2 string) string {
		return md5Hex(md5Hex(a1) + ":" + nonce + ":" + count + ":" + x.cnonce + ":" + quality + ":" + md5Hex(a2))
	}
	x.proof = proof(":" + x.service)
	var b strings.Builder
	if utf8 {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,realm=%s,nonce=%s,nc=%s,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=%s",
		quoted(x.who.user), quoted(realm), quoted(nonce), count, quoted(x.cnonce), quoted(x.service), proof("AUTHENTICATE:"+x.service), quality)
	return []byte(b.String()), false, nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin1 returns a string in ISO 8859-1 if it can be written so: RFC 2831 has it hashed so.
func latin1(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// directives parses a challenge: name=value, or name="value" with backslashes, with commas
// between. Of several values of one name it keeps the first.
func directives(challenge string) (map[string]string, error) {
	malformed := fmt.Errorf("DIGEST-MD5: the server's challenge is malformed: %w", ErrAuthFailed)
	fields := make(map[string]string)
	for rest := strings.TrimLeft(challenge, ", \t"); rest != ""; rest = strings.TrimLeft(rest, ", \t") {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, malformed
		}
		if strings.HasPrefix(value, `"`) {
			if value, rest, ok = unquoted(value[1:]); !ok {
				return nil, malformed
			}
		} else {
			end := strings.IndexAny(value, ", \t")
			if end < 0 {
				end = len(value)
			}
			value, rest = value[:end], value[end:]
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, again := fields[name]; !again {
			fields[name] = value
		}
	}
	return fields, nil
}

// unquoted takes a value up to its closing quote.
func unquoted(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
