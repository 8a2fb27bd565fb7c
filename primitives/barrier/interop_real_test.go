package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A stage is servers, and the libraries that are connected to them.
type stage struct {
	company  *peers.Company
	sessions []*session.Session // one for each server
}

// settle returns when every server knows what has been written.
func (st stage) settle(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	for _, s := range st.sessions {
		check.Must(t, s.Sync(ctx, path))
	}
}

// A hand is a library at a barrier.
type hand struct {
	name        string
	raise, lift func(ctx context.Context, path string) error
	wait        func(ctx context.Context, path string) error
}

// hands are those of all libraries, ours in two ways. Ours raise, lift and wait on different
// servers.
func (st stage) hands(t *testing.T) (all []hand) {
	t.Helper()
	with := func(i int, f func(b *barrier.Barrier) error, path string) error {
		b, err := barrier.New(st.sessions[i%len(st.sessions)], path, nil)
		if err != nil {
			return err
		}
		defer b.Close()
		return f(b)
	}
	ours := hand{
		name: "ours",
		raise: func(ctx context.Context, path string) error {
			return with(0, func(b *barrier.Barrier) error { return b.Raise(ctx) }, path)
		},
		lift: func(ctx context.Context, path string) error {
			return with(1, func(b *barrier.Barrier) error { return b.Lift(ctx) }, path)
		},
		wait: func(ctx context.Context, path string) error {
			return with(2, func(b *barrier.Barrier) error { return b.Wait(ctx) }, path)
		},
	}
	gate := ours
	gate.name = "our gate"
	gate.raise = func(ctx context.Context, path string) error {
		return with(0, func(b *barrier.Barrier) error { _, err := b.TryRaise(ctx); return err }, path)
	}
	all = []hand{ours, gate}
	for _, kind := range []peers.Kind{peers.CuratorBarrier, peers.KazooBarrier} {
		for _, peer := range st.company.Peers(t, kind.Library()) {
			all = append(all, theirs(peer, kind))
		}
	}
	return all
}

func theirs(peer *peers.Peer, kind peers.Kind) hand {
	contender := peer.Contender(kind)
	return hand{
		name:  contender.Name,
		raise: func(ctx context.Context, path string) error { return peer.Raise(ctx, kind, path) },
		lift:  func(ctx context.Context, path string) error { return peer.Lift(ctx, kind, path) },
		wait: func(ctx context.Context, path string) error {
			limit := time.Duration(0)
			if until, limited := ctx.Deadline(); limited {
				limit = max(time.Until(until), time.Millisecond)
			}
			waited, err := contender.Join(ctx, path, limit)
			if err != nil {
				return err
			}
			return waited.Release(ctx)
		},
	}
}

// TestRealNeighbours has other libraries at our barriers, on three servers and on the one in
// memory.
func TestRealNeighbours(t *testing.T) {
	t.Parallel()
	peers.Wanted(t)
	for name, start := range map[string]func(*testing.T) []string{
		"three servers": func(t *testing.T) []string { t.Helper(); return zktest.StartEnsemble(t, 3, zktest.NoSync()).Addrs() },
		"in memory":     func(t *testing.T) []string { t.Helper(); return zktest.Start(t).Addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := start(t)
			peers.Companies(t, addrs, func(t *testing.T, company *peers.Company) {
				st := stage{company: company}
				for _, addr := range addrs {
					st.sessions = append(st.sessions, kit.Open(t, []string{addr}, nil))
				}
				st.meet(t)
			})
		})
	}
}

// meet plays all with one generation of the other libraries, and with all of them the barriers.
func (st stage) meet(t *testing.T) {
	t.Helper()
	t.Run("barriers", func(t *testing.T) { barriers(t, st) })
	if st.company.Mixed() {
		return
	}
	for _, kind := range []peers.Kind{peers.CuratorBarrier, peers.KazooBarrier} {
		t.Run("our gate and "+string(kind), func(t *testing.T) {
			t.Parallel()
			gate(t, st, kind)
		})
	}
	for _, kind := range []peers.Kind{peers.CuratorDouble, peers.KazooDouble} {
		t.Run("we come to "+string(kind), func(t *testing.T) {
			t.Parallel()
			weCome(t, st, kind)
		})
		t.Run(string(kind)+" comes to us", func(t *testing.T) {
			t.Parallel()
			theyCome(t, st, kind)
		})
	}
}

// barriers has each library raise what another lifts. All of them wait meanwhile.
func barriers(t *testing.T, st stage) {
	hands := st.hands(t)
	for i, raiser := range hands {
		for j, lifter := range hands {
			if lifter.name == "our gate" {
				continue // it lifts as ours does
			}
			if st.company.Mixed() && i != j {
				continue // each library lifts its own; all of them wait
			}
			t.Run(raiser.name+" raises, "+lifter.name+" lifts", func(t *testing.T) {
				t.Parallel()
				raiseAndLift(t, st, st.company.At(fmt.Sprintf("/neighbours-%d-%d", i, j)), raiser, lifter, hands)
			})
		}
	}
}

// gate: a gate of ours is a barrier to the other libraries. They can lift it, and it respects their
// barriers.
func gate(t *testing.T, st stage, kind peers.Kind) {
	ctx, peer, path := check.Patient(t), st.company.Peer(t, kind.Library()), st.company.At("/gate-"+string(kind.Library()))
	b, err := barrier.New(st.sessions[0], path, nil)
	check.Must(t, err)
	defer b.Close()
	g, err := b.TryRaise(ctx)
	check.Must(t, err)
	check.Must(t, peer.Raise(ctx, kind, path))
	st.settle(ctx, t, path)
	check.Must(t, peer.Lift(ctx, kind, path))
	select {
	case <-g.Done():
	case <-ctx.Done():
		t.Fatal("nobody tells the gate that it is lifted")
	}
	if err := g.Err(); !errors.Is(err, barrier.ErrNodeGone) {
		t.Errorf("lifted by %s: %v", kind, err)
	}
	check.Must(t, peer.Raise(ctx, kind, path))
	if _, err := b.TryRaise(ctx); !errors.Is(err, barrier.ErrRaised) {
		t.Errorf("raised by %s: %v", kind, err)
	}
	check.Must(t, g.Lift(ctx)) // not theirs
	st.settle(ctx, t, path)
	if stat, err := st.sessions[0].Exists(ctx, path); err != nil || stat == nil {
		t.Errorf("the barrier of %s: %v, %v", kind, stat, err)
	}
}

// weCome: where a party of theirs waits for another, or is inside, ours are refused, and theirs go
// on.
func weCome(t *testing.T, st stage, kind peers.Kind) {
	ctx, peer, path := check.Patient(t), st.company.Peer(t, kind.Library()), st.company.At("/we-come-"+string(kind.Library()))
	ours := realDouble(t, st.sessions[0], path)
	refused := func(when string) {
		t.Helper()
		before := st.children(ctx, t, path)
		if err := ours.Enter(ctx); !errors.Is(err, barrier.ErrLayout) {
			t.Fatalf("%s: %v", when, err)
		}
		if after := st.children(ctx, t, path); !slices.Equal(before, after) {
			t.Errorf("%s: there are %q, and were %q", when, after, before)
		}
	}
	first, err := peer.Join(kind.Of(2), path, 0)
	check.Must(t, err)
	st.awaitChildren(ctx, t, path, func(names []string) bool { return len(names) == 1 })
	refused("one of them waits")
	second, err := peer.Acquire(ctx, kind.Of(2), path)
	check.Must(t, err)
	select {
	case <-first.Acquired():
	case <-ctx.Done():
		t.Fatal("their round does not begin")
	}
	refused("they are inside")
	var leaving sync.WaitGroup
	leaving.Go(func() {
		check.OK(t, first.Release(ctx))
	})
	check.Must(t, second.Release(ctx))
	leaving.Wait()
}

// theyCome: a party of theirs counts our nodes, and enters at once. Ours that are inside leave, and
// are refused when they come again, until theirs is gone.
func theyCome(t *testing.T, st stage, kind peers.Kind) {
	ctx, path := check.Patient(t), st.company.At("/they-come-"+string(kind.Library()))
	peer := st.company.Peer(t, kind.Library())
	all := []*barrier.Double{realDouble(t, st.sessions[0], path), realDouble(t, st.sessions[1%len(st.sessions)], path)}
	each := func(what string, f func(d *barrier.Double) error, want error) {
		t.Helper()
		var group sync.WaitGroup
		for _, d := range all {
			group.Go(func() {
				if err := f(d); !errors.Is(err, want) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		group.Wait()
	}
	enter := func(d *barrier.Double) error { return d.Enter(ctx) }
	leave := func(d *barrier.Double) error { return d.Leave(ctx) }
	each("enter", enter, nil)
	check.Have(peer.Acquire(ctx, kind.Of(2), path))(t)
	each("leave", leave, nil)
	st.settle(ctx, t, path)
	each("enter again", enter, barrier.ErrLayout)
	for _, name := range st.children(ctx, t, path) { // theirs would wait until our nodes are gone
		if name == "ready" || len(name) >= 32 {
			check.Must(t, st.sessions[0].Delete(ctx, path+"/"+name, session.AnyVersion))
		}
	}
	st.settle(ctx, t, path)
	each("enter at last", enter, nil)
	each("leave at last", leave, nil)
}

func realDouble(t *testing.T, s *session.Session, path string) *barrier.Double {
	t.Helper()
	d, err := barrier.NewDouble(s, path, 2, nil)
	check.Must(t, err)
	t.Cleanup(d.Close)
	return d
}

// children returns what is below path, as the leader knows it.
func (st stage) children(ctx context.Context, t *testing.T, path string) []string {
	t.Helper()
	st.settle(ctx, t, path)
	names, _, err := st.sessions[0].Children(ctx, path)
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func (st stage) awaitChildren(ctx context.Context, t *testing.T, path string, want func(names []string) bool) {
	t.Helper()
	for names := st.children(ctx, t, path); !want(names); names = st.children(ctx, t, path) {
		if ctx.Err() != nil {
			t.Fatalf("there are %q", names)
		}
	}
}

// trial is how long those wait that cannot succeed.
const trial = 250 * time.Millisecond

func raiseAndLift(t *testing.T, st stage, path string, raiser, lifter hand, hands []hand) {
	t.Helper()
	ctx := check.Patient(t)
	check.Must(t, raiser.raise(ctx, path))
	check.Must(t, lifter.raise(ctx, path)) // it stands already
	st.settle(ctx, t, path)

	type end struct {
		name string
		err  error
	}
	ends := make(chan end, len(hands))
	var all, hasty sync.WaitGroup
	defer all.Wait()
	for _, h := range hands {
		all.Go(func() { ends <- end{h.name, h.wait(ctx, path)} })
		hasty.Go(func() {
			limited, cancel := context.WithTimeout(ctx, trial)
			defer cancel()
			if err := h.wait(limited, path); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a wait of %s has ended: %v", h.name, err)
			}
		})
	}
	hasty.Wait()
	select {
	case e := <-ends:
		t.Fatalf("%s does not wait: %v", e.name, e.err)
	default:
	}
	check.Must(t, lifter.lift(ctx, path))
	for range hands {
		if e := <-ends; e.err != nil {
			t.Errorf("%s has waited: %v", e.name, e.err)
		}
	}
	st.settle(ctx, t, path)
	for _, h := range hands { // nothing stands: nobody waits
		if err := h.wait(ctx, path); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		check.Must(t, h.lift(ctx, path))
	}
}
