package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// lapses are plays in which the session lapses, and lives on.
func lapses[Ev any]() map[string]play[Ev] {
	all := make(map[string]play[Ev])
	for lost, lose := range map[string]func(*zktest.Server, zktest.Match){
		"request": (*zktest.Server).DropRequest, "reply": (*zktest.Server).DropReply,
	} {
		for skip := range 14 {
			for _, close := range []time.Duration{time.Second, 25 * time.Second, 32 * time.Second, time.Minute} {
				all[fmt.Sprint("lapse, ", lost, " ", skip, " lost, closed at ", close)] = lapse[Ev](lose, skip, close, false)
			}
			all[fmt.Sprint("resumption, ", lost, " ", skip, " lost, closed in it")] = lapse[Ev](lose, skip, 25*time.Second, true)
			all[fmt.Sprint("resumption, ", lost, " ", skip, " lost, closed behind it")] = lapse[Ev](lose, skip, time.Minute, true)
		}
	}
	return all
}

// lapse: a request of a handle is lost, and no server is in reach for 30 s, while the servers keep
// the session. The handle is closed meanwhile, or later.
func lapse[Ev any](lose func(*zktest.Server, zktest.Match), skip int, closed time.Duration, late bool) play[Ev] {
	return func(t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
		srv := at.servers.(*zktest.Server)
		began, id := time.Now(), s.ID()
		ended := make(chan struct{})
		var h Handle[Ev]
		var err error
		if !late {
			lose(srv, zktest.Match{Session: id, Skip: skip})
		}
		opened := kit.Begin(func() error { h, err = r.Open(s); return err })
		if !late {
			_ = srv.AwaitFault(900 * time.Millisecond)
		}
		srv.Refuse(true)
		srv.Disconnect(0)
		go func() {
			defer close(ended)
			for range 30 {
				<-time.After(time.Until(began.Add(time.Since(began).Truncate(time.Second) + time.Second)))
				srv.Restore(srv.Backup())
			}
			srv.ClearFaults()
			if late {
				lose(srv, zktest.Match{Session: id, Skip: skip})
			}
			srv.Refuse(false)
		}()
		kit.Pass(time.Until(began.Add(closed)))
		select {
		case err := <-opened:
			if err != nil {
				t.Logf("open: %v", err)
				<-ended
				kit.Pass(time.Minute)
				at.nothingLeft(t)
				return
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("Open hangs")
		}
		begun := time.Now()
		select {
		case err := <-kit.Begin(func() error { h.Close(); return nil }):
			check.OK(t, err)
		case <-time.After(time.Minute):
			t.Errorf("Close hangs")
		}
		if took := time.Since(begun); took > at.timeout {
			t.Errorf("Close took %v", took)
		}
		<-ended
		kit.Pass(time.Minute)
		if s.ID() != id {
			t.Errorf("another session")
		}
		at.nothingLeft(t)
		if n := len(s.State().String()); n == 0 {
			t.Error("no state")
		}
		// Another handle of the session works.
		check.Must(t, s.Sync(t.Context(), "/"))
		srv.ClearFaults()
		again, err := r.Open(s)
		check.Must(t, err)
		at.settle(t, s)
		kit.Pass(time.Second)
		again.Close()
		r.ended(t, again)
		at.nothingLeft(t)
	}
}
