package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	common "github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Transaction is the coordinator's handle of one transaction. Create it with [Begin] or
// [Resume]. It is safe for concurrent use, and must be closed.
type Transaction struct {
	session client.Session
	place   place
	rec     *record
	self    string // part of the names of our ballots
	actor   *actors.Actor[input, Event]
	owned   owned.Set
	settled chan struct{} // closed when the outcome is known, or will not be

	mu      sync.Mutex
	outcome Outcome
	err     error
}

// Begin creates the transaction at path, whose last name is its id, and returns when the
// transaction exists. The sites below the same parent are asked for their votes. If opts is nil, no
// site is named, and Begin fails.
//
// If the id exists, the error wraps [ErrExists], and [ErrForeign] if the node at the path belongs
// to another recipe. If ctx ends first, the error is its cause, and wraps
// [session.ErrUnknownOutcome]: the transaction may exist, and is then aborted in the background,
// unless the sites decide it first. If the session expires while the creation is under way, and no
// transaction is found afterwards, the error wraps [session.ErrUnknownOutcome] too: the sites may
// have removed it by then. After any other error there was no transaction.
func Begin(ctx context.Context, s *session.Session, path string, opts *Options) (*Transaction, error) {
	if err := client.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	o := client.Options(opts).withDefaults()
	if err := client.Validate(recipe, s, func() error { return o.validate(s, path) }); err != nil {
		return nil, err
	}
	parent, id := znode.Split(path)
	r := &record{
		ID: id, GUID: znode.NewGUID(), Mode: o.Mode, Sites: slices.Clone(o.Sites), Deadline: o.Deadline,
		TakeoverAfter: o.TakeoverAfter, Keep: o.Record, Payload: slices.Clone(o.Payload),
	}
	t := newTransaction(client.Of(s), parent, r, znode.NewGUID())
	if err := t.fits(); err != nil {
		return nil, t.explain("begin", err)
	}
	if ctx.Err() != nil {
		return nil, t.explain("begin", context.Cause(ctx))
	}
	t.run(newMachine(r), nil)
	refused, err := actors.Ask(ctx, t.actor, func(reply actors.Reply[error]) input { return start{reply} })
	switch {
	case errors.Is(err, actors.ErrEnded):
		refused = refusal(t.reason())
	case err != nil:
		_ = t.actor.Tell(giveUp{}) // an ended actor has nothing to withdraw
		return nil, t.explain("begin", fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err))
	}
	if refused != nil {
		t.Close()
		return nil, t.explain("begin", refused)
	}
	return t, nil
}

func newTransaction(s client.Session, parent string, r *record, self string) *Transaction {
	return &Transaction{
		session: s, place: place{parent, r.ID, r.GUID}, rec: r, self: self, settled: make(chan struct{}),
	}
}

func (t *Transaction) run(m machine, first []effect) {
	t.actor = actors.StartKept(m, actors.Role[machine, input, effect, Event]{
		Name:    "transaction " + t.place.record(),
		Begin:   first,
		Perform: t.perform,
		Observe: t.observe,
		Stop:    leave{},
	})
	t.owned.Follow(t.session, func(ev session.Event) { _ = t.actor.Tell(heard{ev}) }, t.actor.Ended()) // an ended machine needs no news
}

// fits reports why the transaction, or its outcome, cannot be sent.
func (t *Transaction) fits() error {
	longest := slices.MaxFunc(t.rec.Sites, func(a, b string) int { return len(a) - len(b) })
	by := longest + coordinator
	all := decider{rec: t.rec, votes: slices.Repeat([]ballot{{Yes, true}}, len(t.rec.Sites))}
	for _, ops := range [][]session.Op{
		t.place.beginOps(t.rec, t.ballot(math.MaxInt32)),
		t.place.decideOps(t.rec, verdict{Outcome{Committed: true, By: by}, all.ballots()}),
		t.place.removeOps(t.rec.With(Outcome{Reason: SiteGone, Site: longest, By: by})),
	} {
		if err := t.session.Fits(ops...); err != nil {
			return fmt.Errorf("Options.Payload or Options.Sites: %w", err)
		}
	}
	return nil
}

func (t *Transaction) explain(op string, err error) error {
	return client.Wrap(t.session, err, "commit: ", op, " ", t.place.record())
}

// ID returns the id of the transaction.
func (t *Transaction) ID() string { return t.place.id }

// Tx returns the name that the sites' events have for the transaction.
func (t *Transaction) Tx() Tx { return txOf(t.rec) }

// Events returns the channel of events, which is always the same one:
//
//	Voted* (Committed | Aborted | Left)
//
// No event is lost, however late the reader comes. The channel is closed after the last event:
// receive with "ev, ok := <-events", because a select over a closed channel spins.
func (t *Transaction) Events() <-chan Event { return t.actor.Events() }

// Wait waits for the outcome. If the handle ends without an outcome, the error wraps [ErrClosed];
// if the transaction was removed before its outcome was read, [ErrForgotten] too. If ctx ends
// first, it returns the cause.
func (t *Transaction) Wait(ctx context.Context) (Outcome, error) {
	if err := client.CheckContext(ctx); err != nil {
		return Outcome{}, t.explain("wait for", err)
	}
	select {
	case <-t.settled:
	case <-ctx.Done():
		return Outcome{}, t.explain("wait for", context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcome == (Outcome{}) {
		return Outcome{}, t.explain("wait for", refusal(t.err))
	}
	return t.outcome, nil
}

// Done returns a channel that is closed when the handle has ended: the outcome was received and the
// coordinator's node is gone, or the handle ended without an outcome.
func (t *Transaction) Done() <-chan struct{} { return t.actor.Ended() }

// Err returns why the handle ended without an outcome. It returns nil before that, after Close, and
// if there is an outcome.
func (t *Transaction) Err() error { return t.explain("coordinate", t.reason()) }

func (t *Transaction) reason() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Close stops coordinating, and waits until the coordinator's node is gone, at most until the
// lease has ended. It does not abort the transaction: [Resume] continues it, or the
// sites decide after Options.TakeoverAfter. Undelivered events are discarded, but for the last one.
// It may be called any number of times.
func (t *Transaction) Close() { t.actor.Close() }

// observe keeps the results of the accessors up to date with the machine.
func (t *Transaction) observe(m machine, events []Event) {
	logOutcomes(t.session, t.place.parent, events)
	if m.settled && !client.Closed(t.settled) {
		t.mu.Lock()
		t.outcome, t.err = m.outcome, m.err
		t.mu.Unlock()
		close(t.settled)
	}
	if m.Ended() {
		t.owned.End()
		if m.gave {
			t.actor.Stop() // no caller has the handle
		}
	}
}

// The keys of the things that a transaction owns.
type (
	ballotsKey  struct{}
	sitesKey    struct{}
	deadlineKey struct{}
	absenceKey  struct{}
)

// ballot returns the name of our ballot in an epoch: the ballot of an earlier epoch may still
// exist.
func (t *Transaction) ballot(epoch int) string {
	return nodes.CoordinatorPrefix + t.self + "-" + strconv.Itoa(epoch)
}

// perform starts one action that the machine asked for.
func (t *Transaction) perform(e effect, tell func(input)) {
	a := t.session.Async(0)
	answer := func(err error, in input) { t.owned.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case begin:
		t.session.Async(e.epoch).Multi(t.place.beginOps(t.rec, t.ballot(e.epoch)), func(_ []session.OpResult, err error) { answer(err, begun{err}) })
	case ensure:
		a.EnsurePath(t.place.parent, func(_ bool, err error) { answer(err, ensured{err}) })
	case look:
		a.Get(t.place.record(), func(data []byte, _ *session.Stat, err error) {
			in := looked{err: err}
			switch {
			case errors.Is(err, session.ErrNoNode):
				in.err = nil
			case err == nil:
				in.found, in.err = decode(t.place.id, data)
			}
			if len(data) == 0 && errors.Is(in.err, ErrForeign) { // its children show whose it is
				common.Vacant(a, t.place.record(), nodes.OfTransaction, func(err error) {
					if errors.Is(err, ErrForeign) {
						in.err = err
					}
					answer(nil, in)
				})
				return
			}
			answer(err, in)
		})
	case followBallots:
		t.owned.Keep(ballotsKey{}, a.Follow(t.place.dir(), session.AspectChildren, false, func(r session.Reading, err error) {
			answer(err, counted{r.Names, err})
		}))
	case followSites:
		t.owned.Keep(sitesKey{}, a.Follow(znode.Join(t.place.parent, nodes.Sites), session.AspectChildren, true, func(r session.Reading, err error) {
			answer(err, attended{r.Names, err})
		}))
	case unfollow:
		t.owned.Cancel(ballotsKey{})
		t.owned.Cancel(sitesKey{})
		t.owned.Cancel(deadlineKey{})
		t.owned.Cancel(absenceKey{})
	case awaitDeadline:
		t.owned.After(deadlineKey{}, t.rec.Deadline, func() { tell(passed{}) })
	case awaitAbsence:
		t.owned.After(absenceKey{}, absentFor, func() { tell(lapsed{}) })
	case confirm:
		confirmAll(a, t.place, func(names, sites []string, err error) { answer(err, confirmed{names, sites, err}) })
	case readVote:
		node := t.place.ballot(ballot{e.vote, true}.name(e.site))
		a.Get(node, func(data []byte, _ *session.Stat, err error) { answer(err, voteRead{e.site, e.vote, data, err}) })
	case decide:
		recordOutcome(t.session.Async(e.epoch), t.place, t.rec, e.verdict, func(err error) { answer(err, recorded{err}) })
	case appear:
		t.session.Async(e.epoch).Create(t.place.ballot(t.ballot(e.epoch)), nil, session.Ephemeral, func(_ string, err error) {
			answer(err, appeared{e.epoch, err})
		})
	case retire:
		a.Multi(t.place.finishOps(t.ballot(e.epoch)), func(results []session.OpResult, err error) {
			answer(err, retired{left(results, err), err})
		})
	case forsake:
		t.session.Async(e.epoch).Withdraw(t.place.ballot(t.ballot(e.epoch)), func(error) {})
	case remove:
		r := t.rec.With(e.Outcome)
		clearOut(a, t.place, r, func(err error) { answer(err, removed{err}) })
	case respond:
		e.reply.Give(e.err)
	}
}

// confirmAll lists the ballots and the present sites, as the leader knows them.
func confirmAll(a client.Async, p place, answer func(names, sites []string, err error)) {
	var sites []string
	var failed error
	a.Sync(p.record(), func(err error) { failed = err })
	a.Children(znode.Join(p.parent, nodes.Sites), func(names []string, _ *session.Stat, err error) {
		sites, failed = names, cmp.Or(failed, client.Without(err, session.ErrNoNode))
	})
	a.Children(p.dir(), func(names []string, _ *session.Stat, err error) { answer(names, sites, cmp.Or(failed, err)) })
}

// recordOutcome records the outcome of a verdict. The error is errUndone if a vote on which the
// verdict rests does not exist. A ballot that this party may not read is not checked.
func recordOutcome(a client.Async, p place, r *record, v verdict, answer func(error)) {
	a.Multi(p.decideOps(r, v), func(results []session.OpResult, err error) {
		failed := slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
		switch {
		case failed >= decidingOps && errors.Is(err, session.ErrNoNode):
			answer(errUndone)
		case failed >= decidingOps && errors.Is(err, session.ErrNoAuth):
			recordOutcome(a, p, r, verdict{Outcome: v.Outcome}, answer)
		default:
			answer(err)
		}
	})
}

// left returns how many ballots finishOps has left.
func left(results []session.OpResult, err error) int {
	if err != nil {
		return 0
	}
	return int(results[len(results)-1].Stat.NumChildren)
}

// clearOut removes the rest of a transaction, unless there is a ballot.
func clearOut(a client.Async, p place, r *record, answer func(error)) {
	var kept *record
	if r.Keep {
		kept = r
	}
	a.Multi(p.removeOps(kept), func(results []session.OpResult, err error) {
		// Only the directory of the records may be missing.
		if kept == nil || len(results) != 3 || !errors.Is(results[2].Err, session.ErrNoNode) {
			answer(err)
			return
		}
		a.EnsurePath(znode.Join(p.parent, nodes.TransactionRecords), func(_ bool, err error) {
			if err != nil {
				answer(err)
				return
			}
			clearOut(a, p, r, answer)
		})
	})
}

// String describes the transaction in one short line.
func (t *Transaction) String() string { return "transaction " + t.place.record() }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (t *Transaction) Format(f fmt.State, _ rune) { client.Print(f, t) }
