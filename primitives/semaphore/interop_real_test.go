package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func openReal(t *testing.T, addrs []string) *session.Session {
	t.Helper()
	return check.Open(session.Open(check.Patient(t), addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
}

// TestRealPeers has one server and the other libraries for all that meets them.
func TestRealPeers(t *testing.T) {
	peers.Meet(t, map[string]peers.Play{"neighbours": meetNeighbours, "strangers": meetStrangers}, map[string]peers.Play{"neighbours": meetNeighbours})
}

// meetNeighbours: leases that come where Curator's are passed around are granted within the limit
// or refused, and no contender waits for ever. A waiter of ours behind one of Curator's once did,
// and Curator's for it.
func meetNeighbours(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator := openReal(t, ens.Addrs())
	sessions := []*session.Session{openReal(t, ens.Addrs()), openReal(t, ens.Addrs())}
	for limit := 1; limit <= 3; limit++ {
		t.Run(fmt.Sprintf("Curator's semaphore of %d", limit), func(t *testing.T) {
			t.Parallel()
			curators := company.Peers(t, peers.Curator)
			all := make([]peers.Contender, 4)
			for i := range all {
				all[i] = curators[i%len(curators)].Contender(peers.CuratorSemaphore.Of(limit))
			}
			for _, s := range sessions {
				all = append(all, contender(s, limit), contender(s, limit))
			}
			room := peers.Mix(t, operator, company.At(fmt.Sprintf("/neighbours-%d", limit)), 20, all...)
			t.Logf("at once, at most: %d; hand-overs: %v", room.Most(), room.Handovers())
		})
	}
}

func contender(s *session.Session, limit int) peers.Contender {
	return peers.Contender{
		Name:   "our lease",
		Shared: limit > 1,
		Limit:  limit,
		Dir:    "leases",
		Join: func(ctx context.Context, path string, _ time.Duration) (peers.Tenancy, error) {
			l, err := semaphore.Acquire(ctx, s, path, limit, nil)
			if errors.Is(err, semaphore.ErrLayout) {
				return nil, fmt.Errorf("%w: %w", peers.ErrRefused, err)
			}
			if err != nil {
				return nil, err
			}
			return peers.Grant[*semaphore.Lease]{Handle: l, Session: s}, nil
		},
	}
}

// trial is how long a contender that cannot succeed is given.
const trial = 500 * time.Millisecond

// places is how many leases the semaphores of meetStrangers have.
const places = 2

// strangers says for each weight, in the order of theirs, what a contender of theirs does while we
// hold all places: it waits (w), or is granted one (g); what a waiter of ours does when we have
// released: it acquires (a), or is refused (r); and what we do while they hold all places: we find
// them full (f), are refused (r), or are granted one (g). The documentation of
// [semaphore.ErrLayout] has the same.
var (
	theirs = []struct {
		kind peers.Kind
		dir  string // below the path
		all  int    // how many hold all places
	}{
		{peers.CuratorSemaphore.Of(places), "", places},
		{peers.KazooSemaphore.Of(places), "", places},
		{peers.CuratorMutex, "", 1},
		{peers.KazooLock, "", 1},
		{peers.CuratorMutex, "/leases", 1},
		{peers.KazooLock, "/leases", 1},
	}
	strangers = map[int]string{
		1: "wrr grr grr grr grr grr",
		2: "grr grr grr grr grr grr",
	}
)

// meetStrangers measures which semaphores and locks exclude which. No lease of ours is granted
// while others hold all places, or hold a lock where the leases stand.
func meetStrangers(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	s := openReal(t, ens.Addrs())
	for weight, row := range strangers {
		for i, want := range strings.Fields(row) {
			t.Run(fmt.Sprintf("weight %d beside %s in %q", weight, theirs[i].kind, theirs[i].dir), func(t *testing.T) {
				t.Parallel()
				their := company.Peer(t, theirs[i].kind.Library()).Contender(theirs[i].kind)
				path := company.At(fmt.Sprintf("/strangers-%d-%d", weight, i))
				if theirs[i].kind == peers.CuratorSemaphore.Of(places) {
					keepLocks(t, s, path+"-they")
				}
				got := theyCome(t, s, path, weight, theirs[i].dir, their, want[0] == 'g') + weCome(t, s, path+"-they", weight, theirs[i].dir, theirs[i].all, their)
				check.Equal(t, got, want)
			})
		}
	}
}

// theyCome has a contender of theirs come while we hold all places, and a lease of ours waits. Only
// one that is not expected to be granted a lease has no more than a trial.
func theyCome(t *testing.T, s *session.Session, path string, weight int, dir string, their peers.Contender, expected bool) (cell string) {
	t.Helper()
	ctx, opts := check.Patient(t), &semaphore.Options{Weight: weight}
	var held []*semaphore.Lease
	for range places / weight {
		held = append(held, check.Have(semaphore.Acquire(ctx, s, path, places, opts))(t))
	}
	waiter := check.Have(semaphore.New(s, path, places, opts))(t)
	next[semaphore.Waiting](t, waiter)
	limit := trial
	if expected {
		limit = 0
	}
	their.Overtakes(ctx, t, path+dir, limit, func(granted bool) {
		defer waiter.Close()
		cell = "w"
		if granted {
			cell = "g"
		}
		for n := 0; !expected && !granted && n < len(held)+2; { // until it stands behind ours
			names, _, err := s.Children(ctx, path+"/leases")
			check.Must(t, err)
			n = len(names)
		}
		for _, l := range held {
			check.OK(t, l.Release(ctx))
		}
		if peers.Awaits[semaphore.Acquired](ctx, t, waiter.Events()) {
			cell += "a"
			return
		}
		cell += "r"
		check.Is(t, waiter.Err(), semaphore.ErrLayout, "a waiter of ours has ended")
	})
	return cell
}

// weCome has a lease of ours come while they hold all places.
func weCome(t *testing.T, s *session.Session, path string, weight int, dir string, all int, their peers.Contender) string {
	t.Helper()
	ctx := check.Patient(t)
	for range all {
		tenancy := check.Have(their.Join(ctx, path+dir, 0))(t)
		defer leave(t, tenancy)
	}
	switch l, err := semaphore.TryAcquire(ctx, s, path, places, &semaphore.Options{Weight: weight}); {
	case errors.Is(err, semaphore.ErrFull):
		return "f"
	case errors.Is(err, semaphore.ErrLayout):
		return "r"
	case err != nil:
		t.Fatal(err)
		return ""
	default:
		release(t, l)
		return "g"
	}
}

// keepLocks makes the node below which a semaphore of Curator has its lock. Curator makes a
// container, which the servers remove while no client acquires; then we find the places full, and
// do not see whose they are.
func keepLocks(t *testing.T, s *session.Session, path string) {
	t.Helper()
	for _, node := range []string{path, path + "/locks"} {
		check.Have(s.Create(check.Patient(t), node, nil, session.Persistent))(t)
	}
}

func leave(t *testing.T, tenancy peers.Tenancy) {
	t.Helper()
	check.OK(t, tenancy.Release(check.Patient(t)))
}
