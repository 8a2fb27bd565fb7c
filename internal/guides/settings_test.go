package guides

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/guides/settings"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCheckChroot: a chroot with a typing error is noticed, also when a recipe has created it.
func TestCheckChroot(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		const name = "billing production"
		s := w.Open(session.Options{})
		for _, path := range []string{"/apps", "/apps/billing"} {
			check.Have(s.Create(w.Context(), path, []byte(name), session.Persistent))(w)
		}
		right, wrong := w.Open(session.Options{Chroot: "/apps/billing"}), w.Open(session.Options{Chroot: "/apps/biling"})
		check.OK(w, settings.CheckChroot(w.Context(), right, name))
		check.True(w, settings.CheckChroot(w.Context(), right, "billing staging") != nil, "the chroot of another service passes")
		check.Is(w, settings.CheckChroot(w.Context(), wrong, name), session.ErrNoNode)
		check.Have(lock.Acquire(w.Context(), wrong, "/locks/report", nil))(w).Close() // the guide warns of it
		if err := settings.CheckChroot(w.Context(), wrong, name); err == nil || errors.Is(err, session.ErrNoNode) {
			w.Error("made by a recipe:", err)
		}
	})
}

// TestSecured: another user is refused, and two with the same credentials share a lock.
func TestSecured(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		secured := func(password string) *session.Session {
			opts := settings.Secured("billing", password, nil)
			opts.TLS = nil // the server in memory has none
			return w.Open(opts)
		}
		const path = "/secured/lock"
		a, b, wrong := secured("secret"), secured("secret"), secured("another")
		l := check.Have(lock.Acquire(w.Context(), a, path, nil))(w)
		check.Fails(lock.Acquire(w.Context(), wrong, path, nil))(w, session.ErrNoAuth)
		check.Fails(lock.TryAcquire(w.Context(), b, path, nil))(w, lock.ErrHeld)
		check.OK(w, l.Release(w.Context()))
		check.Have(lock.TryAcquire(w.Context(), b, path, nil))(w).Close()
	})
}
