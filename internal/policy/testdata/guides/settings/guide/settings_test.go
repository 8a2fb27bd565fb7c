package guide

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, srv *zktest.Server, opts *session.Options) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), srv.Addrs(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestCheckChroot(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv, nil)
	for _, path := range []string{"/apps", "/apps/billing"} {
		if _, err := s.Create(t.Context(), path, []byte("billing production"), session.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	start := func(chroot string) *session.Session { return open(t, srv, &session.Options{Chroot: chroot}) }
	right := start("/apps/billing")
	if err := CheckChroot(t.Context(), right, "billing production"); err != nil {
		t.Error(err)
	}
	if err := CheckChroot(t.Context(), right, "billing staging"); err == nil {
		t.Error("the chroot of another service passes")
	}
	wrong := start("/apps/biling")
	if err := CheckChroot(t.Context(), wrong, "billing production"); !errors.Is(err, session.ErrNoNode) {
		t.Error(err)
	}
	l, err := lock.Acquire(t.Context(), wrong, "/locks/report", nil) // what the guide warns of
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := CheckChroot(t.Context(), wrong, "billing production"); err == nil || errors.Is(err, session.ErrNoNode) {
		t.Error("made by a recipe:", err)
	}
}

// TestSecured: another user is refused, and two with the same credentials share a lock.
func TestSecured(t *testing.T) {
	srv := zktest.Start(t)
	secured := func(password string) *session.Session {
		opts := Secured("billing", password, nil)
		opts.TLS = nil // the server in memory has none
		return open(t, srv, &opts)
	}
	a, b, wrong := secured("secret"), secured("secret"), secured("another")
	l, err := lock.Acquire(t.Context(), a, "/secured/lock", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Acquire(t.Context(), wrong, "/secured/lock", nil); !errors.Is(err, session.ErrNoAuth) {
		t.Error(err)
	}
	if _, err := lock.TryAcquire(t.Context(), b, "/secured/lock", nil); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if l, err = lock.TryAcquire(t.Context(), b, "/secured/lock", nil); err != nil {
		t.Fatal(err)
	}
	l.Close()
}
