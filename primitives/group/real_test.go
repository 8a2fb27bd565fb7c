package group_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealGroup plays on three servers what the bubbles play in memory.
func TestRealGroup(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	ctx := check.Patient(t)
	opts := &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}
	open := func(addrs []string) *session.Session {
		return check.Open(session.Open(ctx, addrs, opts))(t)
	}
	watcher := check.Open(group.Watch(open(ens.Addrs()), "/groups/workers", nil))(t)
	expect := func(want ...string) []group.Member {
		t.Helper()
		for {
			select {
			case ev := <-watcher.Events():
				if slices.Equal(names(ev.Members), want) {
					return ev.Members
				}
			case <-ctx.Done():
				t.Fatalf("there are %v, want %v", names(watcher.Members()), want)
			}
		}
	}

	var sessions []*session.Session
	var members []*group.Membership
	for i := range 3 {
		s := open(proxy.Addrs())
		m := check.Open(group.Join(s, "/groups/workers", fmt.Sprintf("host-%d", i), []byte("here"), nil))(t)
		sessions, members = append(sessions, s), append(members, m)
	}
	all := []string{"host-0", "host-1", "host-2"}
	expect(all...)
	check.OK(t, members[1].Leave(ctx))
	before := expect("host-0", "host-2")

	// A member whose session expires is back by itself. The watcher may miss the moment in which it
	// was gone.
	proxy.Expire(sessions[2].ID())
	for expect("host-0", "host-2")[1].Joined == before[1].Joined {
	}

	// A process that was killed, and is started again.
	sessions[0].Close()
	expect("host-2")
	again := check.Open(group.Join(open(proxy.Addrs()), "/groups/workers", "host-0", []byte("there"), nil))(t)
	expect("host-0", "host-2")

	ens.Kill(ens.Leader())
	check.OK(t, again.Update(ctx, []byte("moved")))
	for {
		ev, ok := <-watcher.Events()
		if !ok || len(ev.Members) > 0 && string(ev.Members[0].Data) == "moved" {
			break
		}
	}
}
