package barrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Gate is a barrier that lasts at most as long as the session of the client that raised it. See
// [Barrier.TryRaise]. It is safe for concurrent use, and outlives the handle that has raised it. It
// must be lifted, unless it is lost or its session is closed.
type Gate struct {
	barrier *Barrier
	keeper  *gatekeeper
	actor   *actors.Actor[gateInput, GateEvent]
	tried   chan struct{} // closed when TryRaise has its outcome
	done    chan struct{} // closed when the gate is not held any more
	token   int64         // valid when tried is closed; 0 if TryRaise has failed
	failure error         // why TryRaise has failed; valid when tried is closed
	err     error         // why the gate was lost; valid when done is closed
	refused error         // why the node was not deleted; valid when the actor has ended
}

// TryRaise raises the barrier if no barrier stands; otherwise the error wraps [ErrRaised], or
// [ErrLayout] and [ErrForeign] if what stands belongs to another recipe. The node is ephemeral, so
// the barrier is lifted when the session ends.
//
// After an error no barrier of this call stays: if the server may have created the node, it is
// deleted in the background. If ctx ends first, the error is its cause.
func (b *Barrier) TryRaise(ctx context.Context) (*Gate, error) {
	if err := b.refusal(ctx); err != nil {
		return nil, b.explain("try to raise", err)
	}
	s := client.Of(b.session)
	g := &Gate{barrier: b, tried: make(chan struct{}), done: make(chan struct{})}
	g.keeper = &gatekeeper{session: s, path: b.path, id: nodes.Gate(znode.NewGUID())}
	s.Rely(1)
	g.actor = actors.Start(gate{}, actors.Role[gate, gateInput, gateEffect, GateEvent]{
		Name:    "gate " + b.path,
		Perform: g.keeper.perform,
		Observe: g.observe,
		Stop:    stop{},
	})
	g.keeper.begin(g.tell, g.actor.Ended())
	select {
	case <-g.tried:
	case <-ctx.Done():
		g.tell(stop{})
		return nil, b.explain("try to raise", context.Cause(ctx))
	}
	if g.token == 0 {
		err := g.failure
		if errors.Is(err, ErrRaised) {
			err = cmp.Or(foreign(ctx, b.session, b.path), err)
		}
		return nil, b.explain("try to raise", err)
	}
	return g, nil
}

// tell passes an input to the machine. An ended machine needs none.
func (g *Gate) tell(in gateInput) { _ = g.actor.Tell(in) }

func (g *Gate) observe(m gate, events []GateEvent) {
	g.keeper.holder.Set(g.keeper.session, m.stage == standing)
	for _, ev := range events {
		switch ev := ev.(type) {
		case Raised:
			client.Log(g.keeper.session, slog.LevelInfo, recipe, g.keeper.path, "gate raised", slog.Int64("token", ev.Token))
		case Released:
			client.Log(g.keeper.session, slog.LevelInfo, recipe, g.keeper.path, "gate lifted", slog.Attr{})
		case Lost:
			client.LogLoss(g.keeper.session, recipe, g.keeper.path, ev.Err)
		}
	}
	if m.stage > trying && !client.Closed(g.tried) {
		if g.token = m.token; g.token == 0 {
			g.failure = m.err
		}
		close(g.tried)
	}
	if m.over() && !g.over() {
		g.err = m.err
		close(g.done)
	}
	if m.Ended() {
		g.refused = m.refused
		g.keeper.end(m.refused != nil)
	}
}

func (g *Gate) over() bool { return client.Closed(g.done) }

// Events returns the channel of events, which is always the same one:
//
//	Raised (Released | Lost)
//
// It begins with the newest event before the first call. The channel is closed after the last
// event: receive with "ev, ok := <-events", because a select over a closed channel spins.
func (g *Gate) Events() <-chan GateEvent { return g.actor.Events() }

// Token returns a number that grows with each barrier that is raised at the path, unless the
// servers come back with older data.
func (g *Gate) Token() int64 { return g.token }

// Done returns a channel that is closed when the gate is not held any more: Lift was called, the
// node is deleted or cannot be watched any more, or the session has expired or was closed.
func (g *Gate) Done() <-chan struct{} { return g.done }

// Err returns why Done is closed: nil after Lift, else [ErrNodeGone], the error that ended the
// session, or why the node cannot be watched.
func (g *Gate) Err() error {
	if g.over() {
		return g.err
	}
	return nil
}

// Lift lifts the gate, and waits until its node is deleted. It returns nil at once if the gate is
// lost or lifted already; a barrier that another client has raised in the meantime stays. If the
// session expires meanwhile, the next one deletes the node. If the session is closed, Lift returns
// nil, and the server deletes the node later. If ctx ends first, Lift returns its cause. If the
// server has not deleted the node for a session timeout, Lift returns the error of the server. In
// both cases the gate is lifted in the background.
func (g *Gate) Lift(ctx context.Context) error {
	err := client.CheckContext(ctx)
	if lost := g.over() && g.err != nil; err == nil && !lost && !client.Closed(g.actor.Ended()) {
		g.tell(stop{})
		select {
		case <-g.actor.Ended():
			err = g.refused
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return g.barrier.explain("lift", err)
}

// A gatekeeper performs the effects of a gate.
type gatekeeper struct {
	session client.Session
	path    string
	id      string // the data of the node; unique
	holder  client.Holder
	owned   owned.Set
}

func (p *gatekeeper) begin(tell func(gateInput), ended <-chan struct{}) {
	p.owned.Follow(p.session, func(ev session.Event) { tell(became{ev}) }, ended)
}

// end ends what the gate has beside its machine. If the server has refused to delete the node, the
// removal goes on, and would delete the node of a later gate that took it for its own: so the gate
// stays its holder.
func (p *gatekeeper) end(refused bool) {
	p.session.Rely(-1)
	p.owned.End()
	if !refused {
		p.holders().leave(p.id)
	}
}

// holders has the gates of a session that have a node, by the token of the node. Its functions are
// called in the order of the wire: a gate that has received the token of its node is in it before
// another gate reads that node. A gate leaves when its node is gone. If Lift has failed, it stays
// until a gate of a later epoch has a node: servers with older data may give the token to that one.
type holders struct {
	mu    sync.Mutex
	epoch int // the newest one whose gates had a node
	gate  map[int64]string
}

type holdersKey struct{}

func (p *gatekeeper) holders() *holders {
	return p.session.Local(holdersKey{}, func() any { return &holders{gate: map[int64]string{}} }).(*holders)
}

// take registers the gate as the holder of the node. It reports whether no other gate holds the
// node.
func (h *holders) take(epoch int, token int64, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if epoch < h.epoch {
		return false // the node is gone
	}
	if epoch > h.epoch {
		h.epoch = epoch
		clear(h.gate)
	}
	if _, taken := h.gate[token]; !taken {
		h.gate[token] = id
	}
	return h.gate[token] == id
}

func (h *holders) leave(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.gate, func(_ int64, of string) bool { return of == id })
}

// perform starts the execution of one effect.
func (p *gatekeeper) perform(e gateEffect, tell func(gateInput)) {
	switch e := e.(type) {
	case ply:
		p.ply(e, func(in replied) { owned.Tell[gateInput](&p.owned, in.err, tell, in) })
	case mind:
		p.owned.Keep(mind{}, p.session.Async(e.epoch).Follow(p.path, session.AspectData, false, func(r session.Reading, err error) {
			if err != nil {
				tell(unminded{err})
				return
			}
			tell(minded{r.Stat.Czxid})
		}))
	case raze:
		// Czxid and session alone do not identify the gate's node: other gates of the session have
		// the same version, too.
		r := session.Removal{Path: p.path, Contested: true, Says: nodes.IsGate, Is: func(stat *session.Stat) bool {
			return stat.EphemeralOwner == e.session && p.holders().take(e.epoch, stat.Czxid, p.id)
		}}
		if e.token != 0 {
			// Servers with older data may have given the token to the gate of another session.
			r.Says, r.Is = nil, func(stat *session.Stat) bool { return stat.EphemeralOwner == e.session && stat.Czxid == e.token }
		}
		p.session.Async(e.epoch).Remove(r, func(err error) { tell(removed{e.epoch, err}) })
	}
}

// ply sends a request, and answers once.
func (p *gatekeeper) ply(e ply, answer func(replied)) {
	a := p.session.Async(e.epoch)
	switch e.step {
	case raising:
		data := []byte(p.id)
		ops := []session.Op{session.CreateOp(p.path, data, session.Ephemeral), session.SetOp(p.path, data, 0)}
		a.Multi(ops, func(results []session.OpResult, err error) {
			if err != nil {
				answer(replied{err: err})
				return
			}
			token := results[1].Stat.Czxid
			p.holders().take(e.epoch, token, p.id)
			answer(replied{token: token}) // the reply to a creation may have no Stat
		})
	case making:
		dir, _ := znode.Split(p.path)
		a.EnsurePath(dir, func(_ bool, err error) { answer(replied{err: err}) })
	case peering:
		a.Get(p.path, func(data []byte, stat *session.Stat, err error) {
			if err != nil {
				answer(replied{err: err})
				return
			}
			mine := stat.EphemeralOwner == e.session && nodes.IsGate(data) && p.holders().take(e.epoch, stat.Czxid, p.id)
			answer(replied{token: stat.Czxid, mine: mine})
		})
	}
}

// String describes the gate in one short line.
func (g *Gate) String() string { return "gate of barrier " + g.barrier.path }

// Format implements [fmt.Formatter]: every verb prints String, without reading the fields.
func (g *Gate) Format(f fmt.State, _ rune) { client.Print(f, g) }
