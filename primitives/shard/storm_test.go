package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/bubble"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A claim is what a member has by its context.
type claim struct {
	id    string
	ctx   context.Context //nolint:containedctx // of the grant
	token int64
}

// A storm is members that come, go, are cut off and change their weights, at random.
type storm struct {
	bubble.World

	r      *rand.Rand
	shards int

	mu     sync.Mutex
	owners map[int]claim
	alive  []*sailor
	last   int
}

// A sailor is a member in a storm.
type sailor struct {
	*shard.Member
	gate *bubble.Gate
}

// work follows the events of a member: no shard is assigned while the context of another lasts.
func (w *storm) work(m *shard.Member) {
	for ev := range m.Events() {
		switch ev := ev.(type) {
		case shard.Assigned:
			ctx, _ := m.Context(context.Background(), ev.Shard)
			w.mu.Lock()
			was := w.owners[ev.Shard]
			check.False(w, was.ctx != nil && was.ctx.Err() == nil && ctx.Err() == nil, "%s: %v, and %s has it", m.ID(), ev, was.id)
			check.True(w, ev.Token > was.token || was.id == "", "%s: %v, after %d of %s", m.ID(), ev, was.token, was.id)
			w.owners[ev.Shard] = claim{m.ID(), ctx, ev.Token}
			w.mu.Unlock()
		case shard.Revoke:
			m.Give(ev.Shard)
		case shard.Lost, shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
		}
	}
}

func (w *storm) join() {
	w.last++
	gate := w.OpenGated(session.Options{Timeout: 6 * time.Second, ServerTick: time.Second})
	m := check.Open(shard.Join(gate.Session, orders, w.shards, &shard.Options{ID: fmt.Sprintf("m%03d", w.last), GiveWithin: 5 * time.Second, AtOnce: 1 + w.r.IntN(4)}))(w)
	w.alive = append(w.alive, &sailor{m, gate})
	go w.work(m)
}

// trouble does one thing.
func (w *storm) trouble() {
	if len(w.alive) == 0 {
		w.join()
		return
	}
	i := w.r.IntN(len(w.alive))
	s := w.alive[i]
	gone := func() { w.alive = append(w.alive[:i:i], w.alive[i+1:]...) }
	switch w.r.IntN(8) {
	case 0, 1:
		if len(w.alive) < 6 {
			w.join()
		}
	case 2:
		gone()
		s.Close()
	case 3:
		gone()
		s.gate.Close() // its session, and all with it
	case 4:
		gone()
		go func() { _ = s.Leave(context.Background()) }()
	case 5:
		s.gate.Cut()
		bubble.Pass(time.Duration(w.r.Int64N(int64(12 * time.Second))))
		s.gate.Mend()
	case 6:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.SetWeight(ctx, 1+w.r.IntN(3))
	case 7:
		w.Disconnect(0)
	}
}

// TestStorm: through all of it no two members have one shard, and after it the shares are even.
func TestStorm(t *testing.T) {
	for seed := range hasten.Sized(hasten.Usually(60, 20), 12) {
		bubble.Run(t, zktest.Config{Tick: time.Second, Replicas: 1 + 2*(seed%2), Lag: time.Duration(seed%2) * 20 * time.Millisecond}, func(b bubble.World) {
			r := rand.New(rand.NewPCG(uint64(seed), 3))
			w := &storm{World: b, r: r, shards: 1 + r.IntN(20), owners: make(map[int]claim)}
			for range 30 {
				w.trouble()
				bubble.Pass(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
			for len(w.alive) < 2 {
				w.join()
			}
			for _, s := range w.alive {
				check.OK(t, s.SetWeight(w.Context(), 1))
			}
			bubble.Pass(2 * time.Minute)
			sum := 0
			for _, s := range w.alive {
				n, least := len(s.Owned()), w.shards/len(w.alive)
				check.True(t, n == least || n == least+1, "seed %d: %s owns %d of %d, of %d members", seed, s.ID(), n, w.shards, len(w.alive))
				sum += n
			}
			check.True(t, sum == w.shards, "seed %d: %d of %d shards are owned", seed, sum, w.shards)
		})
	}
}
