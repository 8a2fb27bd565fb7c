package zktest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// moved takes a session from one server to another, goes on using the old
// connection, and tells what happens.
func moved(t *testing.T, from, to string) string {
	t.Helper()
	var out []string
	say := func(what string, w *rawClient, op Op, arg body) {
		a, err := w.call(op, arg)
		switch {
		case err != nil:
			t.Fatal(what, err)
		case a.gone:
			out = append(out, what+": connection closed")
		default:
			out = append(out, fmt.Sprintf("%s: %d", what, a.err))
		}
	}
	for _, second := range []struct {
		name string
		op   Op
		arg  body
	}{
		{"ping", OpPing, nil},
		{"read", OpExists, argWatch("/", true)},
		{"sync", OpSync, argPath("/")},
		{"setWatches", OpSetWatches, argSetWatches(0, nil, nil, nil)},
		{"create", OpCreate, argCreate("/moved", nil, 1)},
		{"failing create", OpCreate, argCreate("/none/moved", nil, 1)},
		{"multi", OpMulti, argMulti(part{OpCheck, argVersion("/", -1)})},
		{"check", OpCheck, argVersion("/none", -1)},
	} {
		old := openWire(t, from)
		say("before "+second.name, old, OpSync, argPath("/"))
		w := dialWire(t, to)
		check.Require(t, w.shake(wire.ConnectRequest{Timeout: 10000, Session: old.session, Password: old.password}) && w.session == old.session, "not moved")
		say(second.name+" on the old connection", old, second.op, second.arg)
		say("on the new one", w, OpCreate, argCreate("/moved", nil, 1))
		say("read on the old one", old, OpExists, argWatch("/", true))
		say("sync on the old one", old, OpSync, argPath("/"))
		say("on the new one", w, OpDelete, argVersion("/moved", -1))
		w.quit()
		_ = old.Close()
	}
	return strings.Join(out, "\n")
}

// TestConformanceOfMovedSessions moves sessions between real servers, and
// between replicas.
func TestConformanceOfMovedSessions(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	onlyDebian(t)
	ens := StartEnsemble(t, 3, NoSync())
	srv := Start(t, Replicas(3, 0), Timeouts(time.Second, time.Minute))
	leader := ens.Leader()
	followers := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader })
	for _, tt := range []struct {
		name             string
		from, to         int
		ourFrom, ourAddr int
	}{
		{"follower to follower", followers[0], followers[1], 1, 2},
		{"follower to leader", followers[0], leader, 1, 0},
		{"leader to follower", leader, followers[0], 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := moved(t, ens.Addr(tt.from), ens.Addr(tt.to))
			got := moved(t, srv.Addrs()[tt.ourFrom], srv.Addrs()[tt.ourAddr])
			if got != want {
				theirs, ours := strings.Split(want, "\n"), strings.Split(got, "\n")
				for i := range min(len(theirs), len(ours)) {
					check.Equal(t, theirs[i], ours[i], i, ". real: \tours")
				}
			}
		})
	}
}
