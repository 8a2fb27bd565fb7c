package guides

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/guides/service"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestKeep: after each reason for a loss, the lock is held again, with a greater token. The error
// of the work, and the end of the context, end it.
func TestKeep(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		for name, lose := range map[string]func(){
			"expired": func() { w.Expire(s.ID()) },
			"deleted": func() {
				line, err := lock.Contenders(w.Context(), s, "/l", nil)
				if err == nil {
					err = s.Delete(w.Context(), line[0].Node, session.AnyVersion)
				}
				check.OK(w, err)
			},
		} {
			ours := errors.New("ours")
			var tokens []int64
			err := service.Keep(w.Context(), s, "/l", func(ctx context.Context, token int64) error {
				tokens = append(tokens, token)
				if len(tokens) == 3 {
					return ours
				}
				lose()
				<-ctx.Done()
				check.Is(w, context.Cause(ctx), lock.ErrLost, name)
				return ctx.Err()
			})
			if !errors.Is(err, ours) || len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
				w.Error(name, err, tokens)
			}
		}
		ctx, cancel := context.WithCancel(w.Context())
		err := service.Keep(ctx, s, "/l", func(ctx context.Context, _ int64) error { cancel(); <-ctx.Done(); return ctx.Err() })
		check.Is(w, err, context.Canceled)
	})
}

// TestKeepEnds: an error that would come again is returned, and not tried for ever.
func TestKeepEnds(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		check.Open(lock.Acquire(w.Context(), s, "/l", &lock.Options{Layout: lock.Kazoo}))(w)
		never := func(context.Context, int64) error { w.Error("it is not held"); return nil }
		check.Is(w, service.Keep(w.Context(), s, "/l", never), lock.ErrLayout)
		s.Close()
		check.Is(w, service.Keep(w.Context(), s, "/other", never), session.ErrClosed)
	})
}

// TestLoop: work begins anew after a loss, and stops at the end.
func TestLoop(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		ctx, cancel := context.WithCancel(w.Context())
		var story []string
		begun := 0
		err := service.Loop(ctx, s, "/l", func(int64) func() {
			story = append(story, "begin")
			if begun++; begun == 1 {
				w.Expire(s.ID())
			} else {
				cancel()
			}
			return func() { story = append(story, "stop") }
		})
		check.Is(w, err, context.Canceled)
		check.EqualSlices(w, story, []string{"begin", "stop", "begin", "stop"})
		check.Open(lock.Acquire(w.Context(), s, "/l", &lock.Options{Layout: lock.Kazoo}))(w)
		check.Is(w, service.Loop(w.Context(), s, "/l", nil), lock.ErrLayout)
		err = service.Loop(w.Context(), s, "/m", func(int64) func() {
			w.Expire(s.ID())
			return s.Close // no lock can be made any more
		})
		check.Is(w, err, session.ErrClosed)
	})
}

// A record keeps the losses and the log of a session.
type record struct {
	session.NopObserver
	mu   sync.Mutex
	lost []error
	log  bytes.Buffer
}

func (r *record) Lost(_, _ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, err)
}

func (r *record) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(text)
}

func (r *record) options() session.Options {
	return session.Options{Observer: r, Logger: slog.New(slog.NewTextHandler(r, nil))}
}

// check fails the test unless there were so many losses, and no warning.
func (r *record) check(t testing.TB, losses int) {
	t.Helper()
	if len(r.lost) != losses || strings.Contains(r.log.String(), "WARN") {
		t.Errorf("%v\n%s", r.lost, r.log.String())
	}
}

// TestServe: nothing is lost, and no ephemeral node is left.
func TestServe(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		var r record
		ctx, cancel := context.WithCancel(w.Context())
		worked := false
		err := service.Serve(ctx, w.Open(r.options()), "a", func(ctx context.Context, _ int64) error {
			cancel()
			<-ctx.Done()
			worked = true
			return nil
		})
		check.Is(w, err, context.Canceled)
		check.True(w, worked, "the leader has not worked")
		r.check(w, 0)
		check.Len(w, w.Sessions(), 0)
		for _, path := range w.Paths() {
			if strings.HasPrefix(path, "/members/") || strings.Contains(path, "_c_") {
				w.Error("left:", path)
			}
		}
	})
}

// TestSessionClosedFirst: a holder loses its lock, and the Observer receives that.
func TestSessionClosedFirst(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		var r record
		s := w.Open(r.options())
		l := check.Have(lock.Acquire(w.Context(), s, "/l", nil))(w)
		s.Close()
		<-l.Done()
		check.Is(w, l.Err(), lock.ErrLost)
		check.Is(w, l.Err(), session.ErrClosed)
		r.check(w, 1)
	})
}

// TestCloseWhileDown: Close of a handle returns at the deadline of the session, and Close of the
// session after CloseTimeout.
func TestCloseWhileDown(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		opts := session.Options{Timeout: 10 * time.Second, CloseTimeout: 2 * time.Second}
		s := w.Open(opts)
		l := check.Have(lock.Acquire(w.Context(), s, "/l", nil))(w)
		w.Refuse(true)
		w.Disconnect(0)
		begun := time.Now()
		l.Close()
		check.AtMost(w, time.Since(begun), opts.Timeout)
		begun = time.Now()
		s.Close()
		check.AtMost(w, time.Since(begun), opts.CloseTimeout)
		<-l.Done()
	})
}

// TestTwoInOneSession: contenders of one session exclude each other.
func TestTwoInOneSession(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		check.Open(lock.Acquire(w.Context(), s, "/l", nil))(w)
		check.Fails(lock.TryAcquire(w.Context(), s, "/l", nil))(w, lock.ErrHeld)
	})
}

// TestStart: a service starts while no server is up, with the chroot of its connect string.
func TestStart(t *testing.T) {
	srv := zktest.Start(t) // with sockets, because a connect string has an address
	srv.Refuse(true)
	s := check.Open(service.Start(srv.Addrs()[0]+"/apps/billing", session.Options{}))(t)
	l := check.Open(lock.New(s, "/l", nil))(t)
	srv.Refuse(false)
	zktest.Await(t, l.Events(), func(ev lock.Event) bool { _, acquired := ev.(lock.Acquired); return acquired })
	check.True(t, slices.Contains(srv.Paths(), "/apps/billing/l"), "%v", srv.Paths())
}
