package contender

import (
	"cmp"
	"errors"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Performer performs the effects of a [line.Machine].
type Performer struct {
	Recipe
	session   client.Session
	owned     owned.Set // of the handle: watches by their targets, among others
	condition reader
	watches   watches
	holder    client.Holder

	epoch    int          // of the newest effect
	requests client.Async // in that epoch; nil at first
}

// NewPerformer returns the performer of a handle. End it with [Performer.End].
func NewPerformer(s client.Session, r *Recipe) *Performer {
	p := new(Performer)
	p.begin(s, r)
	return p
}

func (p *Performer) begin(s client.Session, r *Recipe) {
	p.Recipe, p.session, p.owned.Clock = *r, s, s
	p.condition = newReader(r.Condition, &p.owned)
	p.watches.Recipe, p.watches.session, p.watches.owned, p.watches.condition = &p.Recipe, s, &p.owned, &p.condition
}

// Begin hands the events of the session to the machine. If actor is not nil, the session waits for
// its end before it ends itself.
func (p *Performer) Begin(tell func(line.Input), actor interface{ Ended() <-chan struct{} }) {
	p.session.Rely(1) // before the node is created
	p.owned.Keep(reliance{}, (*relying)(p))
	p.owned.Keep(news{}, owned.Func(p.session.Subscribe(func(ev session.Event) (settled <-chan struct{}) {
		if c, ok := ev.(session.Connected); ok && p.condition.followed != nil {
			p.condition.begin(p.session.Async(c.Epoch), tell)
		}
		if _, lost := ev.(session.Suspended); lost {
			// lists of a fleet that wait for one connection would not be spread
			p.owned.Cancel(later{})
		}
		tell(line.Heard{Event: ev})
		if _, closed := ev.(session.Closed); closed && actor != nil {
			return actor.Ended()
		}
		return nil
	})))
}

// A relying performer is one that relies on the session.
type relying Performer

// Cancel implements [owned.Thing].
func (p *relying) Cancel() { p.session.Rely(-1) }

// Holds says whether the contender holds what excludes others. Only the actor calls it.
func (p *Performer) Holds(is bool) { p.holder.Set(p.session, is) }

// Keys of the performer's resources in its owned set.
type (
	reliance struct{} // on the session
	news     struct{} // the subscription to the events of the session
	later    struct{} // the timer for a list
)

// Warm reports whether the session remembers that the parent exists, and is ours to write.
func (p *Performer) Warm() bool { return !p.Plain && p.session.Warm(p.warmth()) }

// saw notes in the session that the parent was seen without data, at the version.
func (p *Performer) saw(version int32) {
	if p.shared() {
		p.session.Saw(p.Dir, version, true)
	}
}

// End cancels all resources of the performer. Call it when the machine has ended, and without
// holding a lock that answers take.
func (p *Performer) End() { p.owned.End() }

// at returns the requests of the epoch of an effect.
func (p *Performer) at(e line.Effect) client.Async {
	if at := e.Of().Epoch; p.requests == nil || p.epoch != at {
		p.epoch, p.requests = at, p.session.Sharing(at)
	}
	return p.requests
}

// Perform starts one effect of the machine.
func (p *Performer) Perform(e line.Effect, tell func(line.Input)) {
	requests := p.at(e)
	switch e := e.(type) {
	case line.InspectParent:
		p.parent().Inspect(requests, e.IsNew, func(stat *session.Stat, err error) {
			empty := stat != nil && stat.DataLength == 0
			if err == nil && empty {
				p.saw(stat.Version)
			}
			p.reply(e, tell, line.Inspected{Attempt: e.Attempt, Exists: stat != nil, Empty: empty}, err)
		})
	case line.MakeParent:
		p.parent().Make(requests, func(byUs bool, err error) {
			switch {
			case err != nil:
			case byUs && p.condition.followed == nil:
				p.session.Saw(p.Dir, 0, true) // a new node has version 0
			case byUs: // inspect the line: its condition may not suit us
			default:
				err = session.ErrNodeExists
			}
			p.reply(e, tell, line.Made(e), err)
		})
	case line.CreateNode:
		p.create(requests, e, tell)
	case line.ListParent:
		p.list(requests, e, tell)
	case line.ListLater:
		p.owned.After(later{}, e.After, func() { tell(line.ListDue{Attempt: e.Attempt}) })
	case line.WatchTarget:
		p.watches.watch(requests, e, tell)
	case line.WatchTogether:
		p.watches.together(requests, e, tell)
	case line.UnwatchTarget:
		p.owned.Cancel(e.Target)
	case line.Claim:
		if claim, is := p.Claim.(Inheriting); is && e.Token != 0 {
			claim.Inherit(e.Node, e.Token)
		}
		p.Claim.Take(requests, e.Node, e.Again, func(zxid int64, taken bool, err error) {
			if taken {
				p.reply(e, tell, line.Occupied{Attempt: e.Attempt}, err)
				return
			}
			p.reply(e, tell, line.Claimed{Attempt: e.Attempt, Zxid: zxid}, err)
		})
	case line.ChangeNode:
		change := p.exchange
		if claim, is := p.Claim.(Preemptible); is {
			change = claim.Change
		}
		change(requests, e.From, e.To, func(err error) { p.reply(e, tell, line.NodeChanged{Attempt: e.Attempt}, err) })
	case line.AnnounceGrant:
		requests.Set(znode.Join(p.Dir, e.Node), p.Data, session.AnyVersion, func(_ *session.Stat, err error) {
			p.reply(e, tell, line.GrantAnnounced{Attempt: e.Attempt}, err)
		})
	case line.Ask:
		p.Claim.(Preemptible).Ask(&p.owned, requests, e.N, e.Node, func(overdue bool) {
			tell(line.Asked{Attempt: e.Attempt, Node: e.Node, Overdue: overdue})
		})
	case line.Complain:
		p.session.Logger().Warn("held here, and contended for in another layout", "recipe", p.Name, "path", p.Path, "reason", e.Reason)
	case line.WithdrawNode:
		p.watches.endUnsettled(line.Target{Node: e.Node})
		p.withdraw(requests, e.Node, "", func(err error) { tell(line.Withdrawn{Attempt: e.Attempt, Node: e.Node, Err: err}) })
	case line.WithdrawAll:
		p.withdraw(requests, "", p.Rule.Prefix(e.GUID), func(err error) { tell(line.Withdrawn{Attempt: e.Attempt, Err: err}) })
	case line.Answer:
		e.Reply.Give(e.Err)
	}
}

// reply answers the effect e by in, or by its failure. If the server was busy, it pauses first.
func (p *Performer) reply(e line.Effect, tell func(line.Input), in line.Input, err error) {
	if err != nil {
		in = line.Failed{What: e, Err: err}
	}
	owned.Tell(&p.owned, err, tell, in)
}

// creation returns the operations that create the node: in one transaction with a write to the
// parent, whose Stat has the number of children at the same zxid. The parent may have another use
// by now. So it is written to at the version at which it was seen without data, or not at all
// (docs/adr/0038).
func (p *Performer) creation(e line.CreateNode) []session.Op {
	p.watches.guid = e.GUID
	create := session.CreateOp(znode.Join(p.Dir, p.Rule.Name(e.GUID)), p.Data, session.EphemeralSequential)
	version, sure := session.AnyVersion, !e.Plain && !p.Plain
	if sure && p.shared() {
		version, sure = p.session.WriteAt(p.Dir)
	}
	if !sure {
		return []session.Op{create}
	}
	return []session.Op{create, session.SetOp(p.Dir, nil, version)}
}

func (p *Performer) create(requests client.Async, e line.CreateNode, tell func(line.Input)) {
	ops := p.creation(e)
	if len(ops) == 1 {
		requests.Create(znode.Join(p.Dir, p.Rule.Name(e.GUID)), p.Data, session.EphemeralSequential, func(node string, err error) {
			p.reply(e, tell, p.joined(e, []session.OpResult{{Path: node}}, err), err)
		})
		return
	}
	if p.Condition == nil || p.Rule.Traits().Lists {
		requests.Share(ops, func(results []session.OpResult, err error) { p.reply(e, tell, p.joined(e, results, err), err) })
		return
	}
	// The first contender of a session reads the condition instead of following it. So a session
	// with many paths keeps one watch less for each path.
	known, write := p.session.Warm(p.warmth()) && p.condition.lookAround(requests), requests.Multi
	if known { // no read has to go out behind the transaction
		write = requests.Share
	}
	var in line.Joined
	p.condition.after(requests, known, func(answered func(error)) {
		write(ops, func(results []session.OpResult, err error) {
			in = p.joined(e, results, err)
			answered(err)
		})
	}, func(data string, unread, failed error) {
		if in.Data = data; unread != nil {
			in.Children = 0 // a list decides
		}
		if known {
			p.condition.endAround()
		}
		p.reply(e, tell, in, failed)
	})
}

// joined returns the answer to the operations of creation.
func (p *Performer) joined(e line.CreateNode, results []session.OpResult, err error) line.Joined {
	in := line.Joined{Attempt: e.Attempt}
	if p.shared() && errors.Is(err, session.ErrBadVersion) {
		return in
	}
	if err == nil {
		_, in.Node = znode.Split(results[0].Path)
	}
	if len(results) == 1 {
		return in
	}
	if err == nil {
		in.Czxid, in.Children = results[1].Stat.Mzxid, int(results[1].Stat.NumChildren)
		p.watches.created.Store((*[2]session.OpResult)(results))
		if p.shared() {
			p.session.Wrote(p.Dir, results[1].Stat.Version)
		}
	}
	p.session.SetWarm(p.warmth(), err == nil)
	return in
}

// list lists the contenders. Names that may be those of contenders of no known layout are looked up
// first, and then the list is read again, so that the answer is as new as any. Names that have come
// meanwhile stand behind the contenders of the first list, and are left to the next one.
func (p *Performer) list(requests client.Async, e line.ListParent, tell func(line.Input)) {
	p.read(requests, func(s line.Snapshot, czxid int64, err error) {
		in := line.Listed{Attempt: e.Attempt, Snapshot: s}
		unknown := p.watches.unknown(e.Epoch, s.Names, czxid)
		if err != nil || len(unknown) == 0 {
			p.reply(e, tell, in, err)
			return
		}
		Unknown(requests, p.Dir, unknown, func(ephemeral []string, err error) {
			if in.Unknown = ephemeral; err != nil || len(ephemeral) > 0 {
				p.reply(e, tell, in, err)
				return
			}
			for _, name := range unknown {
				p.session.SetWarm(p.watches.known(e.Epoch, name, czxid), true)
			}
			p.read(requests, func(s line.Snapshot, _ int64, err error) {
				p.reply(e, tell, line.Listed{Attempt: e.Attempt, Snapshot: s}, err)
			})
		})
	})
}

// read reads the names of the contenders, the czxid of their parent, and then the condition.
func (p *Performer) read(requests client.Async, answer func(s line.Snapshot, czxid int64, err error)) {
	var in line.Snapshot
	var czxid int64
	p.condition.after(requests, p.condition.lookAround(requests), func(answered func(error)) {
		requests.Children(p.Dir, func(names []string, stat *session.Stat, err error) {
			switch {
			case err != nil:
			case stat.DataLength > 0:
				p.session.SetWarm(p.warmth(), false)
			case p.shared() && len(names) == 1: // we are alone; others would write to the parent
				p.session.Saw(p.Dir, stat.Version, false)
			}
			if in.Names = p.watches.standing(names); err == nil {
				in.Version, czxid = stat.Version, stat.Czxid
			}
			answered(err)
		})
	}, func(data string, unread, failed error) {
		in.Data = data
		answer(in, czxid, cmp.Or(failed, unread))
	})
}

func (p *Performer) withdraw(requests client.Async, node, prefix string, answer func(error)) {
	switch {
	case p.Claim != nil:
		p.Claim.Withdraw(requests, node, prefix, answer)
	case node != "":
		requests.Withdraw(p.watches.nodePath(node), answer)
	default:
		requests.WithdrawAll(p.Dir, prefix, answer)
	}
}
