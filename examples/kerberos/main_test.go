package main

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/examples/kerberos/internal/kdc"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRealRun: with a keytab, with the cache of kinit, and without either.
func TestRealRun(t *testing.T) {
	k := kdc.Start(t)
	servers := strings.Join(kdc.Addrs(k.Servers(1, k.Principal(kdc.Service)).Addrs()), ",")
	ctx := check.Patient(t)
	keytab := k.Principal("app")
	common := []string{"-servers", servers, "-config", k.Config}
	for _, c := range []struct {
		cache string
		args  []string
	}{
		{"", append(common, "-keytab", keytab, "-principal", "app@"+kdc.Realm)},
		{k.Cache("app", keytab), common},
	} {
		t.Setenv("KRB5CCNAME", c.cache)
		var out strings.Builder
		if err := run(ctx, c.args, &out); err != nil || out.String() != "app@"+kdc.Realm+" holds the lock /kerberos\n" {
			t.Errorf("%v: %q, %v", c.args, out.String(), err)
		}
	}
	t.Setenv("KRB5CCNAME", t.TempDir()+"/none")
	if err := run(ctx, common, nil); !errors.Is(err, session.ErrAuthFailed) || !strings.Contains(err.Error(), "kinit") {
		t.Errorf("without a ticket: %v", err)
	}
}
