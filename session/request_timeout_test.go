package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRequestTimeout bounds requests without a deadline, and no others. The error says what is
// known of the outcome, and a node in doubt does not stay.
func TestRequestTimeout(t *testing.T) {
	const bound = 3 * time.Second
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Timeout, opts.RequestTimeout = 20*time.Second, bound
		s := mustOpen(t, srv.Addrs(), opts)
		if err := s.Sync(t.Context(), "/"); err != nil { // writes wait for the first answer of a connection
			t.Fatal(err)
		}
		set := func(ctx context.Context) error {
			_, err := s.Set(ctx, "/", nil, session.AnyVersion)
			return err
		}
		get := func(ctx context.Context) error {
			_, _, err := s.Get(ctx, "/")
			return err
		}
		create := func(ctx context.Context) error {
			_, err := s.Create(ctx, "/e-", nil, session.EphemeralSequential)
			return err
		}
		for _, row := range []struct {
			name    string
			sent    bool // the server has the request, and its reply does not come
			request func(context.Context) error
			unknown bool
		}{
			{"a write that was sent", true, set, true},
			{"a read that was sent", true, get, false},
			{"an ephemeral sequential node", true, create, true},
			{"a write that was not sent", false, set, false},
			{"a read that was not sent", false, get, false},
		} {
			if row.sent {
				srv.Freeze(s.ID(), zktest.ToClient)
			} else {
				srv.Refuse(true)
				srv.Disconnect(0)
				synctest.Wait()
			}
			begun := time.Now()
			err := row.request(t.Context())
			switch {
			case !errors.Is(err, context.DeadlineExceeded), !strings.Contains(err.Error(), "Options.RequestTimeout"), time.Since(begun) != bound:
				t.Errorf("%s: %v after %v", row.name, err, time.Since(begun))
			case errors.Is(err, session.ErrUnknownOutcome) != row.unknown:
				t.Errorf("%s: %v", row.name, err)
			}
			srv.Refuse(false)
			srv.Thaw(s.ID())
			if err := errors.Join(s.Await(t.Context()), s.Sync(t.Context(), "/")); err != nil { // what was held up has arrived
				t.Fatal(err)
			}
		}
		// A caller with a deadline has its own, longer or shorter.
		for _, own := range []time.Duration{time.Second, 2 * bound} {
			srv.Refuse(true)
			srv.Disconnect(0)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), own)
			begun := time.Now()
			if err := get(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "RequestTimeout") || time.Since(begun) != own {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
			cancel()
			srv.Refuse(false)
			check.Must(t, s.Await(t.Context()))
		}
		pass(10 * time.Second) // and the janitor is done
		names, _, err := s.Children(t.Context(), "/")
		check.True(t, err == nil && len(names) == 1, "%v, %v", names, err)
	})
}
