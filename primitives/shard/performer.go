package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

// A performer performs the effects of a member.
type performer struct {
	session *session.Session
	client  client.Session
	path    string
	shards  int
	id      string
	within  time.Duration // see Options.GiveWithin
	place   Placement
	kept    *presence.Kept[presence.Input, presence.Event]

	owned    owned.Set
	requests client.Async // of the present epoch; nil at first; used by the actor's goroutine alone

	mu     sync.Mutex
	places map[int]standing // by shard, from stand to the end of the place
	took   time.Duration    // the last look that was not thorough

	warned map[string]struct{} // IDs of members whose nodes no session owns
}

// A standing is a place in the line of a shard.
type standing struct {
	serial int
	*contender.Handle[line.Event]
}

// newPerformer returns a performer that keeps the node of the member.
func newPerformer(s *session.Session, path string, n int, self Peer, o Options) (*performer, error) {
	p := &performer{session: s, client: client.Of(s), path: path, shards: n, id: o.ID, within: o.GiveWithin, place: o.Placement, places: make(map[int]standing), warned: make(map[string]struct{})}
	p.owned.Clock = p.client
	data, err := json.Marshal(memberData{self, n})
	if err != nil {
		return nil, err
	}
	p.kept, err = presence.Keep(s, p.node(membersNode, p.id), data, presence.Config{ConflictAfter: o.ConflictAfter, Owner: nodes.OfShards},
		presence.Role[presence.Machine, presence.Input, presence.Event]{
			Recipe:  "shard",
			Path:    path,
			Name:    "node of member " + p.id + " of shards " + path,
			Machine: func(m presence.Machine) presence.Machine { return m },
			Input:   func(in presence.Input) presence.Input { return in },
			// The node may stand, and its session be suspended, before the member reads the first.
			Keep: func(presence.Event, presence.Event) bool { return true },
		})
	return p, err
}

func (p *performer) node(dir, name string) string {
	return znode.Join(znode.Join(p.path, dir), name)
}

// Keys of the performer's things.
type (
	followed struct{}
	watched  struct{}
	timer    struct{ shard, serial int }
	resting  struct{}
	refusals struct{}
	placings struct{}
)

// retryAfter is the time after which a place in line that was refused is tried again: after servers
// have come back with older data, for one, until their zxids have caught up.
const retryAfter = 15 * time.Second

// slowAfter is the time after which a placement that has not returned is reported, and a member
// that leaves does not wait for it.
const slowAfter = time.Minute

// headStart is the time between the event that tells a user that a shard is lost and the moment
// from which another can own it, if the loss is this member's own decision: as much as leases have
// with long timeouts.
const headStart = 250 * time.Millisecond

func (p *performer) perform(e effect, tell func(input)) {
	switch e := e.(type) {
	case stand:
		p.stand(e, tell)
	case leave:
		p.leave(e)
	case ask:
		tell(revoked{e.shard, e.serial, p.client.Deadline(p.within)})
		p.owned.After(timer(e), p.within, func() { tell(overdue(e)) })
	case follow:
		p.requests = p.client.Async(e.epoch)
		p.owned.Keep(followed{}, p.requests.Follow(p.node(recordsNode, p.id), session.AspectData, true, func(r session.Reading, err error) {
			in := recorded{err: err}
			if err == nil && r.Stat != nil {
				var rec record
				if rec, in.err = decodeRecord(r.Data); in.err == nil {
					in.record = &rec
				}
			}
			tell(in)
		}))
	case watch:
		p.owned.Cancel(watched{})
		if e.id == "" || p.requests == nil {
			return
		}
		p.owned.Keep(watched{}, p.requests.Follow(p.node(membersNode, e.id), session.AspectData, true, func(r session.Reading, err error) {
			if !client.Over(err) { // else a new session follows
				ownerless := err == nil && r.Stat != nil && r.Stat.EphemeralOwner == 0
				if ownerless {
					p.warn(e.id)
				}
				tell(neighbour{e.id, err == nil && r.Stat == nil || ownerless, ownerless, err})
			}
		}))
	case suspect:
		p.owned.After(watched{}, retryAfter, func() { tell(neighbour{id: e.id, gone: true}) })
	case look:
		p.look(e, tell)
	case arrange:
		p.owned.After(placings{}, slowAfter, func() {
			p.client.Logger().Warn("shards may be without an owner: Options.Placement has not returned", "path", p.path, "member", p.id, "time", slowAfter)
			tell(slow{})
		})
		var in placed
		actors.ContainLater(func() { in.write, in.needed, in.err = e.replan(p.shards, e.self, p.place, p.fits) }, func(err error) {
			if err != nil {
				in = placed{err: fmt.Errorf("%w: Options.Placement: %w", session.ErrInvalidArgument, err)}
			}
			p.owned.Cancel(placings{})
			tell(in)
		})
	case replace:
		requests := p.requests
		requests.Multi(p.ops(e.write), func(_ []session.OpResult, err error) { p.write(requests, e.write, err, tell) })
	case yield:
		const shortest, longest = 10 * time.Millisecond, 10 * time.Second
		p.mu.Lock()
		unit := max(p.took, shortest)
		p.mu.Unlock()
		// The first still has to read the nodes of all, and to write, which may take several round
		// trips. Any member that looks on then plans for all.
		p.owned.After(resting{}, 5*unit+rand.N(min(unit*time.Duration(e.ahead), longest)), func() { tell(due{}) })
	case pause:
		const shortest, longest, doublings = 50 * time.Millisecond, 10 * time.Second, 8
		most := min(shortest<<min(e.tries, doublings), longest)
		p.owned.After(resting{}, rand.N(most), func() { tell(due{}) })
	case rest:
		p.owned.After(refusals{}, retryAfter, func() { tell(rested{}) })
	case complain:
		p.client.Logger().Warn("shards may be without an owner", "path", p.path, "member", p.id, "error", e.err)
	case renew:
		data, err := json.Marshal(memberData{e.self, p.shards})
		if err == nil {
			err = p.kept.Tell(presence.Update{Data: string(data), Reply: e.reply})
		}
		if err != nil { // it has ended
			e.reply.Give(ErrLeft)
		}
	case answer:
		e.reply.Give(e.err)
	case depart:
		_ = p.kept.Tell(presence.Leave{}) // one that has ended has left
	}
}

// stand stands in the line of a shard. The line is that of an exclusive lock.
func (p *performer) stand(e stand, tell func(input)) {
	over := func(err, stands error) {
		p.mu.Lock()
		if p.places[e.shard].serial == e.serial {
			delete(p.places, e.shard)
		}
		p.mu.Unlock()
		tell(ended{e.shard, e.serial, err, stands})
	}
	h := contender.Open(p.session, &contender.Recipe{
		Name: "shard", Path: p.path, Dir: lineOf(p.path, e.shard), Data: []byte(p.id),
		Rule:  line.First{Grammar: &nodes.StandardLock, Kind: nodes.Exclusive, EventGrants: true, Brief: true},
		Skips: true,
	}, &contender.Presentation[line.Event]{
		Tell: func(ev line.Event) line.Event { return ev },
		Lost: ErrLost, Released: ErrGiven, Retried: true,
		Observe: func(ev line.Event) {
			switch ev := ev.(type) {
			case line.Acquired:
				tell(acquired{e.shard, e.serial, ev.Token})
			case line.Lost:
				over(contender.Loss(ErrLost, ev), nil)
			case line.NotGranted:
				over(ev.Err, nil)
			case line.Released:
				over(nil, ev.Err)
			case line.Waiting, line.Suspended, line.Resumed, line.Revoked, line.ConditionChanged:
			}
		},
	}, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[e.shard] = standing{e.serial, h}
}

// at returns the newest place in the line of a shard.
func (p *performer) at(shard int) *contender.Handle[line.Event] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places[shard].Handle
}

func (p *performer) leave(e leave) {
	t := timer{e.shard, e.serial}
	p.owned.Cancel(t)
	h := p.at(e.shard)
	switch {
	case h == nil: // its end is on the way
	case e.told:
		h.Forfeit()
		p.owned.After(t, headStart, h.Leave)
	default:
		h.Leave()
	}
}

// look reads the plan first, and then who is there: see [sight]. Unless it is to be thorough, it
// stops if other strangers are to plan before.
func (p *performer) look(e look, tell func(input)) {
	requests, began := p.requests, p.client.Age()
	s := sight{generation: "generation-" + znode.NewGUID()}
	answer := func(err error) { owned.Tell[input](&p.owned, err, tell, looked{s, err}) }
	requests.Roomy().Get(znode.Join(p.path, planNode), func(data []byte, stat *session.Stat, err error) {
		if err == nil {
			var read plan
			if read, err = decodePlan(data); err == nil {
				s.plan, s.version = &read, stat.Version
			}
		}
		if err = client.Without(err, session.ErrNoNode); err != nil {
			answer(err)
			return
		}
		p.list(requests, membersNode, func(names []string, err error) {
			if err = client.Without(err, session.ErrNoNode); err != nil {
				answer(err)
				return
			}
			s.listed = names
			p.list(requests, recordsNode, func(names []string, err error) {
				s.records, s.bare = names, errors.Is(err, session.ErrNoNode)
				if err = client.Without(err, session.ErrNoNode); err != nil {
					answer(err)
					return
				}
				strangers := s.strangers(p.shards)
				if i := slices.Index(strangers, p.id); i > 0 && !e.thoroughly {
					p.mu.Lock()
					p.took = p.client.Age() - began
					p.mu.Unlock()
					s.ahead = i
					answer(nil)
					return
				}
				read := strangers
				if e.wary {
					read = s.listed
				}
				p.meet(requests, &s, read, strangers, answer)
			})
		})
	})
}

// list lists the children of one of the directories.
func (p *performer) list(requests client.Async, dir string, answer func(names []string, err error)) {
	requests.Roomy().Children(znode.Join(p.path, dir), func(names []string, _ *session.Stat, err error) {
		names = slices.Clone(names)
		slices.Sort(names)
		answer(names, err)
	})
}

// meet reads nodes of members, and meets those that are strangers. A node that no session owns is
// taken off the list.
func (p *performer) meet(requests client.Async, s *sight, read, strangers []string, answer func(error)) {
	s.known = make(map[string]Peer)
	read = slices.DeleteFunc(slices.Clone(read), func(id string) bool { return id == p.id })
	left := len(read)
	if left == 0 {
		answer(nil)
		return
	}
	var failed error
	for _, id := range read {
		requests.Get(p.node(membersNode, id), func(data []byte, stat *session.Stat, err error) {
			switch {
			case err == nil && stat.EphemeralOwner == 0:
				p.warn(id)
				s.strike(id)
			case err == nil && slices.Contains(strangers, id):
				s.meet(id, data, p.shards)
			case client.Without(err, session.ErrNoNode) != nil:
				failed = err
			}
			if left--; left == 0 {
				answer(failed)
			}
		})
	}
}

// warn logs a member whose node no session owns, once.
func (p *performer) warn(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.warned[id]; !again {
		p.warned[id] = struct{}{}
		p.client.Logger().Warn("a node of no session is no member, and is to own no shards", "recipe", "shard", "path", p.path, "node", p.node(membersNode, id))
	}
}

// fits reports whether a write can be sent.
func (p *performer) fits(w write) bool { return p.client.Fits(p.ops(w)...) == nil }

// ops returns the operations of a write.
func (p *performer) ops(w write) (ops []session.Op) {
	plan := znode.Join(p.path, planNode)
	if w.version < 0 {
		ops = append(ops, session.CreateOp(plan, w.data, session.Persistent))
	} else {
		ops = append(ops, session.SetOp(plan, w.data, w.version))
	}
	if generation := znode.Join(plan, w.generation); w.begins {
		ops = append(ops, session.CreateOp(generation, nil, session.Persistent))
	} else {
		ops = append(ops, session.CheckOp(generation, session.AnyVersion))
	}
	if w.bare {
		ops = append(ops, session.CreateOp(znode.Join(p.path, recordsNode), nil, session.Persistent))
	}
	for _, r := range w.create {
		ops = append(ops, session.CreateOp(p.node(recordsNode, r.id), r.data, session.Persistent))
	}
	for _, r := range w.set {
		ops = append(ops, session.SetOp(p.node(recordsNode, r.id), r.data, session.AnyVersion))
	}
	for _, id := range w.remove {
		ops = append(ops, session.DeleteOp(p.node(recordsNode, id), session.AnyVersion))
	}
	return ops
}

// write answers a write. If a node was missing, it may be that of the generation, which an operator
// may have deleted without the plan: it is made again then, and the next look writes.
func (p *performer) write(requests client.Async, w write, err error, tell func(input)) {
	answer := func() { owned.Tell[input](&p.owned, err, tell, wrote{err}) }
	if !errors.Is(err, session.ErrNoNode) || w.begins {
		answer()
		return
	}
	path := znode.Join(p.path, planNode)
	requests.Roomy().Get(path, func(data []byte, stat *session.Stat, failed error) {
		if failed == nil {
			var now plan
			if now, failed = decodePlan(data); failed == nil && now.generation != w.generation {
				failed = errPlan
			}
		}
		if failed != nil {
			answer()
			return
		}
		requests.Multi([]session.Op{
			session.CheckOp(path, stat.Version),
			session.CreateOp(znode.Join(path, w.generation), nil, session.Persistent),
		}, func([]session.OpResult, error) { answer() })
	})
}
