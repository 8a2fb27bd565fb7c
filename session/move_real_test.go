package session_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealSetServers: sessions on real servers follow the list, while they write. None
// expires, nothing that they hold is lost, and no request fails.
func TestRealSetServers(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(100))
	ctx := check.Patient(t)
	addrs := ens.Addrs()
	const n = 30
	all := make([]*session.Session, n)
	for i := range all {
		s := kit.Open(t, addrs[:2], &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond})
		s.Subscribe(func(ev session.Event) <-chan struct{} {
			if _, expired := ev.(session.Expired); expired {
				t.Errorf("session %d: %v", i, ev)
			}
			return nil
		})
		check.Have(s.Create(ctx, fmt.Sprintf("/n%d", i), nil, session.Ephemeral))(t)
		all[i] = s
	}
	for _, list := range [][]string{addrs, addrs[1:], {addrs[0]}, addrs[:2]} {
		var moving sync.WaitGroup
		for i, s := range all {
			moving.Go(func() {
				path := fmt.Sprintf("/n%d", i)
				for range 10 {
					s.Async(0).Set(path, []byte("x"), session.AnyVersion, func(_ *session.Stat, err error) {
						check.OK(t, err, "session", i)
					})
				}
				check.OK(t, s.SetServers(list))
				stat, err := s.Set(ctx, path, []byte("y"), session.AnyVersion)
				if err != nil {
					t.Errorf("session %d: %v", i, err)
				} else if stat.EphemeralOwner != s.ID() {
					t.Errorf("session %d: its node belongs to %#x", i, stat.EphemeralOwner)
				}
			})
		}
		moving.Wait()
		if t.Failed() {
			return
		}
		for i, s := range all {
			server := ""
			switch ev := s.State().(type) {
			case session.Connected:
				server = ev.Server
			case session.Resumed:
				server = ev.Server
			case session.Suspended, session.Lapsed, session.Expired, session.Closed:
			}
			check.True(t, slices.Contains(list, server), "session %d: %v, want one of %v", i, s, list)
		}
	}
}
