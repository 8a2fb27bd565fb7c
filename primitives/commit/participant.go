package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	common "github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Participant acts for a site in every transaction below a parent that names it. Create it with
// [Join]. It is safe for concurrent use, and must be closed.
type Participant struct {
	session      client.Session
	parent, site string
	actor        *actors.Actor[siteInput, Event]
	kept         *kept
	gone         <-chan struct{} // closed after the last report of the presence
	owned        owned.Set
	things       map[string]*owned.Set // by the id of a transaction: what is followed and awaited for it. The actor's
	reason       client.Reason
}

// A kept is a presence without events of the recipe's own.
type kept = presence.Kept[presence.Input, presence.Event]

// Join acts for the site in the transactions below parent, also in those that were begun before,
// and returns at once. Its presence is an ephemeral node: a transaction is aborted when that
// vanishes before the site has voted.
//
// Before the presence stands, the participant delivers no event and makes no change: while the
// presence of another process stands, that process acts for the site. So a site that restarts waits
// until the session of the dead process has expired. If another process goes on acting for the
// site, the handle ends, and [Participant.Err] says so. At a path of another recipe it ends with
// [ErrForeign].
//
// If opts is nil, the default options are used. The error says what is wrong with the arguments, or
// that this session acts for the site already.
func Join(s *session.Session, parent, site string, opts *JoinOptions) (*Participant, error) {
	o := client.Options(opts)
	if err := client.Validate(recipe, s, func() error {
		errs := []error{validateParent(s, parent), validateSite("site", site)}
		if o.ConflictAfter < 0 {
			errs = append(errs, invalid("JoinOptions.ConflictAfter %v: must not be negative", o.ConflictAfter))
		}
		return errors.Join(errs...)
	}); err != nil {
		return nil, err
	}
	kept, err := keepPresence(s, parent, site, o)
	if err != nil {
		return nil, fmt.Errorf("commit: join %s as %s: %w", parent, site, err)
	}
	return act(s, parent, site, kept), nil
}

// keepPresence has the site's presence stand.
func keepPresence(s *session.Session, parent, site string, o JoinOptions) (*kept, error) {
	node := presenceNode(parent, site)
	return presence.Keep(s, node, nil, presence.Config{ConflictAfter: o.ConflictAfter, Owner: nodes.OfTransactions}, presence.Role[presence.Machine, presence.Input, presence.Event]{
		Recipe:  recipe,
		Path:    parent,
		Name:    "presence " + node,
		Machine: func(node presence.Machine) presence.Machine { return node },
		Input:   func(in presence.Input) presence.Input { return in },
		// The node may stand, and the connection be lost, before act reads the first event.
		Keep: common.Stays[presence.Joined, presence.Gone, presence.Event],
	})
}

// act begins to act for the site whose presence is kept.
func act(s *session.Session, parent, site string, kept *kept) *Participant {
	p := &Participant{session: client.Of(s), parent: parent, site: site, kept: kept}
	node := presenceNode(parent, site)
	p.actor = actors.StartKept(sitemachine{parent: parent, site: site}, actors.Role[sitemachine, siteInput, siteEffect, Event]{
		Name:    "site " + node,
		Perform: p.perform,
		Observe: p.observe,
		Stop:    siteLeave{},
	})
	p.gone = actors.Feed("presence of "+node, kept.Events(), func(ev presence.Event) {
		switch ev := ev.(type) { // an ended machine needs no news
		case presence.Joined:
			_ = p.actor.Tell(stood{ev.Epoch})
		case presence.Gone:
			_ = p.actor.Tell(fell{})
		case presence.Left:
			if ev.Err != nil {
				_ = p.actor.Tell(displaced{ev.Err})
			}
		case presence.Suspended, presence.Resumed:
		}
	}, func() {})
	p.owned.Follow(client.Of(s), func(ev session.Event) { _ = p.actor.Tell(siteHeard{ev}) }, p.actor.Ended()) // an ended machine needs no news
	return p
}

// Site returns the name of the site.
func (p *Participant) Site() string { return p.site }

// Events returns the channel of events, which is always the same one. For each transaction:
//
//	Prepare? (Committed | Aborted | Forgotten)?
//
// and [Left] after all others. No event is lost, however late the reader comes. The channel is
// closed after the last event: receive with "ev, ok := <-events", because a select over a closed
// channel spins.
func (p *Participant) Events() <-chan Event { return p.actor.Events() }

// Vote votes in the transaction, and returns nil when the vote is recorded. A vote is given once,
// and not changed. It counts for the proposal that Prepare had, and for no later one with the same
// id.
//
// If ctx or the handle ends first, the error wraps [session.ErrUnknownOutcome] and the cause, or
// [ErrClosed]. After the end of ctx the vote is recorded all the same, when that is possible. If
// ctx has ended before the call, the site does not vote, and the error is the cause.
// Other errors mean that this vote was not recorded: [ErrVoted], [ErrDecided], [ErrNotNamed],
// [ErrNoTransaction], and [ErrStale] if another transaction has the id by now.
func (p *Participant) Vote(ctx context.Context, tx Tx, vote Vote) error {
	return p.VoteWith(ctx, tx, vote, nil)
}

// VoteWith is Vote with data for the coordinator, which receives it in [Voted].
func (p *Participant) VoteWith(ctx context.Context, tx Tx, vote Vote, data []byte) error {
	if vote != Yes && vote != No {
		return p.explain("vote in", tx, fmt.Errorf("%w: vote %d", session.ErrInvalidArgument, int(vote)))
	}
	ops := place{p.parent, tx.ID, tx.GUID}.voteOps(p.site, ballot{vote, data != nil}, data)
	if err := p.session.Fits(ops...); err != nil {
		return p.explain("vote in", tx, fmt.Errorf("data: %w", err))
	}
	return p.ask(ctx, "vote in", tx, func(reply actors.Reply[error]) siteInput {
		return castVote{tx, vote, string(data), reply}
	})
}

// Finish says that the outcome of the transaction was applied, and returns nil when that is
// recorded: the site does not receive the outcome again. When all sites have finished, the
// transaction is removed.
//
// If ctx or the handle ends first, the error wraps [session.ErrUnknownOutcome] and the cause, or
// [ErrClosed]. After the end of ctx finishing goes on. If ctx has ended before the call, nothing is
// done, and the error is the cause.
//
// Before the outcome the error is [ErrUndecided]. The error is also [ErrUndecided] if the servers
// have come back with older data, and the outcome was undone: then the site receives the events
// that follow in the transaction. A second call of Finish waits for the first. When the transaction
// is removed, the error is [ErrNoTransaction], or [ErrStale] if another transaction has the id by
// then.
func (p *Participant) Finish(ctx context.Context, tx Tx) error {
	return p.ask(ctx, "finish", tx, func(reply actors.Reply[error]) siteInput { return finish{tx, reply} })
}

func (p *Participant) ask(ctx context.Context, op string, tx Tx, command func(actors.Reply[error]) siteInput) error {
	if err := client.Usable(ctx); err != nil {
		return p.explain(op, tx, err)
	}
	if tx.ID == "" || tx.GUID == "" {
		return p.explain(op, tx, fmt.Errorf("%w: the Tx must be that of an event", session.ErrInvalidArgument))
	}
	outcome, err := actors.Ask(ctx, p.actor, command)
	switch {
	case errors.Is(err, actors.ErrEnded):
		outcome = refusal(p.reason.Err())
	case err != nil:
		outcome = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	return p.explain(op, tx, outcome)
}

func (p *Participant) explain(op string, tx Tx, err error) error {
	return client.Wrap(p.session, err, "commit: ", op, " ", znode.Join(p.parent, tx.ID), " as ", p.site)
}

// Done returns a channel that is closed when the handle has ended.
func (p *Participant) Done() <-chan struct{} { return p.actor.Ended() }

// Err returns why the handle has ended. It returns nil before that, and after Close.
func (p *Participant) Err() error {
	err := p.reason.Err()
	if err == nil {
		return nil
	}
	return fmt.Errorf("commit: %s as %s: %w", p.parent, p.site, err)
}

// Close stops acting for the site, and waits until its presence is gone, at most until the lease of
// the session has ended. Transactions in which the site has not voted may be aborted; votes stay.
// Undelivered events are discarded, but for the last one. It may be called any number of times.
func (p *Participant) Close() {
	p.actor.Close()
	p.kept.Close()
	<-p.gone
}

// logOutcomes logs the outcomes of transactions.
func logOutcomes(s client.Session, parent string, events []Event) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case Committed:
			client.Log(s, slog.LevelDebug, recipe, znode.Join(parent, ev.Tx.ID), "committed", slog.String("by", ev.By))
		case Aborted:
			client.Log(s, slog.LevelInfo, recipe, znode.Join(parent, ev.Tx.ID), "aborted", slog.String("reason", string(ev.Reason)))
		case Forgotten:
			client.Log(s, slog.LevelWarn, recipe, znode.Join(parent, ev.Tx.ID), "forgotten", slog.Attr{})
		case Voted, Prepare, Left:
		}
	}
}

// observe keeps the results of the accessors up to date with the machine.
func (p *Participant) observe(m sitemachine, events []Event) {
	logOutcomes(p.session, p.parent, events)
	if !m.Ended() {
		return
	}
	p.reason.Set(events[len(events)-1].(Left).Err)
	p.owned.End()
	for _, things := range p.things {
		things.End()
	}
}

// The keys of the things that a participant owns.
type (
	parentKey      struct{}
	recordKey      struct{}
	siteBallotsKey struct{}
	timerKey       struct{ timer }
)

// of returns the set of watches and timers of a transaction.
func (p *Participant) of(id string) *owned.Set {
	if p.things == nil {
		p.things = map[string]*owned.Set{}
	}
	if p.things[id] == nil {
		p.things[id] = &owned.Set{Clock: p.owned.Clock}
	}
	return p.things[id]
}

func (p *Participant) place(n name) place { return place{p.parent, n.id, n.guid} }

// settled reports whether the watch on the record, in the set of a transaction, has reported all
// that the session knows. It may be called from any goroutine.
func settled(things *owned.Set) bool {
	sub, _ := things.Get(recordKey{}).(client.Subscription)
	return client.Settled(sub)
}

// perform starts one action that the machine asked for.
func (p *Participant) perform(e siteEffect, tell func(siteInput)) {
	a := p.session.Async(0)
	answer := func(err error, in siteInput) { p.owned.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case followParent:
		p.owned.Keep(parentKey{}, a.Roomy().Follow(p.parent, session.AspectChildren, true, func(r session.Reading, err error) {
			answer(err, siteListed{r.Names, err})
		}))
	case followRecord:
		p.of(e.id).Keep(recordKey{}, a.Follow(znode.Join(p.parent, e.id), session.AspectData, false, func(r session.Reading, err error) {
			in := siteRead{id: e.id, zxid: r.Zxid, err: err}
			if err == nil {
				in.version = r.Stat.Version
				// A node that is not a transaction is none of ours.
				in.rec, _ = decode(e.id, slices.Clone(r.Data))
			}
			answer(err, in)
		}))
	case reread:
		a.Get(p.place(e.name).record(), func(data []byte, stat *session.Stat, err error) {
			in := siteAnswered{name: e.name, task: rereading, err: err}
			if err == nil {
				in.version = stat.Version
				in.rec, _ = decode(e.id, slices.Clone(data))
			}
			answer(err, in)
		})
	case check:
		a.Children(p.place(e.name).dir(), func(names []string, _ *session.Stat, err error) {
			answer(err, siteAnswered{name: e.name, task: checking, names: names, err: err})
		})
	case watchBallots:
		p.of(e.id).Keep(siteBallotsKey{}, a.Follow(p.place(e.name).dir(), session.AspectChildren, false, func(r session.Reading, err error) {
			answer(err, siteCounted{e.name, r.Names, err})
		}))
	case ascertain:
		confirmAll(a, p.place(e.name), func(names, sites []string, err error) {
			answer(err, siteAnswered{name: e.name, task: confirming, names: names, sites: sites, err: err})
		})
	case unwatch:
		p.of(e.id).Cancel(siteBallotsKey{})
		for t := range timers {
			p.of(e.id).Cancel(timerKey{t})
		}
	case watchSites:
		p.owned.Keep(sitesKey{}, a.Follow(znode.Join(p.parent, nodes.Sites), session.AspectChildren, true, func(r session.Reading, err error) {
			answer(err, siteAttended{r.Names, err})
		}))
	case await:
		p.of(e.id).After(timerKey{e.timer}, e.after, func() { tell(sitePassed{e.name, e.timer}) })
	case forget:
		if things := p.things[e.id]; things != nil {
			delete(p.things, e.id)
			things.End()
		}
	case cast:
		a.Multi(p.place(e.name).voteOps(p.site, e.ballot, []byte(e.data)), func(_ []session.OpResult, err error) {
			answer(err, siteAnswered{name: e.name, task: voting, err: err})
		})
	case propose:
		n := name{e.rec.ID, e.rec.GUID}
		things := p.of(n.id)
		recordOutcome(p.session.Async(e.epoch), p.place(n), e.rec, e.verdict, func(err error) {
			answer(err, siteAnswered{name: n, task: deciding, settled: settled(things), err: err})
		})
	case conclude:
		ops := append([]session.Op{p.place(e.name).decidedOp(e.version)}, p.place(e.name).finishOps(e.ballot.name(p.site))...)
		p.session.Async(e.epoch).Multi(ops, func(results []session.OpResult, err error) {
			answer(err, siteAnswered{name: e.name, task: finishing, left: left(results, err), err: err})
		})
	case clearUp:
		n := name{e.rec.ID, e.rec.GUID}
		clearOut(a, p.place(n), e.rec, func(err error) { answer(err, siteAnswered{name: n, task: clearing, err: err}) })
	case respond:
		e.reply.Give(e.err)
	}
}

// String describes the participant in one short line.
func (p *Participant) String() string { return "site " + p.site + " of " + p.parent }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (p *Participant) Format(f fmt.State, _ rune) { client.Print(f, p) }
