package lock_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A slowHandler calls handle with every record, and waits for it.
type slowHandler struct {
	slog.Handler
	handle func()
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	h.handle()
	return nil
}

// TestHolderIsResumed: a reconnect that is faster than the news of the loss does not leave
// the holder suspended.
func TestHolderIsResumed(t *testing.T) {
	var frozen atomic.Pointer[func()]
	opts := session.Options{Timeout: 8 * time.Second, Logger: slog.New(slowHandler{slog.DiscardHandler, func() {
		if thaw := frozen.Swap(nil); thaw != nil {
			(*thaw)()
			<-time.After(10 * time.Millisecond) // that a reconnect needs
		}
	}})}
	inBubble(t, opts, func(t *testing.T, srv *zktest.Server, a, _ *session.Session) {
		held := mustAcquire(t, a, "/l")
		var told []lock.Event
		go func() {
			for ev := range held.Events() {
				told = append(told, ev)
			}
		}()
		<-time.After(10 * time.Second)
		srv.Freeze(a.ID(), zktest.Both)
		thaw := func() { srv.Thaw(0) }
		frozen.Store(&thaw)
		<-time.After(time.Hour)
		synctest.Wait()
		_, ok := told[len(told)-1].(lock.Suspended)
		check.False(t, ok, "an hour after the reconnect: %v", told)
	})
}
