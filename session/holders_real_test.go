package session_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A listener hears messages of a log.
type listener struct {
	slog.Handler
	words string
	heard chan string
}

func listen(words string) *listener {
	return &listener{slog.DiscardHandler, words, make(chan string, 10)}
}

func (*listener) Enabled(context.Context, slog.Level) bool { return true }
func (l *listener) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *listener) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.words) {
		l.heard <- r.Message
	}
	return nil
}

// TestRealRoles: a session that relies finds out that its server follows, and leaves one that leads
// for one that follows; or that its server is alone.
func TestRealRoles(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	for _, servers := range []int{1, 3} {
		e := zktest.StartEnsemble(t, servers, zktest.NoSync(), startsSoon)
		words := "the server is alone"
		addrs := e.Addrs()
		if servers > 1 {
			words = "the server follows"
		}
		for at := ""; at != addrs[e.Leader()]; { // until one begins where it does not stay
			l := listen(words)
			s := check.Open(session.Open(check.Patient(t), addrs, &session.Options{Timeout: 2 * time.Second, Logger: slog.New(l)}))(t)
			defer s.Rely()()
			at = s.State().(session.Connected).Server
			zktest.Await(t, l.heard, func(string) bool { return true })
		}
	}
}
