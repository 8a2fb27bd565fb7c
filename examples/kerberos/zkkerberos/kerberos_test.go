package zkkerberos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"

	"github.com/zkactors/zkactors/session"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct{ file, principal string }{
		{"", "app@EXAMPLE.TEST"}, {"keytab", ""}, {"keytab", "@EXAMPLE.TEST"}, {"keytab", "app@EXAMPLE.TEST@X"},
	} {
		if _, err := FromKeytab(c.file, c.principal, nil); err == nil {
			t.Errorf("%+v", c)
		}
	}
	for _, file := range []string{"KEYRING:persistent:0", "KCM:", "DIR:/tmp/x", "MEMORY:x"} {
		if _, err := FromCache(file, nil); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
		t.Setenv("KRB5CCNAME", file)
		if _, err := FromCache("", nil); err == nil {
			t.Errorf("KRB5CCNAME=%s", file)
		}
	}
	for file, want := range map[string]string{"/tmp/a": "/tmp/a", "FILE:/tmp/b": "/tmp/b", `C:\krb5cc`: `C:\krb5cc`} {
		if m, err := FromCache(file, nil); err != nil || m.source.String() != want {
			t.Errorf("%s: %v, %v", file, m, err)
		}
	}
	m, err := FromKeytab("keytab", "app", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.service("zk1.example.test"); got != "zookeeper/zk1.example.test" {
		t.Error(got)
	}
	if _, _, err := m.Start(t.Context(), "no port"); err == nil {
		t.Error("an address without a port")
	}
}

// TestDamagedFiles: a file that kinit or kadmin is writing at this moment is an error, which names
// the file.
func TestDamagedFiles(t *testing.T) {
	for _, text := range []string{"", "\x05", "\x05\x02", "\x05\x04", "\x05\x04\x00\x0c", "\x05\x02\x00\x00\x00\x40\x00"} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, from := range []source{fromKeytab{file: file, name: "app", realm: "EXAMPLE.TEST"}, fromCache{file: file}} {
			if _, _, err := from.login(config.New(), time.Now(), nil); err == nil || from == (fromCache{file: file}) && !strings.Contains(err.Error(), file) {
				t.Errorf("%q as %T: %v", text, from, err)
			}
		}
	}
}

// TestTicketsAreKept: a ticket is used again after the server has accepted it, and until shortly
// before its end. A ticket that is in use is not used beside.
func TestTicketsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := FromKeytab("keytab", "app", nil)
		if err != nil {
			t.Fatal(err)
		}
		fetched := 0
		m.fetch = func(principal string) (*ticket, error) {
			if principal != "zookeeper/localhost" {
				t.Error(principal)
			}
			fetched++
			return newTicket(etypeID.AES256_CTS_HMAC_SHA1_96, 1), nil // for an hour
		}
		start := func(want int, why string) (accept func()) {
			t.Helper()
			x, _, err := m.Start(t.Context(), "localhost:2181")
			if err != nil {
				t.Fatal(err)
			}
			if fetched != want {
				t.Errorf("%s: %d tickets fetched, want %d", why, fetched, want)
			}
			return x.(*exchange).accepted
		}
		start(1, "the first connection")
		start(2, "the server did not accept the first ticket")()
		accept := start(2, "the server has accepted it")
		start(3, "the other one is in use")
		accept()
		later(58 * time.Minute)
		start(3, "it is still good")()
		later(time.Minute)
		start(4, "it has a minute left")()
	})
}

// later lets the time of a bubble pass.
func later(d time.Duration) { <-time.After(d) }

// TestSlowKDC: Start ends with its context, and the ticket that comes too late is for the next
// connection.
func TestSlowKDC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := FromKeytab("keytab", "app", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, fetched := make(chan error), 0
		m.fetch = func(string) (*ticket, error) {
			fetched++
			return newTicket(etypeID.AES256_CTS_HMAC_SHA1_96, 1), <-answer
		}
		for _, outcome := range []error{errors.New("no"), nil} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, err := m.Start(ctx, "localhost:2181")
			cancel()
			if !errors.Is(err, ErrNoTicket) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, session.ErrAuthFailed) {
				t.Error(err)
			}
			answer <- outcome
			synctest.Wait()
		}
		if _, _, err := m.Start(t.Context(), "localhost:2181"); err != nil || fetched != 2 {
			t.Errorf("%d tickets fetched: %v", fetched, err)
		}
	})
}
