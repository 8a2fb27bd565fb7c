package conn

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/clock"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// A Session has the state that the epochs of a session share. Its fields are set before the first
// epoch begins, and are constant from then on.
type Session struct {
	Options

	Clock   *clock.Clock
	Order   *order.Order // of all answers and events that the session delivers
	Servers *servers.List
	Workers *workers.Group
	Logger  *slog.Logger
	Owner   Owner

	// Wake holds a value when the session must tend the epoch: see Epoch.Tend.
	Wake chan struct{}

	// The numbers of parties that rely on it, and that hold what excludes others, see Rely and
	// Hold; changed with the newest epoch locked.
	relied, held atomic.Int32
}

// Options has those options of the session that concern its connections.
type Options struct {
	Timeout, ServerTick, Rebalance time.Duration
	MaxRequest, MaxReply           int
	ReadOnly                       bool
	Auth                           []wire.Request // one request for each credential
	Authenticate                   Authenticate   // nil for none

	Lenient   bool // an answer of any leader extends the lease
	Committed bool // only the session's own transactions do
}

// An Authenticate exchanges tokens with a server. Its function present sends a token, and returns
// the token in the reply.
type Authenticate func(ctx context.Context, server string, present func(token []byte) ([]byte, error)) error

// An Owner is the session above its epochs. Its methods must not block. They are called with locks
// of the epoch held, unless their comments say otherwise.
type Owner interface {
	// Tell receives a report about an epoch.
	Tell(r Report)

	// Fired receives the event of a watch, in the session's order. No lock is held.
	Fired(e *Epoch, ev wire.Event)

	// Name returns an error that names the operation and the path. If err names them already, it
	// returns err.
	Name(op, path string, err error) error

	// Observe receives the duration of a call, and its outcome, in the session's order. No lock is
	// held.
	Observe(op string, took time.Duration, err error)

	// ErrorOf returns the error for a code, or nil if the code is not an error.
	ErrorOf(code wire.Code) error
}

// A Report has the fate of an epoch.
//
//sumtype:decl
type Report interface{ report() }

type (
	// Established means that a connection takes calls.
	Established struct {
		Epoch   int
		Lapses  int32 // of the epoch, see Live
		ID      int64
		Timeout time.Duration // negotiated
		Server  string
		Past    int64 // the newest zxid that earlier epochs have seen
	}
	// Severed means that the connection is gone. The lease lasts until the deadline; zero if
	// nothing needs it.
	Severed struct {
		Epoch    int
		Deadline time.Time
	}
	// Rejected means that the servers do not have the session any more.
	Rejected struct{ Epoch int }
	// Changed means that a read-only server begins to answer reads, or that every server has
	// refused the credentials.
	Changed struct{}
)

func (Established) report() {}
func (Severed) report()     {}
func (Rejected) report()    {}
func (Changed) report()     {}

// Poke makes the loop of the session tend the epoch.
func (s *Session) Poke() {
	select {
	case s.Wake <- struct{}{}:
	default:
	}
}

// strict reports whether only commits of a quorum extend the lease.
func (s *Session) strict() bool { return !s.Lenient && s.relied.Load() > 0 }

// bound reports whether the lease matters to a recipe, so that its end must not be missed.
func (s *Session) bound() bool { return s.relied.Load() > 0 || s.held.Load() > 0 }

// Rely adds n to the number of parties that rely on the session. newest is the newest epoch, or
// nil. The caller must prevent that another epoch begins during the call.
func (s *Session) Rely(newest *Epoch, n int32) {
	if newest == nil {
		s.relied.Add(n)
		return
	}
	newest.mu.Lock()
	defer newest.mu.Unlock()
	switch s.relied.Add(n) {
	case 0:
		newest.rest()
	case n: // the first party
		newest.rely()
	}
}

// Hold adds n to the number of parties that hold what excludes others. The arguments are those of
// Rely.
func (s *Session) Hold(newest *Epoch, n int32) {
	if newest == nil {
		s.held.Add(n)
		return
	}
	newest.mu.Lock()
	defer newest.mu.Unlock()
	if held := s.held.Add(n); held == 0 || held == n {
		newest.settle()
	}
}

// Retry returns what Later begins with for an action that concerns the path.
func (s *Session) Retry(path string) *workers.Retry {
	return &workers.Retry{Pauses: workers.NewPauses(20*time.Millisecond, 5*time.Second), Ended: func(attrs []any) {
		select {
		case <-s.Workers.Closing:
		default:
			s.Workers.Go(func() { s.Logger.Info("not trying any more", append(attrs, "path", path)...) })
		}
	}}
}

// Later repeats a failed action after the next pause, in the session's order. Retry is nil for the
// first repetition; the result is the argument for the next one, until [workers.Retry.End]. If the
// session is being closed, the action is not repeated. The caller may hold locks.
func (s *Session) Later(retry *workers.Retry, path string, why error, do func()) *workers.Retry {
	if retry == nil {
		retry = s.Retry(path)
	}
	pause := time.After(retry.Pauses.NextBackOff())
	attrs, say := retry.Again()
	s.Workers.Go(func() {
		if say {
			s.Logger.Warn("trying again", append(attrs, "path", path, "reason", why)...)
		}
		select {
		case <-pause:
			s.Order.Put(do)
		case <-s.Workers.Closing:
		}
	})
	return retry
}
