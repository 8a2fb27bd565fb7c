package lock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestReasonOfLoss: the first news of a loss is told at once, and is its reason: the deletion of
// the node, or the end of the session. No request is made to find out more.
func TestReasonOfLoss(t *testing.T) {
	const latency = 10 * time.Millisecond
	for _, row := range []struct {
		what  string
		do    func(t *testing.T, srv *zktest.Server, operator, holder *session.Session, node string)
		want  error
		most  time.Duration // until it is told
		alone bool          // the event alone tells it: no request is made
	}{
		{"the server ends the session, and the deletion is heard first", func(_ *testing.T, srv *zktest.Server, _, holder *session.Session, _ string) {
			srv.Expire(holder.ID())
		}, lock.ErrNodeDeleted, latency, true},
		{"an operator deletes the node", func(t *testing.T, _ *zktest.Server, operator, _ *session.Session, node string) {
			remove(t, operator, node)
		}, lock.ErrNodeDeleted, 2 * latency, true},
		{"an operator deletes the node, and nobody answers", func(t *testing.T, srv *zktest.Server, operator, holder *session.Session, node string) {
			srv.Freeze(holder.ID(), zktest.ToClientButEvents)
			remove(t, operator, node)
		}, lock.ErrNodeDeleted, 2 * latency, true},
		{"the server ends the session, and nobody answers", func(_ *testing.T, srv *zktest.Server, _, holder *session.Session, _ string) {
			srv.Freeze(holder.ID(), zktest.ToClientButEvents)
			srv.Expire(holder.ID())
		}, lock.ErrNodeDeleted, latency, true},
		{"an operator deletes the node, and the event is lost with the connection", func(t *testing.T, srv *zktest.Server, operator, holder *session.Session, node string) {
			srv.Freeze(holder.ID(), zktest.ToClient)
			remove(t, operator, node)
			srv.Disconnect(holder.ID())
			srv.Thaw(holder.ID())
		}, lock.ErrNodeDeleted, time.Second, false},
		{"the server ends the session, and the event is lost with the connection", func(_ *testing.T, srv *zktest.Server, _, holder *session.Session, _ string) {
			id := holder.ID()
			srv.Freeze(id, zktest.ToClient)
			srv.Expire(id)
			srv.Disconnect(id)
			srv.Thaw(id)
		}, session.ErrExpired, time.Second, false},
		{"the server ends the session, and the network is silent", func(_ *testing.T, srv *zktest.Server, _, holder *session.Session, _ string) {
			srv.Freeze(holder.ID(), zktest.Both)
			srv.Expire(holder.ID())
		}, session.ErrLapsed, 20 * time.Second, false},
	} {
		for _, layout := range []lock.Layout{lock.Standard, lock.Prioritized} {
			for _, kind := range []lock.Kind{lock.Write, lock.Read} {
				runWithSessions(t, fmt.Sprintf("%s, %v %v", row.what, layout, kind), 3, zktest.Config{Latency: latency}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
					for i := range 3 {
						holder := check.Have(opens[kind].acquire(t.Context(), all[0], fmt.Sprint("/l", i), &lock.Options{Layout: layout}))(t)
						<-time.After(time.Second)
						srv.ResetRequests()
						id, began := all[0].ID(), time.Now()
						row.do(t, srv, all[1], all[0], holder.Node())
						<-holder.Done()
						took, n := time.Since(began), srv.RequestsOf(id).Total()
						check.False(t, took > row.most || row.alone && n != 0, "it is told after %v and %d requests", took, n)
						for _, err := range []error{session.ErrExpired, session.ErrLapsed, lock.ErrNodeDeleted} {
							if got, want := errors.Is(holder.Err(), err), errors.Is(row.want, err); got != want {
								t.Errorf("it is told %v, want %v", holder.Err(), row.want)
							}
						}
						srv.Thaw(id)
						<-time.After(time.Minute)
					}
				})
			}
		}
	}
}

// remove deletes a node, as an operator does.
func remove(t *testing.T, s *session.Session, node string) {
	t.Helper()
	check.OK(t, s.Delete(t.Context(), node, session.AnyVersion))
}
