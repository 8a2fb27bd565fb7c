package group_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealParties has kazoo's parties and us see each other come, go, and be killed.
func TestRealParties(t *testing.T) {
	t.Parallel()
	peers.Wanted(t)
	addrs := zktest.StartEnsemble(t, 1, zktest.NoSync()).Addrs()
	peers.Companies(t, addrs, func(t *testing.T, company *peers.Company) {
		t.Helper()
		for kind, layout := range map[peers.Kind]group.Layout{peers.KazooParty: group.KazooParty, peers.KazooShallowParty: group.KazooShallowParty} {
			t.Run(layout.String(), func(t *testing.T) {
				t.Parallel()
				party(t, addrs, company, kind, layout)
			})
		}
	})
}

// TestRealGroupMember has a GroupMember of Curator and us see each other.
func TestRealGroupMember(t *testing.T) {
	t.Parallel()
	peers.Wanted(t)
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	addrs := ens.Addrs()
	peers.Companies(t, addrs, func(t *testing.T, company *peers.Company) {
		t.Helper()
		ctx := check.Patient(t)
		path, peer := company.At("group"), company.Peer(t, peers.Curator)
		s := check.Open(session.Open(ctx, addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
		m := check.Open(group.Enroll(ctx, s, path, "ours", []byte("here"), nil))(t)
		theirs, err := peer.Acquire(ctx, peers.CuratorMember, path)
		check.Must(t, err)
		watcher := check.Open(group.Watch(s, path, nil))(t)
		for ev := range watcher.Events() {
			if slices.Equal(names(ev.Members), []string{theirs.ID(), "ours"}) {
				check.Equal(t, string(ev.Members[0].Data), theirs.ID())
				break
			}
		}
		check.OK(t, theirs.Release(ctx))
		if !strings.HasPrefix(ens.Version(0), "3.5.") { // Curator's caches need a watch that these servers lack
			line, err := peer.Line(ctx, peers.CuratorMember, path)
			check.True(t, err == nil && slices.Equal(line, []string{"ours=here"}), "%v, %v", line, err)
		}
		check.OK(t, m.Leave(ctx))
	})
}

func party(t *testing.T, addrs []string, company *peers.Company, kind peers.Kind, layout group.Layout) {
	t.Helper()
	ctx := check.Patient(t)
	path := company.At("party-" + string(kind)[len("kazoo/"):])
	s := check.Open(session.Open(ctx, addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	watcher := check.Open(group.Watch(s, path, &group.WatchOptions{Layout: layout}))(t)
	peer := company.Peer(t, peers.Kazoo)
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		for {
			select {
			case ev := <-watcher.Events():
				if !slices.Equal(names(ev.Members), want) {
					continue
				}
			case <-ctx.Done():
				t.Fatalf("we see %v, want %v", names(watcher.Members()), want)
			}
			line, err := peer.Line(ctx, kind, path)
			slices.Sort(line)
			check.True(t, err == nil && slices.Equal(line, want), "they see %v, %v, want %v", line, err, want)
			return
		}
	}
	join := func(id string) *group.Membership {
		t.Helper()
		return check.Open(group.Enroll(ctx, s, path, id, nil, &group.Options{Layout: layout}))(t)
	}
	first := join("ours")
	expect("ours")
	theirs, err := peer.Acquire(ctx, kind, path)
	check.Must(t, err)
	expect("ours", theirs.ID())
	second := join("ours") // in a party, several may have one name
	expect("ours", "ours", theirs.ID())
	check.OK(t, theirs.Release(ctx))
	expect("ours", "ours")
	check.OK(t, first.Leave(ctx))
	expect("ours")
	check.OK(t, second.Leave(ctx))
	expect()
	mortal := company.Start(t, peers.Kazoo, addrs, &peers.Options{SessionTimeout: 4 * time.Second})
	last, err := mortal.Acquire(ctx, kind, path)
	check.Must(t, err)
	expect(last.ID())
	check.OK(t, mortal.Kill())
	expect()
}
