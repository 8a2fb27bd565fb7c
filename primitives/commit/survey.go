package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A survey reads all transactions below a parent once, in rounds:
//
//	sync      so that the lists have what was committed before the survey
//	lists     of the transactions, and of the present sites
//	records   of all transactions
//	ballots   of each transaction
//	data      of each vote that has any
//
// Resume needs the records only. Nodes that vanish meanwhile, may not be read, or are not
// transactions, are left out. All answers come one after another, as the session says.
type survey struct {
	session client.Session
	parent  string
	ballots bool // set if the ballots are read too; constant

	present []string  // the sites that are present
	records []*record // in the order of their ids
	shown   []Status  // likewise; without transactions whose ballots are gone

	over   atomic.Bool // set at the end. Answers mean nothing then
	done   func(error) // called once, at the end
	pauses owned.Set   // before requests to a busy server are made again
}

// surveyAll runs a survey for a function of the package, which op names.
func surveyAll(ctx context.Context, s *session.Session, op, parent string, ballots bool) (*survey, error) {
	if err := client.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := client.Validate(recipe, s, func() error { return validateParent(s, parent) }); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("commit: %s %s: %w", op, parent, context.Cause(ctx))
	}
	v := &survey{session: client.Of(s), parent: parent, ballots: ballots}
	if err := v.run(ctx); err != nil {
		return nil, fmt.Errorf("commit: %s %s: %w", op, parent, v.session.Explain(err))
	}
	return v, nil
}

// run runs the survey, and waits for its end. If ctx ends first, the error is its cause.
func (v *survey) run(ctx context.Context) error {
	done := make(chan error, 1)
	v.begin(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		v.end(nil) // which is not read
		return context.Cause(ctx)
	}
}

// begin starts the survey, which calls done at its end. A survey goes on in the next session.
func (v *survey) begin(done func(error)) {
	v.done, v.pauses.Clock = done, v.session
	requests := v.session.Async(0)
	v.round(1, func(_ int, answer func(error)) { requests.Sync(v.parent, answer) }, func() { v.list(requests) })
}

// end ends the survey, once.
func (v *survey) end(why error) {
	if !v.over.Swap(true) {
		v.pauses.End()
		v.done(why)
	}
}

// mostAtOnce is how many requests of a survey are under way at once: other requests of the session
// wait for no more than these, and their payloads.
const mostAtOnce = 64

// round makes n requests, and calls next when all are answered. A request that failed for a reason
// that passes is made again; any other error ends the survey.
func (v *survey) round(n int, request func(i int, answer func(error)), next func()) {
	if n == 0 {
		next()
		return
	}
	begun, left := min(n, mostAtOnce), n
	var begin func(i int)
	begin = func(i int) {
		request(i, func(err error) {
			switch {
			case v.over.Load():
			case session.Passing(err):
				v.pauses.Answer(err, func() { begin(i) })
			case err != nil:
				v.end(err)
			case left == 1:
				next()
			default:
				if left--; begun < n {
					begun++
					begin(begun - 1)
				}
			}
		})
	}
	for i := range begun {
		begin(i)
	}
}

// list lists the transactions, and the present sites if the ballots are to be read.
func (v *survey) list(requests client.Async) {
	var ids []string
	lists := []func(answer func(error)){func(answer func(error)) {
		requests.Roomy().Children(v.parent, func(names []string, _ *session.Stat, err error) { // of which there may be very many
			ids = transactions(names)
			answer(client.Without(err, session.ErrNoNode))
		})
	}}
	if v.ballots {
		lists = append(lists, func(answer func(error)) {
			requests.Children(znode.Join(v.parent, nodes.Sites), func(names []string, _ *session.Stat, err error) {
				v.present = names
				answer(client.Without(err, session.ErrNoNode))
			})
		})
	}
	v.round(len(lists), func(i int, answer func(error)) { lists[i](answer) }, func() { v.read(requests, ids) })
}

// unseen returns nil if a node of one transaction is gone, or may not be read: the others do not
// depend on it.
func unseen(err error) error {
	return client.Without(client.Without(err, session.ErrNoNode), session.ErrNoAuth)
}

// read reads the records.
func (v *survey) read(requests client.Async, ids []string) {
	all := make([]*record, len(ids))
	v.round(len(ids), func(i int, answer func(error)) {
		requests.Get(znode.Join(v.parent, ids[i]), func(data []byte, _ *session.Stat, err error) {
			if err == nil {
				all[i], _ = decode(ids[i], data) // a node that is not a transaction is none of ours
			}
			answer(unseen(err))
		})
	}, func() {
		v.records = slices.DeleteFunc(all, func(r *record) bool { return r == nil })
		if v.ballots {
			v.show(requests)
			return
		}
		v.end(nil)
	})
}

// show lists the ballots.
func (v *survey) show(requests client.Async) {
	all := make([]*ballots, len(v.records))
	v.round(len(all), func(i int, answer func(error)) {
		requests.Children(v.place(v.records[i]).dir(), func(names []string, _ *session.Stat, err error) {
			if err == nil {
				b := parse(names)
				all[i] = &b
			}
			answer(unseen(err))
		})
	}, func() {
		var votes []vote
		for i, b := range all {
			if b != nil {
				v.shown = append(v.shown, statusOf(v.records[i], b, v.present))
				votes = append(votes, v.votes(v.records[i], b, v.shown[len(v.shown)-1].Sites)...)
			}
		}
		v.readVotes(requests, votes)
	})
}

func (v *survey) place(r *record) place { return place{v.parent, r.ID, r.GUID} }

// statusOf returns the state of a transaction. A site without a ballot has finished.
func statusOf(r *record, b *ballots, present []string) Status {
	s := Status{ID: r.ID, GUID: r.GUID, Mode: r.Mode, Payload: r.Payload, Outcome: r.Outcome, Coordinated: b.coordinators > 0}
	for _, site := range r.Sites {
		ours, there := b.of[site]
		s.Sites = append(s.Sites, SiteStatus{Site: site, Vote: ours.vote, Finished: !there, Present: slices.Contains(present, site)})
	}
	return s
}

// A vote has data, which is read from a node.
type vote struct {
	of   *SiteStatus
	node string
}

// votes returns the votes that have data, of the sites of a transaction.
func (v *survey) votes(r *record, b *ballots, sites []SiteStatus) (all []vote) {
	for i, site := range r.Sites {
		if ours := b.of[site]; ours.data {
			all = append(all, vote{&sites[i], v.place(r).ballot(ours.name(site))})
		}
	}
	return all
}

// readVotes reads the data of votes. If a vote is gone, its site has finished meanwhile.
func (v *survey) readVotes(requests client.Async, votes []vote) {
	v.round(len(votes), func(i int, answer func(error)) {
		requests.Get(votes[i].node, func(data []byte, _ *session.Stat, err error) {
			votes[i].of.Data, votes[i].of.Finished = data, errors.Is(err, session.ErrNoNode)
			answer(unseen(err))
		})
	}, func() { v.end(nil) })
}
