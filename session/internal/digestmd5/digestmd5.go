// Package digestmd5 is the client's side of the SASL mechanism DIGEST-MD5 (RFC 2831), as far as
// ZooKeeper's servers use it.
package digestmd5

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// An Exchange is one authentication.
type Exchange struct {
	user, password string
	service        string // the digest-uri
	cnonce         string
	refused        error  // in errors about credentials or the server's challenge
	proof          string // that the server knows the password; empty until the response was sent
}

// New returns an exchange with a server of the service. Errors about credentials wrap refused.
func New(user, password, service string, refused error) *Exchange {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return &Exchange{user: user, password: password, service: service, refused: refused, cnonce: hex.EncodeToString(nonce[:])}
}

// Step takes a challenge of the server. It returns the response, or that the server has proved that
// it knows the password.
func (x *Exchange) Step(challenge []byte) (response []byte, done bool, err error) {
	fields, ok := directives(string(challenge))
	switch {
	case !ok:
		return nil, false, fmt.Errorf("DIGEST-MD5: the server's challenge is malformed: %w", x.refused)
	case x.proof != "" && fields["rspauth"] == x.proof:
		return nil, true, nil
	case x.proof != "":
		return nil, false, errors.New("DIGEST-MD5: the server does not know the password")
	case fields["nonce"] == "" || fields["algorithm"] != "md5-sess":
		return nil, false, fmt.Errorf("%w: the server does not offer DIGEST-MD5", x.refused)
	}
	realm, nonce := fields["realm"], fields["nonce"]
	utf8 := fields["charset"] == "utf-8"
	text := func(s string) string {
		if utf8 {
			return latin1(s)
		}
		return s
	}
	secret := md5.Sum([]byte(text(x.user) + ":" + text(realm) + ":" + text(x.password)))
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
		quoted(x.user), quoted(realm), quoted(nonce), count, quoted(x.cnonce), quoted(x.service), proof("AUTHENTICATE:"+x.service), quality)
	return []byte(b.String()), false, nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin1 returns a string in ISO 8859-1 if it has only such characters: RFC 2831 hashes it in that
// encoding.
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

// directives parses a challenge: name=value, or name="value" with backslashes, with commas between.
// If a name has several values, it keeps the first.
func directives(challenge string) (fields map[string]string, ok bool) {
	fields = make(map[string]string)
	for rest := strings.TrimLeft(challenge, ", \t"); rest != ""; rest = strings.TrimLeft(rest, ", \t") {
		name, value, named := strings.Cut(rest, "=")
		if !named {
			return nil, false
		}
		if strings.HasPrefix(value, `"`) {
			if value, rest, ok = unquoted(value[1:]); !ok {
				return nil, false
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
	return fields, true
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
