package config

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestEndedValueOwnsNothing: what a handle owns ends with its machine, and not before.
func TestEndedValueOwnsNothing(t *testing.T) {
	var v Value[string]
	cancelled := false
	v.owned.Keep("a subscription", owned.Func(func() { cancelled = true }))
	m := fresh()
	v.observe(m, nil)
	check.False(t, cancelled, "it has ended before the handle")
	m.phase = ended
	v.observe(m, nil)
	check.True(t, cancelled, "it goes on after the handle")
}

// A counted session counts its subscriptions.
type counted struct {
	client.Session
	subscriptions atomic.Int32
}

func (c *counted) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	c.subscriptions.Add(1)
	cancelled := c.Session.Subscribe(tell)
	return func() {
		c.subscriptions.Add(-1)
		cancelled()
	}
}

// TestClosedTransactorOwnsNothing: the session keeps nothing for a transactor that was closed,
// however often that was.
func TestClosedTransactorOwnsNothing(t *testing.T) {
	opts := session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}
	kit.Sessions(t, zktest.Config{Tick: time.Second}, 1, opts, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		tr := check.Have(NewTransactor(s[0], "/accounts", nil))(t)
		c := &counted{Session: tr.once.Session}
		tr.once.Session = c
		check.OK(t, tr.Do(t.Context(), func(tx *Tx) error { return Store(tx, "a", Text, "x") }))
		check.AtLeast(t, c.subscriptions.Load(), 1)
		for range 2 {
			tr.Close()
			check.Equal(t, c.subscriptions.Load(), 0, "subscriptions of a closed transactor")
		}
	})
}
