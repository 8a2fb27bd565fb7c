package servers

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

// TestSpread changes the list of many sessions again and again: they stay evenly spread, and no
// more of them move than must.
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
		all := make([]*List, sessions)
		at := make([]string, sessions)
		for i := range all {
			all[i] = New(lists[0], Options{})
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
				if s.Replace(list, at[i], dice.Float64) {
					moved++
					next, _ := s.choose()
					check.Require(t, next != at[i], "%v -> %v: a session moves from %s to itself", before, list, next)
					at[i] = next
				}
				counts[at[i]]++
			}
			check.AtMost(t, float64(moved)/sessions, least+most, before, "->", list, "of all sessions move", least, "must")
			for _, server := range list {
				if got, want := float64(counts[server])/sessions, 1/float64(len(list)); got < want-most || got > want+most {
					t.Fatalf("%v -> %v: %s has %.3f of all sessions, want %.3f", before, list, server, got, want)
				}
			}
		}
	}
}

// quiet is a log that discards warnings.
func quiet(slog.Level, string, ...any) {}

// accepting is a dialer of servers that accept every connection.
func accepting(context.Context, string, string) (net.Conn, error) {
	near, _ := net.Pipe()
	return near, nil
}

// reach returns the server that is reached, and closes the connection.
func reach(t *testing.T, l *List, rest func() time.Duration, lost bool) string {
	t.Helper()
	server, socket := l.Dial(t.Context(), rest, lost)
	_ = socket.Close()
	return server
}
