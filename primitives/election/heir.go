package election

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has the heir: the candidate directly behind the leader, if that is the first in line.
// It is elected by the event of the leader's resignation, and claims after that:
//
//	idle ─ one is ahead ► heeding ─ the record names that one: a term is prepared ► ready
//	  ▲                     ▲                                                         │
//	  │                     ├───────────── the record has changed ────────────────────┤
//	  │                     │                                                         │ it is
//	  │                     └───────────── there is another ─────┐                    │ deleted
//	  │                                                          │                    ▼
//	  └─────── elected, or more than one is ahead ───────────── inherits: the deletion of the
//	                                                            leader's own node is the grant
//
// No other candidate leads then:
//
//   - The record stood from its reading to its deletion, without a change, because a watch on it
//     has reported nothing else. So the leader did not hand over, and there was no other leader.
//   - The leader's own node, its guard, is deleted after that. A session has the events in their
//     order. Until then no other candidate could claim, because it was not first; after that we
//     are.
//   - Our term is the zxid of a transaction that we made when we had seen the record. So it is
//     greater than the leader's term. All later claims have greater ones.
//
// An heir that has missed something claims as any other candidate: it is elected one commit later.
// Until its claim is made, there is no record. If an operator deletes the heir's node in that time,
// the next candidate is elected, and for a round trip both lead (docs/adr/0083).

// An heir is our knowledge as the heir. Its heed is zero while we are not next.
type heir struct {
	heed heed

	// The term in which the candidate ahead leads, by the newest reading of the record; 0 if it
	// does not lead, and when the record has changed since.
	led int64

	// A candidate leads once by one node. So a term is prepared once, and stays ours if we are not
	// next for a while, as after a reconnect.
	asked prepare // the newest; never cleared
	term  int64   // its result; 0 before
}

// inherit begins to heed the record when one candidate is ahead of us, and ends when it is not.
func (t *turn) inherit() {
	var now heed
	if next := t.place.Next(); next != "" && !t.closing {
		now = heed{t.place.Epoch(), next}
	}
	if now == t.heir.heed {
		return
	}
	if t.heir.heed.next != "" {
		t.do(unheed{})
	}
	if t.heir = (heir{heed: now, asked: t.heir.asked, term: t.heir.term}); now.next != "" {
		t.do(now)
	}
}

// heeded handles a reading of the record. A term is prepared once.
func (t *turn) heeded(in heeded) {
	h := &t.heir
	h.led = 0
	if in.Node == h.heed.next && in.Successor == "" && !in.Succeeds {
		h.led = in.term
	}
	t.inherits(0)
	if wanted := (prepare{h.heed, t.place.Node()}); h.led != 0 && h.asked != wanted {
		h.asked, h.term = wanted, 0
		t.do(wanted)
	}
}

// disturbed handles a change of the record that is yet to be read, or its deletion.
func (t *turn) disturbed(deleted bool) {
	led := t.heir.led
	t.heir.led = 0
	if deleted && led != 0 && t.heir.term > led { // servers that have lost data number from below
		t.inherits(t.heir.term)
	}
}

// inherits makes the deletion of the candidate ahead the grant, with the term; if that is 0, we
// have to claim then.
func (t *turn) inherits(term int64) {
	var none line.Effects // it does nothing
	t.place = t.place.Step(line.Inherit{Token: term}, &none)
}

// prepared handles the number of a term. Without one, we claim.
func (t *turn) prepared(in prepared) {
	switch {
	case session.Passing(in.err) && !client.Over(in.err):
		t.do(in.of)
	case in.err == nil:
		t.heir.term = in.zxid
	}
}

// prepare answers with the zxid of a transaction, which leaves nothing behind.
func (s *store) prepare(requests client.Async, node string, answer func(zxid int64, err error)) {
	scratch := znode.Join(s.path, "heir-"+node)
	requests.Multi([]session.Op{
		session.CreateOp(scratch, nil, session.Ephemeral),
		session.SetOp(scratch, nil, 0),
		session.DeleteOp(scratch, 1),
	}, func(results []session.OpResult, err error) {
		if err != nil {
			answer(0, err)
			return
		}
		answer(results[1].Stat.Mzxid, nil)
	})
}

// Keys of what an heir follows, in the owned set: the record, and the end of its newest reading.
type (
	legacy struct{}
	ending struct{}
)

// heed reports each reading of the leader's record, and its end when that is heard of: a change, or
// the deletion.
func (f *follower) heed(requests client.Async, tell func(sighting), disturbed func(deleted bool)) {
	end := func(r session.Reading, err error) {
		switch deleted := isNoNode(err) && r.Zxid == 0; {
		case deleted, err == nil && r.Stat == nil:
			disturbed(deleted)
		}
	}
	f.owned.Keep(legacy{}, requests.Follow(f.store.leader, session.AspectData, true, func(r session.Reading, err error) {
		if err != nil { // then we claim
			disturbed(false)
			return
		}
		tell(f.sight(r))
		if r.Stat != nil {
			f.owned.Keep(ending{}, requests.FollowOnce(f.store.leader, session.AspectData, end))
		}
	}))
}

// unheed ends both.
func (f *follower) unheed() {
	f.owned.Cancel(legacy{})
	f.owned.Cancel(ending{})
}
