package paused_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/paused"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(paused.HolderVariable) != "" {
		if err := paused.Work(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// TestPaused: of three holders the first pauses for longer than its session lives. What the others
// add meanwhile is lost in the set without a guard, and only there.
func TestPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		server := check.Open(zktest.NewServer(zktest.Config{InProcess: true}))(t)
		open := func() *session.Session {
			return check.Open(session.Open(ctx, server.Addrs(), &session.Options{Timeout: 2 * time.Second, Dialer: server.DialContext}))(t)
		}
		s := open()
		check.Must(t, paused.Prepare(ctx, s))
		first, id, read := open(), int64(0), make(chan struct{})
		id = first.ID()
		var all []paused.Addition
		var holding sync.WaitGroup
		holding.Go(func() {
			all = append(all, check.Have(paused.Add(ctx, first, 1, func() {
				server.Freeze(id, zktest.Both)
				close(read)
				<-time.After(5 * time.Second)
				server.Thaw(id)
			}))(t))
		})
		<-read
		var others []paused.Addition
		for number := 2; number <= 3; number++ {
			others = append(others, check.Have(paused.Add(ctx, s, number, func() {}))(t))
		}
		holding.Wait()
		r := check.Have(paused.Judge(ctx, s, append(all, others...)))(t)
		check.Equal(t, r, paused.Result{Plain: paused.Column{Acknowledged: 3, Lost: 2}, Guarded: paused.Column{Acknowledged: 2}})
	})
}

// TestPausedReal plays a little of it with processes on a real server.
func TestPausedReal(t *testing.T) {
	zktest.StartEnsemble(t, 1).Close() // it skips the test where there is none
	binary := check.Have(os.Executable())(t)
	r := check.Have(paused.Play(t.Context(), paused.Options{
		Servers: 1, Holders: 3, Adds: 2, Timeout: time.Second, Pause: 2 * time.Second, Holder: []string{binary},
	}))(t)
	check.Equal(t, r.Guarded.Lost, 0)
	check.True(t, r.Plain.Lost > 0 && r.Guarded.Acknowledged > 0, "%+v", r)
}
