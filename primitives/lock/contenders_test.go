package lock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var ofAllLayouts = []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo, lock.Prioritized}

// A downgrade between the list of contenders and what is read of them does not make a holder
// of who waits, nor nobody of who holds.
func TestContendersWhileDowngraded(t *testing.T) {
	for _, layout := range ofAllLayouts {
		runInRoom(t, fmt.Sprint(layout), 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			opts := &lock.Options{Layout: layout, Data: []byte("host-1")}
			w := standsAt(t, lock.NewWrite, all[0], "/l", opts)
			standsAt(t, lock.NewWrite, all[1], "/l", opts)
			srv.Delay(zktest.Match{Session: all[2].ID(), Op: zktest.OpGetData, Path: w.Node()}, time.Second)
			listed := make(chan []lock.Contender, 1)
			go func() {
				line, err := lock.Contenders(t.Context(), all[2], "/l", &lock.Options{Layout: layout})
				check.OK(t, err)
				listed <- line
			}()
			synctest.Wait()
			check.Must(t, w.Downgrade(t.Context()))
			line := <-listed
			if len(line) != 2 || line[0].Node != w.Node() || line[0].Kind != lock.Read || !line[0].Holding || string(line[0].Data) != "host-1" || line[1].Holding {
				t.Errorf("%+v", line)
			}
		})
	}
}

// A client that asked a writer still waits for it when it has become a reader.
func TestRevokeWhileDowngraded(t *testing.T) {
	for _, layout := range ofAllLayouts {
		for _, when := range []string{"before the mark", "after the mark", "after a mark that the holder has not seen"} {
			runInRoom(t, fmt.Sprint(layout, " ", when), 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				w := standsAt(t, lock.NewWrite, all[0], "/l", &lock.Options{Layout: layout, Data: []byte("host-1")})
				switch when {
				case "before the mark":
					srv.Delay(zktest.Match{Session: all[1].ID(), Op: zktest.OpSetData, Path: w.Node()}, time.Second)
				case "after a mark that the holder has not seen":
					srv.Delay(zktest.Match{Session: all[0].ID(), Op: zktest.OpGetData, Path: w.Node()}, time.Second)
				}
				revoked := make(chan error, 1)
				began := time.Now()
				go func() {
					revoked <- lock.Revoke(t.Context(), all[1], "/l", &lock.RevokeOptions{Layout: layout, ForceAfter: time.Minute})
				}()
				synctest.Wait()
				check.Must(t, w.Downgrade(t.Context()))
				<-time.After(10 * time.Second)
				check.True(t, holds(w) && isClosed(w.Revoked()), "not asked, or too much: %v", w.Err())
				check.OK(t, <-revoked)
				synctest.Wait()
				check.True(t, isClosed(w.Done()), "it is still held")
				check.AtMost(t, time.Since(began), time.Minute+time.Second, "after")
			})
		}
	}
}
