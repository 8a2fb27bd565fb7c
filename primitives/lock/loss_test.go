package lock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestReasonOfLoss: a holder is told why its node is gone: because the session has ended, of which the
// deletion is the first news, or because somebody has deleted it.
func TestReasonOfLoss(t *testing.T) {
	const latency = 10 * time.Millisecond
	for _, row := range []struct {
		what string
		do   func(t *testing.T, srv *zktest.Server, operator, holder *session.Session, node string)
		want error
		says string        // at the end
		most time.Duration // until it is told
	}{
		{"the server ends the session", func(_ *testing.T, srv *zktest.Server, _, holder *session.Session, _ string) {
			srv.Expire(holder.ID())
		}, session.ErrExpired, "expired", time.Second},
		{"an operator deletes the node", func(t *testing.T, _ *zktest.Server, operator, _ *session.Session, node string) {
			remove(t, operator, node)
		}, lock.ErrNodeDeleted, "deleted by another client", 4 * latency},
		{"nobody answers", func(t *testing.T, srv *zktest.Server, operator, holder *session.Session, node string) {
			srv.Freeze(holder.ID(), zktest.ToClientButEvents)
			remove(t, operator, node)
		}, lock.ErrNodeDeleted, "deleted by another client, or with the session", 2*latency + 250*time.Millisecond},
		{"nobody answers, and the session ends meanwhile", func(_ *testing.T, srv *zktest.Server, _, holder *session.Session, _ string) {
			srv.Expire(holder.ID())
			srv.Freeze(holder.ID(), zktest.ToClientButEvents)
		}, lock.ErrNodeDeleted, "deleted by another client, or with the session", 2*latency + 250*time.Millisecond},
		{"the connection is lost at that moment, and comes back", func(t *testing.T, srv *zktest.Server, operator, holder *session.Session, node string) {
			remove(t, operator, node)
			srv.Disconnect(holder.ID())
		}, lock.ErrNodeDeleted, "deleted by another client", time.Second},
	} {
		for _, layout := range []lock.Layout{lock.Standard, lock.Prioritized} {
			for _, kind := range []lock.Kind{lock.Write, lock.Read} {
				t.Run(fmt.Sprintf("%s, %v %v", row.what, layout, kind), func(t *testing.T) {
					withSessions(t, 3, zktest.Config{Latency: latency}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
						for i := range 3 {
							holder, err := opens[kind].acquire(t.Context(), all[0], fmt.Sprint("/l", i), &lock.Options{Layout: layout})
							if err != nil {
								t.Fatal(err)
							}
							<-time.After(time.Second)
							began := time.Now()
							row.do(t, srv, all[1], all[0], holder.Node())
							<-holder.Done()
							if took := time.Since(began); took > row.most {
								t.Errorf("it is told after %v", took)
							}
							for _, err := range []error{session.ErrExpired, lock.ErrNodeDeleted} {
								if got, want := errors.Is(holder.Err(), err), errors.Is(row.want, err); got != want {
									t.Errorf("it is told %v, want %v", holder.Err(), row.want)
								}
							}
							if !strings.HasSuffix(holder.Err().Error(), row.says) {
								t.Errorf("it is told %v, want %s", holder.Err(), row.says)
							}
							srv.Thaw(all[0].ID())
							<-time.After(time.Minute)
							synctest.Wait()
						}
					})
				})
			}
		}
	}
}

// remove deletes a node, as an operator does.
func remove(t *testing.T, s *session.Session, node string) {
	t.Helper()
	if err := s.Delete(t.Context(), node, session.AnyVersion); err != nil {
		t.Error(err)
	}
}
