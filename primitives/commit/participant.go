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
	"github.com/zkactors/zkactors/session"
)

// A Participant acts for a site in every transaction below a parent that names it. Create it with
// [Join]. It is safe for concurrent use, and must be closed.
type Participant struct {
	session      client.Session
	parent, site string
	actor        *actors.Actor[siteInput, Event]
	kept         *presence.Kept[presence.Input, presence.Event]
	gone         <-chan struct{} // closed when nothing more is told of the presence
	owned        owned.Set
	reason       client.Reason
}

// Join acts for the site in the transactions below parent, also in those that were begun before,
// and returns at once. Its presence is an ephemeral node: a transaction is aborted when that
// vanishes before the site has voted.
//
// If opts is nil, the default options are used. The error says what is wrong with the arguments, or
// that this session acts for the site already. If another process acts for the site, the
// handle ends, and [Participant.Err] says so.
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
	p := &Participant{session: client.Of(s), parent: parent, site: site}
	node := presenceNode(parent, site)
	kept, err := presence.Keep(s, node, nil, presence.Config{ConflictAfter: o.ConflictAfter}, presence.Role[presence.Machine, presence.Input, presence.Event]{
		Recipe:  recipe,
		Path:    parent,
		Name:    "presence " + node,
		Machine: func(node presence.Machine) presence.Machine { return node },
		Input:   func(in presence.Input) presence.Input { return in },
	})
	if err != nil {
		return nil, fmt.Errorf("commit: join %s as %s: %w", parent, site, err)
	}
	p.kept = kept
	p.actor = actors.StartKept(sitemachine{parent: parent, site: site}, actors.Role[sitemachine, siteInput, siteEffect, Event]{
		Name:    "site " + node,
		Begin:   []siteEffect{followParent{}},
		Perform: p.perform,
		Observe: p.observe,
		Stop:    siteLeave{},
	})
	p.gone = actors.Feed("presence of "+node, kept.Events(), func(ev presence.Event) {
		if left, ok := ev.(presence.Left); ok && left.Err != nil {
			_ = p.actor.Tell(displaced{left.Err}) // an ended machine needs no news
		}
	}, func() {})
	p.owned.Follow(s, func(ev session.Event) { _ = p.actor.Tell(siteHeard{ev}) }, p.actor.Ended()) // an ended machine needs no news
	return p, nil
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

// Vote votes in the transaction with the id tx, and returns nil when the vote is recorded. A vote is
// given once, and not changed.
//
// If ctx or the handle ends first, the error wraps [session.ErrUnknownOutcome] and the cause, or
// [ErrClosed]. After the end of ctx the vote is recorded all the same, when that is possible.
// Other errors mean that this vote was not recorded: [ErrVoted], [ErrDecided], [ErrNotNamed],
// [ErrNoTransaction].
func (p *Participant) Vote(ctx context.Context, tx string, vote Vote) error {
	return p.VoteWith(ctx, tx, vote, nil)
}

// VoteWith is Vote with data for the coordinator, which receives it in [Voted].
func (p *Participant) VoteWith(ctx context.Context, tx string, vote Vote, data []byte) error {
	if vote != Yes && vote != No {
		return p.explain("vote in", tx, fmt.Errorf("%w: vote %d", session.ErrInvalidArgument, int(vote)))
	}
	ops := place{p.parent, tx, znode.NewGUID()}.voteOps(p.site, ballot{vote, data != nil}, data)
	if err := p.session.Fits(ops...); err != nil {
		return p.explain("vote in", tx, fmt.Errorf("data: %w", err))
	}
	return p.ask(ctx, "vote in", tx, func(reply actors.Reply[error]) siteInput {
		return castVote{tx, vote, string(data), reply}
	})
}

// Finish says that the outcome of the transaction was applied, and returns nil when that is recorded:
// the site does not receive the outcome again. When all sites have finished, the transaction is
// removed.
//
// If ctx or the handle ends first, the error wraps [session.ErrUnknownOutcome] and the cause, or
// [ErrClosed]. After the end of ctx finishing goes on. Before the outcome the error is [ErrUndecided].
// To finish again waits for the first; when the transaction is removed, the error is [ErrNoTransaction].
func (p *Participant) Finish(ctx context.Context, tx string) error {
	return p.ask(ctx, "finish", tx, func(reply actors.Reply[error]) siteInput { return finish{tx, reply} })
}

func (p *Participant) ask(ctx context.Context, op, tx string, command func(actors.Reply[error]) siteInput) error {
	if err := client.Usable(ctx); err != nil {
		return p.explain(op, tx, err)
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

func (p *Participant) explain(op, tx string, err error) error {
	return client.Wrap(p.session, err, "commit: ", op, " ", znode.Join(p.parent, tx), " as ", p.site)
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

// Close stops acting for the site, and waits until its presence is gone, at most until the
// session's deadline has passed. Transactions in which the site has not voted may be aborted; votes
// stay. Undelivered events are discarded, but for the last one. It may be called any
// number of times.
func (p *Participant) Close() {
	p.actor.Close()
	p.kept.Close()
	<-p.gone
}

// logOutcomes logs what became of transactions.
func logOutcomes(s client.Session, parent string, events []Event) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case Committed:
			client.Log(s, slog.LevelDebug, recipe, znode.Join(parent, ev.Tx), "committed", slog.String("by", ev.By))
		case Aborted:
			client.Log(s, slog.LevelInfo, recipe, znode.Join(parent, ev.Tx), "aborted", slog.String("reason", string(ev.Reason)))
		case Forgotten:
			client.Log(s, slog.LevelWarn, recipe, znode.Join(parent, ev.Tx), "forgotten", slog.Attr{})
		case Voted, Prepare, Left:
		}
	}
}

// observe keeps what the accessors return up to date with the machine.
func (p *Participant) observe(m sitemachine, events []Event) {
	logOutcomes(p.session, p.parent, events)
	if !m.Ended() {
		return
	}
	p.reason.Set(events[len(events)-1].(Left).Err)
	p.owned.End()
}

// The keys of the things that a participant owns.
type (
	parentKey      struct{}
	recordKey      struct{ id string }
	siteBallotsKey struct{ name }
	timerKey       struct {
		name
		timer
	}
)

func (p *Participant) place(n name) place { return place{p.parent, n.id, n.guid} }

// perform starts one thing that the machine asked for.
func (p *Participant) perform(e siteEffect, tell func(siteInput)) {
	a := p.session.Async(0)
	answer := func(err error, in siteInput) { p.owned.Answer(err, func() { tell(in) }) }
	write := func(n name, t task, ops []session.Op) {
		a.Multi(ops, func(_ []session.OpResult, err error) { answer(err, siteAnswered{name: n, task: t, err: err}) })
	}
	switch e := e.(type) {
	case followParent:
		p.owned.Keep(parentKey{}, a.Follow(p.parent, session.AspectChildren, true, func(r session.Reading, err error) {
			answer(err, siteListed{r.Names, err})
		}))
	case followRecord:
		p.owned.Keep(recordKey(e), a.Follow(znode.Join(p.parent, e.id), session.AspectData, false, func(r session.Reading, err error) {
			in := siteRead{id: e.id, zxid: r.Zxid, err: err}
			if err == nil {
				// A node that is not a transaction is none of ours.
				in.rec, _ = decode(e.id, slices.Clone(r.Data))
			}
			answer(err, in)
		}))
	case check:
		a.Children(p.place(e.name).dir(), func(names []string, _ *session.Stat, err error) {
			answer(err, siteAnswered{name: e.name, task: checking, names: names, err: err})
		})
	case watchBallots:
		p.owned.Keep(siteBallotsKey(e), a.Follow(p.place(e.name).dir(), session.AspectChildren, false, func(r session.Reading, err error) {
			answer(err, siteCounted{e.name, r.Names, err})
		}))
	case unwatch:
		p.owned.Cancel(siteBallotsKey(e))
	case watchSites:
		p.owned.Keep(sitesKey{}, a.Follow(znode.Join(p.parent, nodes.Sites), session.AspectChildren, true, func(r session.Reading, err error) {
			answer(err, siteAttended{r.Names, err})
		}))
	case await:
		p.owned.After(timerKey{e.name, e.timer}, e.after, func() { tell(sitePassed{e.name, e.timer}) })
	case forget:
		p.owned.Cancel(recordKey{e.id})
		p.owned.Cancel(siteBallotsKey(e))
		p.owned.Cancel(timerKey{e.name, deadline})
		p.owned.Cancel(timerKey{e.name, patrol})
	case cast:
		write(e.name, voting, p.place(e.name).voteOps(p.site, e.ballot, []byte(e.data)))
	case propose:
		n := name{e.rec.ID, e.rec.GUID}
		write(n, deciding, p.place(n).decideOps(e.rec, e.Outcome))
	case conclude:
		a.Multi(p.place(e.name).finishOps(e.ballot.name(p.site)), func(results []session.OpResult, err error) {
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
