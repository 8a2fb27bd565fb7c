package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A claim is a grant of a shard, as its member reads it.
type claim struct {
	id    string
	token int64
	ctx   context.Context //nolint:containedctx // of the grant
}

func (c claim) String() string { return fmt.Sprintf("%s with token %d", c.id, c.token) }

// A storm is members that come, go, are cut off and change their weights, at random.
type storm struct {
	kit.World

	seed    int
	r       *rand.Rand
	shards  int
	alive   []*sailor
	last    int
	workers sync.WaitGroup

	mu     sync.Mutex
	claims map[int][]claim // by shard, all that were read
}

// A sailor is a member in a storm.
type sailor struct {
	*shard.Member
	gate *kit.Gate
}

// work follows the events of a member.
func (w *storm) work(m *shard.Member) {
	for ev := range m.Events() {
		switch ev := ev.(type) {
		case shard.Assigned:
			ctx, _ := m.Context(context.Background(), ev.Shard)
			// The bubble's clock stands until the event is read, so the context is of this grant.
			token := m.Token(ev.Shard)
			check.True(w, token == ev.Token || token == 0, "seed %d: %s: %v, but it has token %d", w.seed, m.ID(), ev, token)
			w.judge(ev.Shard, claim{m.ID(), ev.Token, ctx})
		case shard.Revoke:
			m.Give(ev.Shard)
		case shard.Lost, shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
		}
	}
}

// judge compares a claim with all others of its shard: the context of the earlier one has ended
// before the later one was granted. On a busy machine a member may read its event after it has
// left, when others have owned the shard. So the tokens say which claim is earlier, not the order
// in which the claims are read, unless one member has read both.
func (w *storm) judge(shard int, now claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, was := range w.claims[shard] {
		first, second := was, now
		if was.id != now.id && was.token > now.token {
			first, second = now, was
		}
		check.True(w, first.token < second.token, "seed %d, shard %d: %v comes after %v", w.seed, shard, second, first)
		check.True(w, first.ctx.Err() != nil, "seed %d, shard %d: %v has it, and the context of %v has not ended", w.seed, shard, second, first)
	}
	w.claims[shard] = append(w.claims[shard], now)
}

// holders returns how many contexts of a shard have not ended.
func (w *storm) holders(shard int) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.claims[shard] {
		if c.ctx.Err() == nil {
			n++
		}
	}
	return n
}

func (w *storm) join() {
	w.last++
	gate := w.OpenGated(session.Options{Timeout: 6 * time.Second, ServerTick: time.Second})
	m := check.Open(shard.Join(gate.Session, orders, w.shards, &shard.Options{ID: fmt.Sprintf("m%03d", w.last), GiveWithin: 5 * time.Second, AtOnce: 1 + w.r.IntN(4)}))(w)
	w.alive = append(w.alive, &sailor{m, gate})
	w.workers.Go(func() { w.work(m) })
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
		w.workers.Go(func() { _ = s.Leave(context.Background()) })
	case 5:
		s.gate.Cut()
		kit.Pass(time.Duration(w.r.Int64N(int64(12 * time.Second))))
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
		kit.Run(t, zktest.Config{Tick: time.Second, Replicas: 1 + 2*(seed%2), Lag: time.Duration(seed%2) * 20 * time.Millisecond}, func(b kit.World) {
			r := rand.New(rand.NewPCG(uint64(seed), 3))
			w := &storm{World: b, seed: seed, r: r, shards: 1 + r.IntN(20), claims: make(map[int][]claim)}
			w.Cleanup(w.workers.Wait) // after the members are closed
			for range 30 {
				w.trouble()
				kit.Pass(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
			for len(w.alive) < 2 {
				w.join()
			}
			for _, s := range w.alive {
				check.OK(t, s.SetWeight(w.Context(), 1))
			}
			kit.Pass(2 * time.Minute)
			sum := 0
			for _, s := range w.alive {
				n, least := len(s.Owned()), w.shards/len(w.alive)
				check.True(t, n == least || n == least+1, "seed %d: %s owns %d of %d, of %d members", seed, s.ID(), n, w.shards, len(w.alive))
				sum += n
			}
			check.True(t, sum == w.shards, "seed %d: %d of %d shards are owned", seed, sum, w.shards)
			for shard := range w.shards {
				check.Equal(t, w.holders(shard), 1, "seed ", seed, ", contexts of shard ", shard)
			}
		})
	}
}
