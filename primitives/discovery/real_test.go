package discovery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealDiscovery expires sessions, and kills the leader of three servers, while instances are
// registered and found.
func TestRealDiscovery(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	ctx := check.Patient(t)
	open := func(addrs []string) *session.Session {
		return check.Open(session.Open(ctx, addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	}
	watcher := check.Open(discovery.Watch(open(ens.Addrs()), services, search, nil))(t)
	expect := func(what string, is func([]discovery.Instance) bool) {
		t.Helper()
		for {
			select {
			case all := <-watcher.Changes():
				if is(all) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%s: there are %v", what, watcher.Instances())
			}
		}
	}
	var sessions []*session.Session
	var all []*discovery.Registration
	for i := range 3 {
		s := open(proxy.Addrs())
		r := check.Open(discovery.Register(s, services, at(fmt.Sprint("host-", i), 80), nil))(t)
		sessions, all = append(sessions, s), append(all, r)
	}
	expect("registered", func(is []discovery.Instance) bool { return len(is) == 3 })
	events := all[1].Events()
	<-events // Registered
	proxy.Expire(sessions[1].ID())
	for ev := range events {
		if ev == (discovery.Registered{}) {
			break
		}
	}
	check.OK(t, all[2].Unregister(ctx))
	expect("unregistered", func(is []discovery.Instance) bool { return len(is) == 2 })
	ens.Kill(ens.Leader())
	moved := at("host-0", 81)
	check.OK(t, all[0].Update(ctx, moved))
	expect("updated", func(is []discovery.Instance) bool { return len(is) == 2 && is[0].Port == 81 })
	sessions[0].Close()
	expect("closed", func(is []discovery.Instance) bool { return len(is) == 1 && is[0].ID == "host-1" })
}
