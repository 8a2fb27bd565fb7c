package config_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestReadBeforeALapse: a value is read, and the session lapses. Meanwhile the servers come back
// with older data, and another value has the version. It is not replaced unread.
func TestReadBeforeALapse(t *testing.T) {
	for name, update := range map[string]func(ctx context.Context, s *session.Session, f func(old int) int) error{
		"Value.Update": func(ctx context.Context, s *session.Session, f func(old int) int) error {
			v, err := config.Open(s, "/values/a", config.JSON[int], nil)
			if err != nil {
				return err
			}
			defer v.Close()
			return v.Update(ctx, func(old int) (int, error) { return f(old), nil })
		},
		"Transactor.Do": func(ctx context.Context, s *session.Session, f func(old int) int) error {
			x, err := config.NewTransactor(s, "/values", nil)
			if err != nil {
				return err
			}
			defer x.Close()
			return x.Do(ctx, func(tx *config.Tx) error {
				old, _, err := config.Load(tx, "a", config.JSON[int])
				if err != nil {
					return err
				}
				return config.Store(tx, "a", config.JSON[int], f(old))
			})
		},
	} {
		for _, relies := range []bool{false, true} {
			t.Run(fmt.Sprint(name, relies), func(t *testing.T) {
				kit.Run(t, zktest.Config{Tick: time.Second, Latency: time.Millisecond}, func(w kit.World) {
					far, near := w.OpenGated(session.Options{Timeout: 6 * time.Second}), w.Open(session.Options{Timeout: 6 * time.Second})
					if relies {
						client.Of(far.Session).Rely(1)
					}
					check.Must(w, near.EnsurePath(w.Context(), "/values"))
					check.Have(near.Create(w.Context(), "/values/a", []byte("0"), session.Persistent))(w)
					check.Must(w, update(w.Context(), near, func(old int) int { return old })) // what a handle makes first is there
					before := w.Backup()
					check.Have(near.Set(w.Context(), "/values/a", []byte("1"), session.AnyVersion))(w)
					var read []int
					check.Must(w, update(w.Context(), far.Session, func(old int) int {
						if read = append(read, old); len(read) == 1 {
							far.Cut()
							kit.Pass(7 * time.Second) // the lease has ended
							w.Restore(before)
							other := w.Open(session.Options{Timeout: 6 * time.Second})
							check.Have(other.Set(w.Context(), "/values/a", []byte("100"), session.AnyVersion))(w)
							for range 10 { // beyond what the others have seen
								check.Have(other.Set(w.Context(), "/values", nil, session.AnyVersion))(w)
							}
							far.Mend()
						}
						return old + 10
					}))
					check.EqualSlices(w, read, []int{1, 100}, "read")
					data, _, err := near.Get(w.Context(), "/values/a")
					check.True(w, err == nil && string(data) == "110", "%s %v", data, err)
				})
			})
		}
	}
}
