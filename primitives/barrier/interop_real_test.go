package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/internal/peers"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A stage is servers, and the libraries that are connected to them.
type stage struct {
	company  *peers.Company
	sessions []*session.Session // one for each server
}

// onStages plays on three servers and on the one in memory.
func onStages(t *testing.T, play func(t *testing.T, st stage)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) []string{
		"three servers": func(t *testing.T) []string { t.Helper(); return zktest.StartEnsemble(t, 3, zktest.NoSync()).Addrs() },
		"in memory":     func(t *testing.T) []string { t.Helper(); return zktest.Start(t).Addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := start(t)
			st := stage{company: peers.NewCompany(t, addrs)}
			for _, addr := range addrs {
				st.sessions = append(st.sessions, openReal(t, []string{addr}))
			}
			play(t, st)
		})
	}
}

// settle returns when every server knows what has been written.
func (st stage) settle(t *testing.T, path string) {
	t.Helper()
	for _, s := range st.sessions {
		ok(t, s.Sync(patient(t), path))
	}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A hand is a library at a barrier.
type hand struct {
	name        string
	raise, lift func(ctx context.Context, path string) error
	wait        func(ctx context.Context, path string) error
}

// hands are those of all libraries, ours in two ways. Ours raise, lift and wait on different servers.
func (st stage) hands(t *testing.T) (all []hand) {
	t.Helper()
	with := func(i int, f func(b *barrier.Barrier) error, path string) error {
		b, err := barrier.New(st.sessions[i%len(st.sessions)], path, &barrier.Options{Sync: true})
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
		peer := st.company.Peer(t, kind.Library())
		all = append(all, hand{
			name:  string(kind),
			raise: func(ctx context.Context, path string) error { return peer.Raise(ctx, kind, path) },
			lift:  func(ctx context.Context, path string) error { return peer.Lift(ctx, kind, path) },
			wait: func(ctx context.Context, path string) error {
				limit := time.Duration(0)
				if until, limited := ctx.Deadline(); limited {
					limit = time.Until(until)
				}
				waited, err := peer.Contender(kind).Join(ctx, path, limit)
				if err != nil {
					return err
				}
				return waited.Release(ctx)
			},
		})
	}
	return all
}

// TestRealNeighbours has each library raise what another lifts. All of them wait meanwhile.
func TestRealNeighbours(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, st stage) {
		hands := st.hands(t)
		for i, raiser := range hands {
			for j, lifter := range hands {
				if lifter.name == "our gate" {
					continue // it lifts as ours does
				}
				t.Run(raiser.name+" raises, "+lifter.name+" lifts", func(t *testing.T) {
					t.Parallel()
					raiseAndLift(t, st, fmt.Sprintf("/neighbours-%d-%d", i, j), raiser, lifter, hands)
				})
			}
		}
	})
}

// TestRealGate: a gate is a barrier to others, who can lift it, and whose barriers it respects.
func TestRealGate(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, st stage) {
		for _, kind := range []peers.Kind{peers.CuratorBarrier, peers.KazooBarrier} {
			ctx, peer, path := patient(t), st.company.Peer(t, kind.Library()), "/gate-"+string(kind.Library())
			b, err := barrier.New(st.sessions[0], path, nil)
			ok(t, err)
			defer b.Close()
			g, err := b.TryRaise(ctx)
			ok(t, err)
			ok(t, peer.Raise(ctx, kind, path))
			st.settle(t, path)
			ok(t, peer.Lift(ctx, kind, path))
			select {
			case <-g.Done():
			case <-ctx.Done():
				t.Fatal("nobody tells the gate that it is lifted")
			}
			if err := g.Err(); !errors.Is(err, barrier.ErrNodeGone) {
				t.Errorf("lifted by %s: %v", kind, err)
			}
			ok(t, peer.Raise(ctx, kind, path))
			if _, err := b.TryRaise(ctx); !errors.Is(err, barrier.ErrRaised) {
				t.Errorf("raised by %s: %v", kind, err)
			}
			ok(t, g.Lift(ctx)) // not theirs
			st.settle(t, path)
			if stat, err := st.sessions[0].Exists(ctx, path); err != nil || stat == nil {
				t.Errorf("the barrier of %s: %v, %v", kind, stat, err)
			}
		}
	})
}

// trial is how long those wait that cannot succeed.
const trial = 250 * time.Millisecond

func raiseAndLift(t *testing.T, st stage, path string, raiser, lifter hand, hands []hand) {
	t.Helper()
	ctx := patient(t)
	ok(t, raiser.raise(ctx, path))
	ok(t, lifter.raise(ctx, path)) // it stands already
	st.settle(t, path)

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
	ok(t, lifter.lift(ctx, path))
	for range hands {
		if e := <-ends; e.err != nil {
			t.Errorf("%s has waited: %v", e.name, e.err)
		}
	}
	st.settle(t, path)
	for _, h := range hands { // nothing stands: nobody waits
		if err := h.wait(ctx, path); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		ok(t, h.lift(ctx, path))
	}
}
