package lock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestHeirWithoutNode: the node of the next in line is changed, and deleted before it has
// been read again. The deletion of the one ahead is no grant then.
func TestHeirWithoutNode(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		ctx := t.Context()
		holder := mustAcquire(t, b, "/heir")
		heir := check.Open(lock.New(a, "/heir", nil))(t)
		events := heir.Events()
		if ev := <-events; ev != (lock.Waiting{Ahead: 1}) {
			t.Fatal(ev)
		}
		synctest.Wait() // until it watches
		line := check.Have(lock.Contenders(ctx, b, "/heir", nil))(t)
		own := line[1].Node
		srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: a.ID()}, time.Second)
		check.Have(b.Set(ctx, own, []byte("x"), session.AnyVersion))(t)
		check.Must(t, b.Delete(ctx, own, session.AnyVersion))
		check.Must(t, holder.Release(ctx))
		next := mustAcquire(t, b, "/heir") // before it knows
		synctest.Wait()
		check.Equal(t, heir.Token(), 0, "the token of", heir.Node(), "beside", next.Node())
		next.Close()
		for ev := range events {
			if acquired, ok := ev.(lock.Acquired); ok {
				check.True(t, acquired.Token > next.Token(), "%v after token %d", acquired, next.Token())
				break
			}
		}
	})
}

// TestEventGrants: after one watch has done its work, the next one still grants.
func TestEventGrants(t *testing.T) {
	withSessions(t, 4, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		var line []*lock.Lock
		for _, s := range all {
			line = append(line, joinAs(t, lock.Exclusive, s, "/l", nil))
		}
		for i := range 3 {
			before := srv.RequestsOf(all[i+1].ID())
			mustRelease(t, line[i])
			after := srv.RequestsOf(all[i+1].ID())
			n := kit.WithoutSyncs(after).Total() - kit.WithoutSyncs(before).Total()
			check.True(t, holds(line[i+1]) && n == 0, "contender %d has needed %d requests", i+1, n)
		}
	})
}

// TestMarks: a holder is told of a mark once, whenever it was written and by whom.
func TestMarks(t *testing.T) {
	for _, test := range []struct {
		name string
		data string
		no   bool // it is no mark
	}{
		{"published", "unlock", false},
		{"published, with data", "unlock\nme", false},
		{"published, with a deadline", "unlock 30s\nme", false},
		{"Curator's", "__REVOKE__", false},
		{"none", "", true},
		{"other data", "unlocked", true},
		{"bad deadline", "unlock soon", true},
		{"no deadline", "unlock -3s", true},
	} {
		for when, at := range []string{"held", "waiting", "before the first read"} {
			runWithSessions(t, test.name+", "+at, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				ctx := t.Context()
				var ahead *lock.Lock
				if when > 0 {
					ahead = joinAs(t, lock.Exclusive, all[1], "/l", nil)
				}
				if when == 2 { // its first read of its node is late
					srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: all[0].ID()}, time.Second)
				}
				l := joinAs(t, lock.Read, all[0], "/l", &lock.Options{Data: []byte("me")})
				line, err := lock.Contenders(ctx, all[1], "/l", nil)
				check.Require(t, err == nil && len(line) != 0, "%v %v", line, err)
				mine := line[len(line)-1]
				check.Have(all[1].Set(ctx, mine.Node, []byte(test.data), session.AnyVersion))(t)
				if when == 2 {
					<-time.After(2 * time.Second)
				}
				synctest.Wait()
				line, err = lock.Contenders(ctx, all[1], "/l", nil)
				check.True(t, err == nil && line[len(line)-1].Revoked != test.no, "%+v, %v", line, err)
				if when > 0 {
					check.None(t, l.Revoked(), "it is revoked, and not held")
					mustRelease(t, ahead)
				}
				check.Require(t, holds(l), "it is not held")
				select {
				case <-l.Revoked():
					check.False(t, test.no, "it is revoked")
				default:
					check.True(t, test.no, "it is not revoked")
				}
				// Once.
				for range 2 {
					check.Have(all[1].Set(ctx, mine.Node, []byte(test.data), session.AnyVersion))(t)
				}
				synctest.Wait()
				check.Must(t, all[1].Delete(ctx, mine.Node, session.AnyVersion))
				<-l.Done()
				want := lock.ErrRevoked
				if test.no {
					want = lock.ErrNodeDeleted
				}
				if err := l.Err(); !errors.Is(err, want) || !errors.Is(err, lock.ErrLost) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestMarkEvents: the events of one who is asked, and forced.
func TestMarkEvents(t *testing.T) {
	withSessions(t, 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx := t.Context()
		holder := joinAs(t, lock.Exclusive, all[1], "/l", nil)
		l := check.Open(lock.NewWrite(all[0], "/l", nil))(t)
		events := l.Events()
		synctest.Wait()
		line := check.Have(lock.Contenders(ctx, all[1], "/l", nil))(t)
		begun := time.Now()
		check.Have(all[1].Set(ctx, line[1].Node, []byte("unlock 30s"), session.AnyVersion))(t)
		mustRelease(t, holder)
		check.Must(t, all[1].Delete(ctx, line[1].Node, session.AnyVersion))
		var kinds []string
		for ev := range events {
			switch ev := ev.(type) {
			case lock.Waiting:
				kinds = append(kinds, "waiting")
			case lock.Acquired:
				kinds = append(kinds, "acquired")
			case lock.Revoked:
				kinds = append(kinds, "revoked")
				check.Equal(t, ev.Deadline.Sub(begun), 30*time.Second, "it will be forced after")
			case lock.Lost:
				kinds = append(kinds, "lost")
				check.Is(t, ev.Err, lock.ErrRevoked)
			case lock.Suspended, lock.Resumed, lock.Released:
				t.Error(ev)
			}
		}
		check.EqualSlices(t, kinds, []string{"waiting", "acquired", "revoked", "lost"})
	})
}

// TestMarkedWaiterThatStandsAnew: it was its former place that was asked for.
func TestMarkedWaiterThatStandsAnew(t *testing.T) {
	withSessions(t, 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx := t.Context()
		holder, l := joinAs(t, lock.Exclusive, all[1], "/l", nil), joinAs(t, lock.Exclusive, all[0], "/l", nil)
		line := check.Have(lock.Contenders(ctx, all[1], "/l", nil))(t)
		check.Have(all[1].Set(ctx, line[1].Node, []byte("unlock"), session.AnyVersion))(t)
		synctest.Wait()
		check.Must(t, all[1].Delete(ctx, line[1].Node, session.AnyVersion))
		synctest.Wait()
		mustRelease(t, holder)
		check.Require(t, holds(l), "it is not held")
		check.None(t, l.Revoked(), "it is revoked")
	})
}
