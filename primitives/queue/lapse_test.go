package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// away keeps the sessions of the servers alive while nothing reaches one of them.
func away(srv *zktest.Server, lasts time.Duration) {
	for range lasts / time.Second {
		kit.Pass(time.Second)
		srv.Restore(srv.Backup())
	}
}

func claimsOf(srv *zktest.Server) (all []string) {
	for _, p := range srv.Paths() {
		if strings.HasPrefix(p, at+"/claims/") {
			all = append(all, p)
		}
	}
	return all
}

// TestFreedTwice: a consumer lapses, and gives its claim back. The servers are busy, and then the
// deletion is done but its reply is lost, with the connection. The consumer claims the item again.
// The deletion is repeated after a pause: it must not delete the new claim.
func TestFreedTwice(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		far := gated(t, srv)
		q := open(t, far.Session, nil)
		put(t, q, "x")
		c := consume(t, q, 1)
		x := next(t, c)
		events := far.Events(t.Context())
		kit.Await[session.Connected](t, events)
		kit.Pass(20 * time.Second)
		far.Cut()
		away(srv, 30*time.Second)
		check.Fails(0, x.Ack(t.Context()))(t, queue.ErrNotClaimed)
		claim := at + "/claims/*"
		for range 9 {
			srv.AnswerError(zktest.Match{Op: zktest.OpSetData, Path: claim, Session: far.ID()}, -127)
		}
		srv.DropReply(zktest.Match{Op: zktest.OpDelete, Path: claim, Session: far.ID()})
		far.Mend()
		again := next(t, c)
		check.Equal(t, string(again.Data), "x")
		t.Log("far has it again", claimsOf(srv))
		other := consume(t, open(t, s[0], nil), 2)
		select {
		case dup := <-other.Items():
			t.Logf("near has %s too; far's context: %v", dup.Data, context.Cause(again.Context()))
			if context.Cause(again.Context()) == nil {
				t.Errorf("two consumers work on one item at once")
			}
		case <-time.After(time.Minute):
			t.Log("held; claims:", claimsOf(srv))
		}
		for _, ev := range kit.Drain(events) {
			t.Log(ev)
		}
		err := again.Ack(t.Context())
		t.Log("far's Ack:", err, errors.Is(err, queue.ErrNotClaimed))
	})
}

// TestAbandonedClaim: the claim of a consumer is lost with its connection, and the session lapses.
// The consumer is closed meanwhile. When the session is back, it claims nothing any more.
func TestAbandonedClaim(t *testing.T) {
	for _, when := range []string{"before the lapse", "after the lapse"} {
		for name, lose := range map[string]func(*zktest.Server, zktest.Match){
			"request": (*zktest.Server).DropRequest, "reply": (*zktest.Server).DropReply,
		} {
			t.Run(when+", "+name+" lost", func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					far := gated(t, srv)
					c := check.Have(open(t, far.Session, nil).Consume(&queue.ConsumeOptions{Prefetch: 1}))(t)
					near := open(t, s[0], nil)
					put(t, near, "first")
					check.OK(t, next(t, c).Ack(t.Context()))
					kit.Pass(20 * time.Second)
					id := far.ID()
					lose(srv, zktest.Match{Op: zktest.OpMulti, Path: at + "/claims/*", Session: id})
					far.Refuse()
					put(t, near, "x")
					check.Must(t, srv.AwaitFault(time.Minute))
					var closed <-chan error
					shut := func() { closed = kit.Begin(func() error { c.Close(); return nil }) }
					if when == "before the lapse" {
						shut()
					}
					away(srv, 30*time.Second)
					if when != "before the lapse" {
						shut()
					}
					check.OK(t, answered(t, closed))
					far.Mend()
					kit.Pass(time.Minute)
					check.Equal(t, far.ID(), id, "the session")
					check.EqualSlices(t, claimsOf(srv), nil, "claims in a session that lives")
					other := consume(t, near, 1)
					check.EqualSlices(t, acknowledged(t, other, time.Minute), []string{"x"}, "items")
				})
			})
		}
	}
}

// TestAttemptsAfterALapse: an item whose claim has lapsed is delivered again when the session is
// connected, with the number that it has after a crash of its consumer.
func TestAttemptsAfterALapse(t *testing.T) {
	attempts := func(expires bool) (all []int) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			far := gated(t, srv)
			put(t, open(t, s[0], nil), "x")
			c := consume(t, open(t, far.Session, nil), 1)
			id := far.ID()
			for range 3 {
				item := next(t, c)
				all = append(all, item.Attempt)
				kit.Pass(20 * time.Second)
				far.Cut()
				if expires {
					kit.Pass(30 * time.Second)
				} else {
					away(srv, 30*time.Second)
				}
				check.Fails(0, item.Ack(t.Context()))(t, queue.ErrNotClaimed)
				far.Mend()
			}
			check.Equal(t, far.ID() == id, !expires, "the session is the same")
		})
		return all
	}
	check.EqualSlices(t, attempts(false), attempts(true))
}
