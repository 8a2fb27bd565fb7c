package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Member owns some of the shards. Create it with [Join]. It is safe for concurrent use, and must
// be closed.
type Member struct {
	session   *session.Session
	path      string
	shards    int
	self      Peer // as it was when it joined
	performer *performer
	actor     *actors.Actor[input, Event]
	fed       <-chan struct{}
	leaving   atomic.Bool

	mu    sync.Mutex
	owned map[int]*contender.Handle[line.Event]
	err   error
}

// Join becomes a member that owns some of the n shards at path, and returns at once:
// [Member.Events] reports which. A session that is not connected joins when it is. At a path of
// another recipe the member receives [Left], with [ErrForeign].
//
// If opts is nil, the default options are used. The error names the argument that is refused, or
// wraps [ErrDuplicate] if this very session has a member with the ID. There is no other error.
func Join(s *session.Session, path string, n int, opts *Options) (*Member, error) {
	o := opts.withDefaults()
	if err := validate(s, path, n, o); err != nil {
		return nil, err
	}
	self := Peer{ID: o.ID, Weight: o.Weight, Zone: o.Zone}
	if room := roomFor(path); n > room {
		self.Most = room
	}
	p, err := newPerformer(s, path, n, self, o)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	m := &Member{session: s, path: path, shards: n, self: self, performer: p, owned: make(map[int]*contender.Handle[line.Event])}
	m.actor = actors.StartKept(newMember(n, o.AtOnce, self), actors.Role[*member, input, effect, Event]{
		Name: m.String(), Perform: m.perform, Observe: m.observe, Stop: stop{}, Cancel: recipe.Undone[Suspended, Resumed, Event],
	})
	m.fed = actors.Feed(m.String(), p.kept.Events(), func(ev presence.Event) { _ = m.actor.Tell(present{ev}) }, func() {})
	return m, nil
}

func (m *Member) perform(e effect, tell func(input)) {
	if e, is := e.(leave); is {
		m.mu.Lock()
		delete(m.owned, e.shard)
		m.mu.Unlock()
	}
	m.performer.perform(e, tell)
}

// observe brings the accessors up to date.
func (m *Member) observe(now *member, events []Event) {
	m.mu.Lock()
	for _, ev := range events {
		switch ev := ev.(type) {
		case Assigned:
			m.owned[ev.Shard] = m.performer.at(ev.Shard)
		case Lost:
			delete(m.owned, ev.Shard)
		case Left:
			m.err = ev.Err
		case Joined, Suspended, Resumed, Gone, Revoke:
		}
	}
	m.mu.Unlock()
	if now.over {
		m.performer.owned.End()
	}
}

// ID returns the ID of the member.
func (m *Member) ID() string { return m.self.ID }

// Events returns the channel of events, which is always the same one:
//
//	((Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)?) Left
//
// and for each shard, anywhere before [Left]
//
//	(Assigned Revoke? Lost?)*
//
// where no Lost comes for a shard that was given, nor after Close. The channel has every event from
// the first on, also those before the first call, but for a Suspended with its Resumed. It is
// closed after the last event: receive with "ev, ok := <-events", because a select over a closed
// channel spins.
func (m *Member) Events() <-chan Event { return m.actor.Events() }

// Give gives a shard whose [Revoke] has come, when its work is done: the next owner may begin. It
// returns at once. The contexts of the shard end first. It does nothing for other shards.
//
// It gives the grant that stands. A user who answers a Revoke after its time, when the member may
// own the shard again and be asked for it again, calls [Member.GiveGrant].
func (m *Member) Give(shard int) { m.GiveGrant(shard, 0) }

// GiveGrant is [Member.Give], but does nothing unless the token is that of the present grant.
func (m *Member) GiveGrant(shard int, token int64) {
	if shard >= 0 && shard < m.shards {
		_ = m.actor.Tell(give{shard, token})
	}
}

// Owned returns the shards that the member owns, in order.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.owned))
}

// handle returns the handle of a shard that is owned; nil if it is not.
func (m *Member) handle(shard int) *contender.Handle[line.Event] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[shard]
}

// Token returns the fencing token of a shard; 0 if the member does not own it.
func (m *Member) Token(shard int) int64 {
	if h := m.handle(shard); h != nil {
		return h.Token()
	}
	return 0
}

// Guard returns an operation for [session.Session.Multi]. With it, the server refuses the
// transaction, with [ErrLost] and [session.ErrNoNode], unless the member owns the shard still. If
// it does not own the shard now, every transaction is refused.
func (m *Member) Guard(shard int) session.Op {
	if h := m.handle(shard); h != nil {
		return h.Guard()
	}
	return contender.GuardOf(m.path, "", ErrLost)
}

// Context returns a context that ends with parent, and when the member does not own the shard any
// more: with a cause that wraps [ErrLost], or with [ErrGiven] if the member has left its line: when
// the shard was given, or was overdue, and when the member leaves, for whatever reason. It ends
// before another member can own the shard, unless another client deletes nodes of the shard. The
// cancel function frees its resources.
func (m *Member) Context(parent context.Context, shard int) (context.Context, context.CancelFunc) {
	h := m.handle(shard)
	if h == nil || parent == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.Join(ErrLost, client.CheckContext(parent)))
		return ctx, func() {}
	}
	return h.Context(parent)
}

// SetWeight changes the weight of the member, and returns nil when its node has the weight. The
// shards move after that. If ctx ends first, it returns the cause, and the change goes on. It fails
// with [ErrLeft] after [Member.Leave].
func (m *Member) SetWeight(ctx context.Context, weight int) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	if weight < 0 || weight > mostWeight {
		return fmt.Errorf("shard: %w: weight %d: must be from 0 to %d", session.ErrInvalidArgument, weight, mostWeight)
	}
	if m.leaving.Load() {
		return fmt.Errorf("shards %s: %w", m.path, m.ended())
	}
	err := client.Ask(ctx, m.actor, func(reply actors.Reply[error]) input { return weigh{weight, reply} })
	if errors.Is(err, actors.ErrEnded) {
		err = m.ended()
	}
	if err != nil {
		return fmt.Errorf("shards %s: weight: %w", m.path, client.Of(m.session).Explain(err))
	}
	return nil
}

// ended returns why the member has left.
func (m *Member) ended() error {
	if err := m.Err(); err != nil {
		return err
	}
	return ErrLeft
}

// Leave has all shards of the member revoked, a few at once, and leaves when they are given or
// overdue. It returns nil when the member has left. If the server refuses for a session timeout to
// delete the node of a shard, which then has no owner, the error says so. So it does if the server
// refuses to delete the node of the member, which others then count as one that is to own shards.
// If ctx ends first, it returns the cause, and the member goes on to leave: [Member.Close] does not
// wait for its users.
func (m *Member) Leave(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	m.leaving.Store(true)
	_ = m.actor.Tell(drain{}) // one that has ended has left
	select {
	case <-m.actor.Ended():
		return m.Err()
	case <-ctx.Done():
		return fmt.Errorf("leave shards %s: %w", m.path, client.Of(m.session).Explain(context.Cause(ctx)))
	}
}

// Done returns a channel that is closed when the member has left, for good.
func (m *Member) Done() <-chan struct{} { return m.actor.Ended() }

// Err returns why the member has left; nil while it is one, and after Leave or Close.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		return nil
	}
	return fmt.Errorf("shards %s: member %s: %w", m.path, m.self.ID, m.err)
}

// Close leaves at once: the contexts of all shards end, and the shards go to others. It waits until
// the server has confirmed that, at most until the session's lease has ended. Undelivered events
// are discarded, but for the last one. It may be called any number of times.
func (m *Member) Close() {
	m.actor.Close()
	m.performer.kept.Close()
	<-m.fed
}

// String describes the member in one short line.
func (m *Member) String() string { return "member " + m.self.ID + " of shards " + m.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (m *Member) Format(f fmt.State, _ rune) { client.Print(f, m) }

// Planned returns, by shard, the ID of the member that owns it or is to own it; "" for none. It is
// for operators and clients of the shards, and costs one read.
func Planned(ctx context.Context, s *session.Session, path string) ([]string, error) {
	if err := recipe.Check(s, "shard", path, nil); err != nil {
		return nil, err
	}
	data, stat, err := s.Get(ctx, znode.Join(path, planNode))
	if err = client.Without(err, session.ErrNoNode); err != nil || stat == nil {
		return nil, err
	}
	ids, err := ParsePlan(data)
	if err != nil {
		return nil, fmt.Errorf("shards %s: %w", path, err)
	}
	return ids, nil
}

// ParsePlan returns what [Planned] does, by the data of the node <path>/plan. If a client of
// another kind has written that, the error wraps [ErrForeign].
func ParsePlan(data []byte) ([]string, error) {
	p, err := decodePlan(data)
	if err != nil {
		return nil, err
	}
	ids := make([]string, p.shards)
	for shard, o := range p.owners {
		if o >= 0 {
			ids[shard] = p.peers[o].ID
		}
	}
	return ids, nil
}

// The nodes below the path.
const (
	planNode    = "plan"         // the plan
	recordsNode = "plan/records" // <id>: the record of a member; they go before the plan does
	membersNode = "members"      // <id>: a member that is present
	shardsNode  = "shards"       // <shard>: the line of a shard
)

// lineOf returns the path of the line of a shard.
func lineOf(path string, shard int) string {
	return znode.Join(znode.Join(path, shardsNode), strconv.Itoa(shard))
}

// roomFor returns how many of the shards at path a member stands in line for: their nodes have
// three quarters of what a session may own, which is 1 MiB of paths ([session.ErrSessionFull]).
func roomFor(path string) int {
	const share = 3 << 18
	return share / len(znode.Join(lineOf(path, mostShards), znode.GUIDName(znode.NewGUID(), "lock-0000000000")))
}
