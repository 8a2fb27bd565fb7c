package guide

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

// TestKeep: after each reason for a loss, the lock is held again, with a greater token. The error
// of the work, and the end of the context, end it.
func TestKeep(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv, nil)
	for name, lose := range map[string]func(){
		"expired": func() { srv.Expire(s.ID()) },
		"deleted": func() {
			line, err := lock.Contenders(t.Context(), s, "/l", nil)
			if err == nil {
				err = s.Delete(t.Context(), line[0].Node, session.AnyVersion)
			}
			if err != nil {
				t.Error(err)
			}
		},
	} {
		ours := errors.New("ours")
		var tokens []int64
		err := Keep(t.Context(), s, "/l", func(ctx context.Context, token int64) error {
			tokens = append(tokens, token)
			if len(tokens) == 3 {
				return ours
			}
			lose()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrLost) {
				t.Error(name, cause)
			}
			return ctx.Err()
		})
		if !errors.Is(err, ours) || len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
			t.Error(name, err, tokens)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Keep(ctx, s, "/l", func(ctx context.Context, _ int64) error { cancel(); <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestKeepEnds: what would come again is returned, and not tried for ever.
func TestKeepEnds(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv, nil)
	kazoo, err := lock.Acquire(t.Context(), s, "/l", &lock.Options{Layout: lock.Kazoo})
	if err != nil {
		t.Fatal(err)
	}
	defer kazoo.Close()
	never := func(context.Context, int64) error { t.Error("it is not held"); return nil }
	if err := Keep(t.Context(), s, "/l", never); !errors.Is(err, lock.ErrLayout) {
		t.Error(err)
	}
	s.Close()
	if err := Keep(t.Context(), s, "/other", never); !errors.Is(err, session.ErrClosed) {
		t.Error(err)
	}
}

// TestLoop: work begins anew after a loss, and stops at the end.
func TestLoop(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var story []string
	begun := 0
	err := Loop(ctx, s, "/l", func(int64) func() {
		story = append(story, "begin")
		if begun++; begun == 1 {
			srv.Expire(s.ID())
		} else {
			cancel()
		}
		return func() { story = append(story, "stop") }
	})
	if want := []string{"begin", "stop", "begin", "stop"}; !errors.Is(err, context.Canceled) || !slices.Equal(story, want) {
		t.Error(err, story)
	}
	kazoo, err := lock.Acquire(t.Context(), s, "/l", &lock.Options{Layout: lock.Kazoo})
	if err != nil {
		t.Fatal(err)
	}
	defer kazoo.Close()
	if err := Loop(t.Context(), s, "/l", nil); !errors.Is(err, lock.ErrLayout) {
		t.Error(err)
	}
	err = Loop(t.Context(), s, "/m", func(int64) func() {
		srv.Expire(s.ID())
		return s.Close // no lock can be made any more
	})
	if !errors.Is(err, session.ErrClosed) {
		t.Error(err)
	}
}

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

func (r *record) options() *session.Options {
	return &session.Options{Observer: r, Logger: slog.New(slog.NewTextHandler(r, nil))}
}

// TestServe: nothing is lost, and no ephemeral node is left.
func TestServe(t *testing.T) {
	srv := zktest.Start(t)
	var r record
	s := open(t, srv, r.options())
	ctx, cancel := context.WithCancel(t.Context())
	worked := false
	err := Serve(ctx, s, "a", func(ctx context.Context, _ int64) error {
		cancel()
		<-ctx.Done()
		worked = true
		return nil
	})
	if !errors.Is(err, context.Canceled) || !worked {
		t.Error(err, worked)
	}
	if len(r.lost) > 0 || strings.Contains(r.log.String(), "WARN") {
		t.Errorf("%v\n%s", r.lost, r.log.String())
	}
	if len(srv.Sessions()) > 0 {
		t.Error("a session is left")
	}
	for _, path := range srv.Paths() {
		if strings.HasPrefix(path, "/members/") || strings.Contains(path, "_c_") {
			t.Error("left:", path)
		}
	}
}

// TestSessionClosedFirst: a holder loses its lock, and the Observer receives that.
func TestSessionClosedFirst(t *testing.T) {
	var r record
	s := open(t, zktest.Start(t), r.options())
	l, err := lock.Acquire(t.Context(), s, "/l", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	<-l.Done()
	if err := l.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, session.ErrClosed) {
		t.Error(err)
	}
	if len(r.lost) != 1 || strings.Contains(r.log.String(), "WARN") {
		t.Errorf("%v\n%s", r.lost, r.log.String())
	}
}

// TestCloseWhileDown: handles and session end while no server answers.
func TestCloseWhileDown(t *testing.T) {
	srv := zktest.Start(t, zktest.Tick(50*time.Millisecond))
	s := open(t, srv, &session.Options{Timeout: time.Second, CloseTimeout: 100 * time.Millisecond})
	l, err := lock.Acquire(t.Context(), s, "/l", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv.Refuse(true)
	srv.Disconnect(0)
	l.Close()
	s.Close()
	<-l.Done()
}

// TestTwoInOneSession: contenders of one session exclude each other.
func TestTwoInOneSession(t *testing.T) {
	s := open(t, zktest.Start(t), nil)
	l, err := lock.Acquire(t.Context(), s, "/l", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := lock.TryAcquire(t.Context(), s, "/l", nil); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
}

// TestStart: a service starts while no server is up, with the chroot of its connect string.
func TestStart(t *testing.T) {
	srv := zktest.Start(t)
	srv.Refuse(true)
	s, err := Start(srv.Addrs()[0]+"/apps/billing", session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := lock.New(s, "/l", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv.Refuse(false)
	zktest.Await(t, l.Events(), func(ev lock.Event) bool { _, acquired := ev.(lock.Acquired); return acquired })
	if !slices.Contains(srv.Paths(), "/apps/billing/l") {
		t.Error(srv.Paths())
	}
	l.Close()
}
