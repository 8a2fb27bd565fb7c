package digestmd5

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestDigestMD5 follows the example of RFC 2831, section 4.
func TestDigestMD5(t *testing.T) {
	errRefused := errors.New("refused")
	exchange := func() *Exchange {
		x := New("chris", "secret", "imap/elwood.innosoft.com", errRefused)
		x.cnonce = "OA6MHXh6VqTrRk"
		return x
	}
	const challenge = `realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`
	x := exchange()
	response, done, err := x.Step([]byte(challenge))
	check.Require(t, err == nil && !done && strings.Contains(string(response), "response=d388dad90d4bbd760a152321f2143af7"), "%s, %v, %v", response, done, err)
	if _, done, err := x.Step([]byte("rspauth=ea40f60335c427b5527b84dbabcdfffd")); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	x = exchange()
	if _, _, err := x.Step([]byte(challenge)); err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{"", "rspauth=ea40f60335c427b5527b84dbabcdffff", "rspauth="} {
		if _, done, err := x.Step([]byte(forged)); done || err == nil {
			t.Errorf("%q is accepted", forged)
		}
	}
	for _, bad := range []string{"", "realm", `nonce="x`, `nonce="x\`, `nonce="x",algorithm=md5`, "algorithm=md5-sess"} {
		if _, done, err := exchange().Step([]byte(bad)); done || !errors.Is(err, errRefused) {
			t.Errorf("%q: %v, %v", bad, done, err)
		}
	}
	fields, ok := directives(` Realm="a \"b\", c\\" , realm=other,nonce=plain	,, qop="auth,auth-int"`)
	check.True(t, ok && fields["realm"] == `a "b", c\` && fields["nonce"] == "plain" && fields["qop"] == "auth,auth-int", "%q, %v", fields, ok)
}
