package session

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

// TestSpread changes the list of many sessions again and again: they stay evenly spread, and no more of them
// move than must.
func TestSpread(t *testing.T) {
	const sessions = 10_000
	const most = 0.04 // of all sessions: more than five standard deviations
	names := make([]string, 9)
	for i := range names {
		names[i] = fmt.Sprintf("zk%d:2181", i)
	}
	for seed := range hasten.Sized[uint64](20, 2) {
		dice := rand.New(rand.NewPCG(seed, 0))
		lists := make([][]string, 3)
		for i := range lists {
			for _, n := range dice.Perm(len(names))[:1+dice.IntN(len(names))] {
				lists[i] = append(lists[i], names[n])
			}
		}
		opts := new(Options).withDefaults()
		all := make([]*servers, sessions)
		at := make([]string, sessions)
		for i := range all {
			all[i] = newServers(lists[0], &opts)
			at[i] = lists[0][i%len(lists[0])] // evenly
		}
		for n, list := range lists[1:] {
			before := lists[n]
			moved, least := 0, 0.0
			for _, server := range before {
				share := 1 / float64(len(before))
				if slices.Contains(list, server) {
					share = max(0, share-1/float64(len(list)))
				}
				least += share
			}
			counts := make(map[string]int)
			for i, s := range all {
				if s.replace(list, at[i], dice.Float64) {
					moved++
					next, _ := s.choose()
					if next == at[i] {
						t.Fatalf("%v -> %v: a session moves from %s to itself", before, list, next)
					}
					at[i] = next
				}
				counts[at[i]]++
			}
			if got := float64(moved) / sessions; got > least+most {
				t.Fatalf("%v -> %v: %.3f of all sessions move, %.3f must", before, list, got, least)
			}
			for _, server := range list {
				if got, want := float64(counts[server])/sessions, 1/float64(len(list)); got < want-most || got > want+most {
					t.Fatalf("%v -> %v: %s has %.3f of all sessions, want %.3f", before, list, server, got, want)
				}
			}
		}
	}
}

// TestSRV: only records of the smallest priority are used.
func TestSRV(t *testing.T) {
	got := serversIn([]*net.SRV{
		{Target: "zk1.example.com.", Port: 2181, Priority: 1, Weight: 9},
		{Target: "zk2.example.com.", Port: 2182, Priority: 1},
		{Target: "spare.example.com.", Port: 2181, Priority: 2},
	})
	if want := []string{"zk1.example.com:2181", "zk2.example.com:2182"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := serversIn(nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
	check.Fails(checkServers(nil))(t, ErrInvalidArgument)
}
