package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// An acquirer is one of the ways in which this library holds a lock.
type acquirer struct {
	name    string
	shared  bool
	acquire func(ctx context.Context, s *session.Session, path string, opts *lock.Options) (*lock.Lock, error)
}

var (
	exclusive = acquirer{"exclusive", false, lock.Acquire}
	reader    = acquirer{"reader", true, lock.AcquireRead}
	writer    = acquirer{"writer", false, lock.AcquireWrite}

	// downgrader is a reader that has come as a writer.
	downgrader = acquirer{"downgrader", true, func(ctx context.Context, s *session.Session, path string, opts *lock.Options) (*lock.Lock, error) {
		l, err := lock.AcquireWrite(ctx, s, path, opts)
		if err != nil {
			return nil, err
		}
		if err := l.Downgrade(ctx); err != nil {
			l.Close()
			return nil, err
		}
		return l, nil
	}}
)

// neighbours are who stand in one line with this library, and with each other.
var neighbours = []struct {
	name   string
	opts   *lock.Options
	ours   []acquirer
	theirs []peers.Kind
	oneWay bool // they respect our nodes, but we do not know theirs
}{
	{"Curator's mutex", nil, []acquirer{exclusive}, []peers.Kind{peers.CuratorMutex}, false},
	{"kazoo, named as we are", nil, []acquirer{exclusive}, []peers.Kind{peers.KazooStandard}, false},
	{"all in one line", nil, []acquirer{exclusive}, []peers.Kind{peers.CuratorMutex, peers.KazooStandard}, false},
	{"kazoo that knows our names", nil, []acquirer{exclusive}, []peers.Kind{peers.KazooPattern}, true},
	{"Curator's locks", &lock.Options{Layout: lock.Curator}, []acquirer{exclusive}, []peers.Kind{peers.CuratorMutex, peers.CuratorRevocable, peers.CuratorSelector}, false},
	{"Curator's read-write lock", &lock.Options{Layout: lock.Curator}, []acquirer{reader, writer}, []peers.Kind{peers.CuratorRead, peers.CuratorWrite}, false},
	{"kazoo's locks", &lock.Options{Layout: lock.Kazoo}, []acquirer{exclusive, writer}, []peers.Kind{peers.KazooLock, peers.KazooPattern, peers.KazooElection}, false},
	{"kazoo's read-write lock", &lock.Options{Layout: lock.Kazoo}, []acquirer{reader, writer, exclusive}, []peers.Kind{peers.KazooLaterRead, peers.KazooWrite}, false},
}

// TestRealPeers has one server and the other libraries for all that meets them.
func TestRealPeers(t *testing.T) {
	peers.Meet(t, map[string]peers.Play{
		"neighbours": meetNeighbours, "several at once": meetSeveral, "strangers": meetStrangers, "revocation": meetRequests, "downgrades": meetDowngrades,
	}, map[string]peers.Play{"neighbours": meetNeighbours, "downgrades": meetDowngrades})
}

func meetNeighbours(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator := kit.Open(t, ens.Addrs(), nil)
	sessions := []*session.Session{kit.Open(t, ens.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)}
	for i, n := range neighbours {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			row := peers.Row{Theirs: n.theirs, OneWay: n.oneWay}
			for _, a := range n.ours {
				for _, s := range sessions {
					row.Ours = append(row.Ours, a.contender(s, n.opts))
				}
			}
			company.Contend(t, operator, company.At(fmt.Sprintf("/neighbours-%d", i)), often(150, 300), row)
		})
	}
}

// meetSeveral: contenders for several locks stand in the lines of others, in each layout. Two of
// ours name their paths in opposite orders, so the second line is theirs alone.
func meetSeveral(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator := kit.Open(t, ens.Addrs(), nil)
	for i, n := range []struct {
		layout lock.Layout
		kind   lock.Kind
		theirs []peers.Kind
	}{
		{lock.Standard, lock.Exclusive, []peers.Kind{peers.CuratorMutex, peers.KazooStandard}},
		{lock.Curator, lock.Write, []peers.Kind{peers.CuratorRead, peers.CuratorWrite}},
		{lock.Curator, lock.Read, []peers.Kind{peers.CuratorRead, peers.CuratorWrite}},
		{lock.Kazoo, lock.Write, []peers.Kind{peers.KazooLock}},
		{lock.Kazoo, lock.Read, []peers.Kind{peers.KazooLaterRead, peers.KazooWrite}},
	} {
		t.Run(fmt.Sprint(n.layout, " ", n.kind), func(t *testing.T) {
			t.Parallel()
			row := peers.Row{Theirs: n.theirs}
			for _, reversed := range []bool{false, true} {
				s := kit.Open(t, ens.Addrs(), nil)
				row.Ours = append(row.Ours, peers.Contender{Name: "our several", Shared: n.kind == lock.Read, Join: func(ctx context.Context, path string, wait time.Duration) (peers.Tenancy, error) {
					if wait > 0 {
						limited, cancel := context.WithTimeout(ctx, wait)
						defer cancel()
						ctx = limited
					}
					wants := []lock.Want{{Path: path, Kind: n.kind}, {Path: path + "-beside", Kind: n.kind}}
					if reversed {
						slices.Reverse(wants)
					}
					a, err := lock.AcquireAll(ctx, s, wants, &lock.Options{Layout: n.layout})
					if err != nil {
						return nil, err
					}
					return peers.Grant[*lock.All]{Handle: a, Session: s}, nil
				}})
			}
			company.Contend(t, operator, company.At(fmt.Sprintf("/several-%d", i)), often(100, 300), row)
		})
	}
}

// meetDowngrades: readers of ours and of Curator's that have come as writers.
func meetDowngrades(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator, opts := kit.Open(t, ens.Addrs(), nil), &lock.Options{Layout: lock.Curator}
	t.Run("in one line", func(t *testing.T) {
		t.Parallel()
		var all []peers.Contender
		for _, curator := range company.Peers(t, peers.Curator) {
			theirs := curator.Contender(peers.CuratorRead)
			all = append(all, theirs, theirs, curator.Contender(peers.CuratorWrite))
			if downgradesInPlace(curator) {
				all = append(all, curator.Contender(peers.CuratorDowngraded), curator.Contender(peers.CuratorDowngraded))
			}
		}
		for range 2 {
			s := kit.Open(t, ens.Addrs(), nil)
			all = append(all, downgrader.contender(s, opts), writer.contender(s, opts))
		}
		room := peers.Mix(t, operator, company.At("/downgraders"), often(150, 300)/len(all), all...)
		t.Logf("at once, at most: %d", room.Most())
	})
	for i, curator := range company.Peers(t, peers.Curator) {
		t.Run("a writer behind one of Curator "+curator.Version(), func(t *testing.T) {
			t.Parallel()
			path := company.At(fmt.Sprintf("/curator-downgrades-%d", i))
			curatorDowngrades(t, curator, operator, path)
		})
	}
}

// downgradesInPlace reports whether a reader of this version of Curator that has come as a writer
// keeps its place in line. Curator has done so since 5.5 (CURATOR-621).
func downgradesInPlace(curator *peers.Peer) bool {
	return !strings.HasPrefix(curator.Version(), "5.4.")
}

// curatorDowngrades: a contender of ours that waits behind a writer of Curator's waits while that
// is a reader, unless it is one that may share. So does one that comes then. But behind a reader
// that does not keep its place, the lock is granted while it holds. The documentation of
// [lock.Layout] says so.
func curatorDowngrades(t *testing.T, curator *peers.Peer, s *session.Session, base string) {
	t.Helper()
	ctx, opts := check.Patient(t), &lock.Options{Layout: lock.Curator}
	for kind := range opens {
		path := fmt.Sprintf("%s-%v", base, kind)
		kit.Ensure(t, s, path, nil)
		first := check.Have(lock.AcquireWrite(ctx, s, path, opts))(t)
		theirs := check.Have(curator.Join(peers.CuratorDowngraded, path, 0))(t)
		awaitChildren(t, s, path, 2)
		waiter := check.Open(opens[kind].join(s, path, opts))(t)
		awaitChildren(t, s, path, 3)
		release(t, first)
		awaitPeer(t, "the downgrade", theirs.Acquired())
		if kind == lock.Read || !downgradesInPlace(curator) {
			kit.Await[lock.Acquired](t, waiter.Events())
			check.OK(t, theirs.Release(ctx))
			release(t, waiter)
			continue
		}
		awaitChildren(t, s, path, 2)
		line := check.Have(lock.Contenders(ctx, s, path, opts))(t)
		check.True(t, len(line) == 2 && line[0].Node == theirs.Node() && line[0].Holding && !line[1].Holding, "we see %+v, want %s first", line, theirs.Node())
		check.Fails(opens[kind].try(ctx, s, path, opts))(t, lock.ErrHeld)
		hasty, cancel := context.WithTimeout(ctx, trial)
		check.Fails(opens[kind].acquire(hasty, s, path, opts))(t, context.DeadlineExceeded)
		cancel()
		check.Equal(t, waiter.Token(), 0, kind, "is granted the lock while", theirs.Node(), "holds")
		check.OK(t, theirs.Release(ctx))
		kit.Await[lock.Acquired](t, waiter.Events())
		release(t, waiter)
	}
}

// awaitChildren waits until so many nodes stand in line.
func awaitChildren(t *testing.T, s *session.Session, path string, n int) {
	t.Helper()
	for names := kit.Children(t, s, path); len(names) != n; names = kit.Children(t, s, path) {
	}
}

// meetRequests: ours and Curator's ask each other to release.
func meetRequests(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator := kit.Open(t, ens.Addrs(), nil)
	for name, play := range map[string]func(*testing.T, *peers.Peer, *session.Session, string){
		"Curator reads with us": curatorReads,
		"Curator asks us":       curatorRevokes,
		"we ask Curator":        curatorIsRevoked,
		"we make Curator":       curatorIsForced,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, company.Peer(t, peers.Curator), operator, company.At(strings.ReplaceAll(name, " ", "-")))
		})
	}
}

// curatorReads: a downgrade of ours lets readers in, and no writers, whether they stand in line
// already or come then.
func curatorReads(t *testing.T, curator *peers.Peer, s *session.Session, path string) {
	ctx := check.Patient(t)
	kit.Ensure(t, s, path, nil)
	l := check.Have(lock.AcquireWrite(ctx, s, path, &lock.Options{Layout: lock.Curator}))(t)
	defer l.Close()
	join := func(kind peers.Kind, others int) *peers.Claim {
		t.Helper()
		claim, err := curator.Join(kind, path, 0)
		check.Must(t, err)
		for names := []string(nil); len(names) <= others; {
			names, _, err = s.Children(ctx, path)
			check.Must(t, err)
		}
		return claim
	}
	release := func(claim *peers.Claim) {
		t.Helper()
		check.Must(t, claim.Release(ctx))
	}
	waits := func(claim *peers.Claim) { // while another writer tries, and gives up
		t.Helper()
		another := check.Have(curator.Join(peers.CuratorWrite, path, 250*time.Millisecond))(t)
		awaitPeer(t, "the end of a try", another.Ended())
		check.Is(t, another.Err(), context.DeadlineExceeded, "the end of another writer's try")
		check.None(t, claim.Acquired(), claim.ID(), "does not wait")
	}

	first := join(peers.CuratorRead, 1)
	waits(first)
	check.Must(t, l.Downgrade(ctx))
	awaitPeer(t, "the grant of who waits", first.Acquired())
	second := check.Have(curator.Acquire(ctx, peers.CuratorRead, path))(t)
	want := []string{l.Node(), first.Node(), second.Node()}
	if line, err := curator.Line(ctx, peers.CuratorRead, path); err != nil || !slices.Equal(line, want) {
		t.Errorf("Curator sees %q, %v, want %q", line, err, want)
	}
	third := join(peers.CuratorWrite, 3)
	last := join(peers.CuratorRead, 4)
	waits(third)
	release(first)
	release(second)
	waits(third)
	waits(last)
	check.Must(t, l.Release(ctx))
	awaitPeer(t, "the grant of the writer", third.Acquired())
	waits(last)
	release(third)
	awaitPeer(t, "the grant of the last reader", last.Acquired())
	release(last)
	awaitEmpty(t, s, path)
}

// curatorRevokes: a holder of ours, and one that waits, are told of Curator's mark.
func curatorRevokes(t *testing.T, curator *peers.Peer, s *session.Session, base string) {
	ctx := check.Patient(t)
	for i, layout := range []lock.Layout{lock.Standard, lock.Curator} {
		path := fmt.Sprintf("%s-%d", base, i)
		opts := &lock.Options{Data: []byte("who we are"), Layout: layout}
		holder := join(t, s, path, opts)
		kit.Await[lock.Acquired](t, holder.Events())
		waiter := join(t, s, path, opts)
		kit.Await[lock.Waiting](t, waiter.Events()) // from here on all of its events are kept
		line, err := curator.Line(ctx, peers.CuratorMutex, path)
		for err == nil && len(line) < 2 {
			line, err = curator.Line(ctx, peers.CuratorMutex, path)
		}
		check.Require(t, err == nil && line[0] == holder.Node(), "Curator sees %q, %v, want %s first", line, err, holder.Node())
		for _, node := range line {
			check.Must(t, curator.Revoke(ctx, node))
		}
		kit.Await[lock.Revoked](t, holder.Events())
		release(t, holder)
		kit.Await[lock.Acquired](t, waiter.Events())
		kit.Await[lock.Revoked](t, waiter.Events())
		release(t, waiter)
	}
}

// curatorIsRevoked: the listener of Curator's holder is called, and no other listener.
func curatorIsRevoked(t *testing.T, curator *peers.Peer, s *session.Session, path string) {
	ctx := check.Patient(t)
	opts := &lock.RevokeOptions{Layout: lock.Curator}
	holder := check.Have(curator.Acquire(ctx, peers.CuratorRevocable, path))(t)
	waiter := check.Have(curator.Join(peers.CuratorRevocable, path, 0))(t)
	line := awaitLine(t, s, path, 2)
	check.True(t, line[0].Node == holder.Node() && line[0].Holding && !line[1].Holding, "we see %+v, want %s first", line, holder.Node())
	check.Must(t, lock.Revoke(ctx, s, path, opts))
	awaitPeer(t, "the request", holder.Revoked())
	check.None(t, waiter.Revoked(), "who waits was asked too")
	check.OK(t, holder.Release(ctx))
	awaitPeer(t, "the grant", waiter.Acquired())

	// One that consents in time is not forced.
	consent := make(chan error, 1)
	var asked sync.WaitGroup
	asked.Go(func() {
		consent <- lock.Revoke(ctx, s, path, &lock.RevokeOptions{Layout: lock.Curator, ForceAfter: time.Minute})
	})
	defer asked.Wait()
	awaitPeer(t, "the request", waiter.Revoked())
	check.OK(t, waiter.Release(ctx))
	check.OK(t, <-consent)
}

// curatorIsForced: a holder that does not listen loses its node.
func curatorIsForced(t *testing.T, curator *peers.Peer, s *session.Session, path string) {
	ctx := check.Patient(t)
	holder := check.Have(curator.Acquire(ctx, peers.CuratorMutex, path))(t)
	waiter := join(t, s, path, &lock.Options{Layout: lock.Curator})
	check.Must(t, lock.Revoke(ctx, s, path, &lock.RevokeOptions{Layout: lock.Curator, ForceAfter: time.Millisecond}))
	kit.Await[lock.Acquired](t, waiter.Events())
	release(t, waiter)
	if err := holder.Release(ctx); err != nil {
		t.Logf("Curator does not like it: %v", err)
	}
}

func awaitPeer(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-check.Patient(t).Done():
		t.Fatalf("%s does not come", what)
	}
}

func (a acquirer) contender(s *session.Session, opts *lock.Options) peers.Contender {
	return peers.Contender{
		Name:   "our " + a.name,
		Shared: a.shared,
		Join: func(ctx context.Context, path string, wait time.Duration) (peers.Tenancy, error) {
			if wait > 0 {
				limited, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				ctx = limited
			}
			l, err := a.acquire(ctx, s, path, opts)
			if err != nil {
				return nil, err
			}
			return peers.Grant[*lock.Lock]{Handle: l, Session: s}, nil
		},
	}
}

// strangers says for each of our layouts and kinds, in the order of theirs, what a contender of
// theirs does while we hold: it waits (w), or is granted the lock (g); what we do while it holds:
// we find it held (h), refuse to stand there (r), or share (s); and what becomes of a waiter of
// ours that came before theirs, when we have released: it acquires (a), or is refused (r). The
// documentation of Layout has the same.
var (
	theirs    = []peers.Kind{peers.CuratorMutex, peers.CuratorRead, peers.CuratorWrite, peers.KazooLock, peers.KazooLaterRead, peers.KazooWrite}
	strangers = map[lock.Layout]map[lock.Kind]string{
		lock.Standard: {
			lock.Exclusive: "wha grr grr grr grr grr",
			lock.Read:      "gha grr grr grr grr grr",
			lock.Write:     "gha grr grr grr grr grr",
		},
		lock.Curator: {
			lock.Exclusive: "wha gha gha grr grr grr",
			lock.Read:      "gha gsa wha grr grr grr",
			lock.Write:     "gha wha wha grr grr grr",
		},
		lock.Kazoo: {
			lock.Exclusive: "grr grr grr wha wha wha",
			lock.Read:      "grr grr grr gha gsa wha",
			lock.Write:     "grr grr grr wha wha wha",
		},
		lock.Prioritized: {
			lock.Exclusive: "grr grr grr grr grr grr",
			lock.Read:      "grr grr grr grr grr grr",
			lock.Write:     "grr grr grr grr grr grr",
		},
	}
)

// meetStrangers measures which contenders exclude which. No contender of ours is granted what one
// of theirs holds that excludes it, unless ours came before (gha).
func meetStrangers(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	s := kit.Open(t, ens.Addrs(), nil)
	for layout, rows := range strangers {
		for kind := range opens {
			t.Run(fmt.Sprintf("%v %v", layout, kind), func(t *testing.T) {
				t.Parallel()
				var cells []string
				for i, want := range strings.Fields(rows[kind]) {
					their := theirs[i]
					path := company.At(fmt.Sprintf("/strangers-%v-%v-%d", layout, kind, i))
					cells = append(cells, stranger(t, s, path, layout, kind, company.Peer(t, their.Library()).Contender(their), want))
				}
				check.Equal(t, strings.Join(cells, " "), rows[kind])
			})
		}
	}
}

// trial is how long a contender that cannot succeed is given.
const trial = 250 * time.Millisecond

// stranger returns a cell. Where it is expected that theirs is granted the lock, that is awaited.
func stranger(t *testing.T, s *session.Session, path string, layout lock.Layout, kind lock.Kind, their peers.Contender, want string) string {
	t.Helper()
	ctx, opts := check.Patient(t), &lock.Options{Layout: layout}
	cell := "w"
	kit.Ensure(t, s, path, nil)
	ours := check.Have(opens[kind].acquire(ctx, s, path, opts))(t)
	limit := trial
	if want[0] == 'g' {
		limit = 0
	}
	switch theirs, err := their.Join(ctx, path, limit); {
	case err == nil:
		cell = "g"
		check.OK(t, theirs.Release(ctx))
	case !errors.Is(err, context.DeadlineExceeded):
		t.Error(err)
	}
	release(t, ours)

	path += "-they"
	kit.Ensure(t, s, path, nil)
	theirs := check.Have(their.Join(ctx, path, 0))(t)
	switch ours, err := opens[kind].try(ctx, s, path, opts); {
	case errors.Is(err, lock.ErrHeld):
		cell += "h"
	case errors.Is(err, lock.ErrLayout):
		cell += "r"
	case err != nil:
		t.Error(err)
	default:
		cell += "s"
		release(t, ours)
		check.True(t, kind == lock.Read && their.Shared, "%s and %v %v hold at once", their.Name, layout, kind)
	}
	check.OK(t, theirs.Release(ctx))
	return cell + overtaken(t, s, path+"-later", layout, kind, their, want[2] == 'r')
}

// overtaken has a contender of theirs come while we hold, and another of ours waits, and returns
// what becomes of that when we have released. A contender that waits while a reader holds is a
// writer. Only a contender of theirs that is not expected to be granted the lock first has no more
// than a trial.
func overtaken(t *testing.T, s *session.Session, path string, layout lock.Layout, kind lock.Kind, their peers.Contender, expected bool) (cell string) {
	t.Helper()
	ctx, opts := check.Patient(t), &lock.Options{Layout: layout}
	kit.Ensure(t, s, path, nil)
	ours := check.Have(opens[kind].acquire(ctx, s, path, opts))(t)
	if kind == lock.Read {
		kind = lock.Write
	}
	waiter := check.Have(opens[kind].join(s, path, opts))(t)
	kit.Await[lock.Waiting](t, waiter.Events())
	limit := trial
	if expected {
		limit = 0
	}
	their.Overtakes(ctx, t, path, limit, func(bool) {
		defer waiter.Close()
		check.OK(t, ours.Release(ctx))
		cell = "a"
		if !peers.Awaits[lock.Acquired](ctx, t, waiter.Events()) {
			cell = "r"
			check.Is(t, waiter.Err(), lock.ErrLayout, "a waiter of ours has ended")
		}
	})
	return cell
}
