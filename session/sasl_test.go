package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDigestMD5IsSecret(t *testing.T) {
	const secret = "hunter2"
	mechanism := DigestMD5("user", secret)
	opts := Options{SASL: mechanism}
	for _, v := range []any{mechanism, opts, &opts, []SASL{mechanism}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s of %T shows the secret: %s", verb, v, text)
			}
		}
	}
	if text, err := json.Marshal(mechanism); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("%s, %v", text, err)
	}
}
