package once

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// smallServer plays with a session on a server that takes smaller requests than the session
// believes, and with a writer.
func smallServer(t *testing.T, play func(t *testing.T, srv *zktest.Server, s *session.Session, w *Writer)) {
	config := zktest.Config{Tick: time.Second, MaxRequest: 100_000, Latency: time.Millisecond}
	kit.Sessions(t, config, 1, session.Options{Timeout: 12 * time.Second, ServerTick: time.Second},
		func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			names := 0
			w := &Writer{Session: client.Of(all[0]), Dir: "/markers", Closed: errors.New("closed"), Name: func(int) string {
				names++
				return fmt.Sprint(names)
			}}
			play(t, srv, all[0], w)
		})
}

// creation creates a node with so many bytes.
func creation(path string, bytes int) session.Op {
	return session.CreateOp(path, make([]byte, bytes), session.Persistent)
}

// do writes, and waits for the answer.
func (w *Writer) do(ops ...session.Op) error {
	answered := make(chan error, 1)
	w.Begin(0, ops, func(_ []session.OpResult, err error) { answered <- err })
	return <-answered
}

// TestSmallServer: a transaction that is too large for the server costs two connections, and is
// refused. Then smaller ones are recommended.
func TestSmallServer(t *testing.T) {
	smallServer(t, func(t *testing.T, _ *zktest.Server, _ *session.Session, w *Writer) {
		suspended := 0
		unsubscribe := w.Session.Subscribe(func(ev session.Event) <-chan struct{} {
			if _, is := ev.(session.Suspended); is {
				suspended++
			}
			return nil
		})
		defer unsubscribe()
		many := func(n int) (ops []session.Op) {
			for i := range n {
				ops = append(ops, creation(fmt.Sprint("/many", i), 10_000))
			}
			return ops
		}
		check.True(t, w.Takes(many(60)...) && !w.Takes(many(120)...), "as large as the session may send")
		check.Is(t, w.do(many(60)...), session.ErrTooLarge)
		check.True(t, !w.Takes(many(60)...) && w.Takes(many(29)...) && w.Takes(creation("/x", 10)), "half of it")
		check.Is(t, w.do(many(29)...), session.ErrTooLarge)
		check.Is(t, w.do(many(14)...), session.ErrTooLarge)
		check.Equal(t, suspended, 6)
		check.Must(t, w.do(many(7)...))
		check.True(t, w.Takes(many(7)...) && !w.Takes(many(8)...), "as large as the newest that was done")
		check.Equal(t, suspended, 6)
		<-time.After(remembers - time.Minute)
		check.True(t, !w.Takes(many(8)...), "within the hour")
		<-time.After(2 * time.Minute)
		check.True(t, w.Takes(many(60)...), "after an hour the servers may be others")
		closed := make(chan struct{})
		w.Close(func() { close(closed) })
		<-closed
	})
}

// TestLostTwice: the reply to a large transaction is lost twice, or the request.
func TestLostTwice(t *testing.T) {
	const large = 50_000
	multi := zktest.Match{Op: zktest.OpMulti}
	for _, row := range []struct {
		name  string
		size  int
		lose  func(*zktest.Server, zktest.Match)
		times int
		first bool // whether another as large is answered before
		want  error
	}{
		{"the reply", large, (*zktest.Server).DropReply, 1, false, nil},
		{"a request", large, (*zktest.Server).DropRequest, 1, false, nil},
		{"two requests", large, (*zktest.Server).DropRequest, 2, false, session.ErrTooLarge},
		{"two small requests", 1000, (*zktest.Server).DropRequest, 2, false, nil},
		{"many small requests", 1000, (*zktest.Server).DropRequest, 20, false, nil},
		{"two requests as large as others", large, (*zktest.Server).DropRequest, 2, true, nil},
		{"all requests as large as others", large, (*zktest.Server).DropRequest, 10, true, session.ErrTooLarge},
	} {
		t.Run(row.name, func(t *testing.T) {
			smallServer(t, func(t *testing.T, srv *zktest.Server, s *session.Session, w *Writer) {
				if row.first {
					check.Must(t, w.do(creation("/first", large+100)))
				}
				for range row.times {
					row.lose(srv, multi)
				}
				check.Is(t, w.do(creation("/node", row.size)), row.want)
				stat := check.Have(s.Exists(t.Context(), "/node"))(t)
				check.Equal(t, stat != nil, row.want == nil)
				srv.ClearFaults()
				check.Must(t, w.do(creation("/other", row.size)))
				w.Close(func() {})
				synctest.Wait()
			})
		})
	}
}
