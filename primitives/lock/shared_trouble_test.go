package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestHeirWithoutNode: the node of the next in line is changed, and deleted before it has
// been read again. The deletion of the one ahead is no grant then.
func TestHeirWithoutNode(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		ctx := t.Context()
		holder := mustAcquire(t, b, "/l")
		defer holder.Close()
		heir, err := lock.New(a, "/l", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer heir.Close()
		events := heir.Events()
		if ev := <-events; ev != (lock.Waiting{Ahead: 1}) {
			t.Fatal(ev)
		}
		synctest.Wait() // until it watches
		line, err := lock.Contenders(ctx, b, "/l", nil)
		if err != nil {
			t.Fatal(err)
		}
		own := line[1].Node
		srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: a.ID()}, time.Second)
		if _, err := b.Set(ctx, own, []byte("x"), session.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(ctx, own, session.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := holder.Release(ctx); err != nil {
			t.Fatal(err)
		}
		next := mustAcquire(t, b, "/l") // before it knows
		synctest.Wait()
		if heir.Token() != 0 {
			t.Errorf("%s is held as well as %s", heir.Node(), next.Node())
		}
		next.Close()
		for ev := range events {
			if acquired, ok := ev.(lock.Acquired); ok {
				if acquired.Token <= next.Token() {
					t.Errorf("%v after token %d", acquired, next.Token())
				}
				break
			}
		}
	})
}
