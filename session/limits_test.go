package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestPathAtTheLimit tries every length around what fits.
func TestPathAtTheLimit(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.MaxRequest = 160 << 10 // what the client below is given
		s := mustOpen(t, srv.Addrs(), opts)
		for n := opts.MaxRequest - 300; n < opts.MaxRequest+20; n += hasten.Sized(1, 7) {
			path := "/" + strings.Repeat("x", n-1)
			if _, _, err := s.Get(t.Context(), path); !errors.Is(err, session.ErrTooLarge) && !errors.Is(err, session.ErrNoNode) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	})
}

// TestDefaultLimits are those of the servers: requests of 1,048,575 bytes, and replies of
// 4 MiB.
func TestDefaultLimits(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		ctx := t.Context()
		const path, least, name = "/a", 20 + len("/a"), 1000
		const most = (4<<20 - replyHeader - 4 - 68) / (4 + name) // children, beside how many there are, and a Stat
		check.Have(s.Create(ctx, path, nil, session.Persistent))(t)
		for _, row := range []struct {
			bytes int // of the request
			fits  bool
		}{{1e6, true}, {1<<20 - 2, true}, {1<<20 - 1, true}, {1 << 20, false}, {2e6, false}} {
			_, err := s.Set(ctx, path, make([]byte, row.bytes-least), session.AnyVersion)
			check.True(t, (!row.fits || err == nil) && (row.fits || errors.Is(err, session.ErrTooLarge)) && !errors.Is(err, session.ErrUnknownOutcome), "%d bytes: %v", row.bytes, err)
		}
		for i := range most + 1 {
			check.Have(s.Create(ctx, fmt.Sprintf("/a/%0*d", name, i), nil, session.Persistent))(t)
			if i < most-1 {
				continue
			}
			if names, _, err := s.Children(ctx, path); i < most && len(names) != most || i == most && !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("%d children of %d, %v", len(names), i+1, err)
			}
		}
	})
}

// TestLargeReplyToWrite: what was done is not said to have failed.
func TestLargeReplyToWrite(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.MaxReply = 4 << 10
		s := mustOpen(t, srv.Addrs(), opts)
		var ops []session.Op
		for i := range 60 {
			ops = append(ops, session.CreateOp(fmt.Sprintf("/%0100d", i), nil, session.Ephemeral))
		}
		if _, err := s.Multi(t.Context(), ops...); !errors.Is(err, session.ErrUnknownOutcome) || !errors.Is(err, session.ErrTooLarge) {
			t.Error(err)
		}
	})
}

func TestChrootIsNotLeft(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Chroot = "/app"
		s := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		check.Must(t, s.EnsurePath(ctx, "/"))
		results, err := s.Multi(ctx, session.CreateOp("/", nil, session.PersistentSequential))
		check.True(t, err == nil && results[0].Path == "/0000000000", "created %+v, %v", results, err)
		check.Have(s.Create(ctx, "/", nil, session.PersistentSequential))(t)
		if names, _, err := s.Children(ctx, "/"); err != nil || len(names) != 2 {
			t.Errorf("below the chroot: %q, %v", names, err)
		}
	})
}

// TestSessionFull: a session refuses more ephemerals than servers can bear.
func TestSessionFull(t *testing.T) {
	withSession(t, func(t *testing.T, _ *zktest.Server, s *session.Session) {
		ctx := t.Context()
		name := strings.Repeat("x", 64<<10)
		var full error
		made := 0
		for ; made < 20 && full == nil; made++ {
			_, full = s.Create(ctx, fmt.Sprintf("/%d%s", made, name), nil, session.Ephemeral)
		}
		check.True(t, errors.Is(full, session.ErrSessionFull) && made == 16, "after %d nodes of 64 KiB: %v", made, full)
		check.Must(t, s.Delete(ctx, "/0"+name, session.AnyVersion))
		check.Have(s.Create(ctx, "/0"+name, nil, session.Ephemeral))(t) // after one was deleted
	})
}

// TestNodesCountOnce: a session with nodes of two thirds of the limit is not full, however long
// their answers have to wait.
func TestNodesCountOnce(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		requests, goOn, answers := s.Async(0), make(chan struct{}), make(chan error)
		requests.Delete("refused", session.AnyVersion, func(error) { <-goOn }) // holds up all answers
		create := func(ops ...session.Op) {
			requests.Multi(ops, func(_ []session.OpResult, err error) { answers <- err })
		}
		const nodes, limit = 700, 1 << 20
		path := "/" + strings.Repeat("n", 2*limit/3/nodes)
		for i := range nodes / 2 {
			create(session.CreateOp(fmt.Sprint(path, i), nil, session.Ephemeral), session.CreateOp(fmt.Sprint(path, i, "too"), nil, session.Ephemeral))
		}
		requests.Create(path, nil, session.Ephemeral, func(_ string, err error) { answers <- err })
		synctest.Wait()
		create(session.CreateOp(path+"last", nil, session.Ephemeral))
		close(goOn)
		for range nodes/2 + 2 {
			check.Must(t, <-answers)
		}
	})
}
