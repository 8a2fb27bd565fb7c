package commit

import (
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The presence stands, and the connection is lost, before Join reads what becomes of the presence.
// The site acts all the same.
func TestLostWhileJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		srv := expect.Have(zktest.NewServer(zktest.Config{InProcess: true, Tick: time.Second}))(t)
		defer srv.Close()
		s := expect.Have(session.Open(ctx, srv.Addrs(), &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext}))(t)
		defer s.Close()
		tx := expect.Have(Begin(ctx, s, "/tx/t", &Options{Sites: []string{"a"}, Deadline: time.Minute}))(t)
		defer tx.Close()
		kept := expect.Have(keepPresence(s, "/tx", "a", JoinOptions{}))(t)
		synctest.Wait()
		srv.Disconnect(s.ID())
		synctest.Wait()
		p := act(s, "/tx", "a", kept)
		defer p.Close()
		select {
		case ev := <-p.Events():
			expect.Equal(t, ev.String(), "prepare t", "event")
		case <-tx.Done():
			t.Error("the site was not asked")
		}
	})
}
