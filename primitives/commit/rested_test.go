package commit

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// TestBallotsDeletedAtRest: an operator deletes the ballots of an undecided transaction, but not
// its record. A site that was asked rests until the record is gone, and is not asked again:
// whatever was queued when its rest began, a list of the ballots or a timer, does not end it.
func TestBallotsDeletedAtRest(t *testing.T) {
	at := name{"t", "g"}
	queued := []siteInput{
		siteCounted{name: at, err: session.ErrNoNode},
		siteCounted{name: at, err: session.ErrBusy},
		siteCounted{name: at},
		siteCounted{name: at, names: []string{"s-a", "s-b"}},
	}
	for clock := range timers {
		queued = append(queued, sitePassed{at, clock})
	}
	for _, first := range queued {
		for _, second := range queued {
			m, _ := standing("").after(siteListed{})
			take := func(in siteInput) (did siteEffects) {
				m, did = m.after(in)
				return did
			}
			r := &record{ID: "t", GUID: "g", Mode: Peer, Sites: []string{"a", "b"}}
			take(siteListed{names: []string{"t"}})
			if did := take(siteRead{id: "t", rec: r}); namesOf(did.Emit) != "prepare;" {
				t.Fatalf("it emits %v", did.Emit)
			}
			if did := take(siteCounted{name: at, err: session.ErrNoNode}); !slices.Contains(did.Do, siteEffect(check{at})) {
				t.Fatalf("it does %v", did.Do)
			}
			take(siteListed{names: []string{"t", "u"}})
			if did := take(siteAnswered{name: at, task: checking, err: session.ErrNoNode}); namesOf(did.Emit) != "forgotten;" {
				t.Fatalf("it emits %v", did.Emit)
			}
			rests := m.String()
			for _, in := range []siteInput{first, second} {
				if did := take(in); len(did.Do)+len(did.Emit) > 0 || m.String() != rests {
					t.Errorf("%T%+v: it does %v, and is %v, want %s", in, in, did.Do, m, rests)
				}
			}
			take(siteListed{names: []string{"t", "u"}})
			if did := take(siteRead{id: "t", rec: r}); len(did.Do)+len(did.Emit) > 0 {
				t.Errorf("after %T%+v and %T%+v it does %v, and emits %v", first, first, second, second, did.Do, did.Emit)
			}
		}
	}
}

// finishes has a site vote in a transaction, and finish it: then it rests, and one ballot is left.
func finishes(take func(siteInput) siteEffects, r, decided *record) {
	at := name{r.ID, r.GUID}
	for _, in := range []siteInput{
		siteListed{names: []string{r.ID}},
		siteRead{id: r.ID, rec: r},
		castVote{tx: thisTx, vote: Yes},
		siteAnswered{name: at, task: voting},
		siteRead{id: r.ID, rec: decided, version: 1},
		finish{tx: thisTx},
		siteAnswered{name: at, task: finishing, left: 1},
	} {
		take(in)
	}
}

// TestBallotsOfFinishedDeleted: an operator deletes the ballots of a transaction that the site has
// finished, but not its record. The site receives no event again. If the record is gone, too, the
// site forgets the transaction.
func TestBallotsOfFinishedDeleted(t *testing.T) {
	at, r := name{"t", "g"}, &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	aborted := r.With(Outcome{Reason: VotedNo, Site: "b", By: "b"})
	for what, c := range map[string]struct {
		found siteRead
		rests bool
	}{
		"decided":           {siteRead{id: "t", rec: aborted, version: 1}, true},
		"undecided":         {siteRead{id: "t", rec: r}, true},
		"gone":              {siteRead{id: "t", zxid: 7, err: session.ErrNoNode}, false},
		"of another":        {siteRead{id: "t", rec: &record{ID: "t", GUID: "h", Sites: []string{"b"}}}, true},
		"could not be read": {siteRead{id: "t", err: session.ErrDisconnected}, false},
	} {
		m, _ := standing("").after(siteListed{})
		events := ""
		take := func(in siteInput) (did siteEffects) {
			m, did = m.after(in)
			events += namesOf(did.Emit)
			return did
		}
		finishes(take, r, aborted)
		for _, late := range []timer{deadline, pause, absence} {
			if did := take(sitePassed{at, late}); len(did.Do) > 0 {
				t.Errorf("%s: timer %v: it does %v", what, late, did.Do)
			}
		}
		take(sitePassed{at, patrol})
		if did := take(siteCounted{name: at, err: session.ErrNoNode}); !slices.Equal(did.Do, []siteEffect{forget{at}, followRecord{"t"}}) {
			t.Errorf("%s: it does %v", what, did.Do)
		}
		take(c.found)
		take(siteAnswered{name: at, task: checking, err: session.ErrNoNode})
		take(siteListed{names: []string{"t"}})
		if rests := len(m.rested) == 1 && m.rested[0].mute; rests != c.rests || events != "prepare;aborted;" {
			t.Errorf("%s: it emits %s, and is %v", what, events, m)
		}
	}
}

// TestBarred: a site may not remove a transaction that all have finished. It does not try again,
// but it begins its part anew when servers with older data have the transaction undecided, or have
// its ballot.
func TestBarred(t *testing.T) {
	at, r := name{"t", "g"}, &record{ID: "t", GUID: "g", Sites: []string{"a"}}
	commit := Outcome{Committed: true, By: "a"}
	for what, undone := range map[string]siteInput{
		"undecided":           siteRead{id: "t", rec: r},
		"its ballot is there": siteCounted{name: at, names: []string{"y-a"}},
	} {
		m, _ := standing("").after(siteListed{})
		take := func(in siteInput, want ...siteEffect) (did siteEffects) {
			t.Helper()
			if m, did = m.after(in); want != nil && !slices.Equal(did.Do, want) {
				t.Errorf("%s: %T: it does %v, want %v", what, in, did.Do, want)
			}
			return did
		}
		take(siteListed{names: []string{"t"}})
		take(siteRead{id: "t", rec: r})
		take(castVote{tx: thisTx, vote: Yes})
		take(siteAnswered{name: at, task: voting})
		take(siteRead{id: "t", rec: r.With(commit), version: 1})
		take(finish{tx: thisTx}, conclude{at, ballot{vote: Yes}, 1, 1})
		take(siteAnswered{name: at, task: finishing}) // it is to remove the transaction
		take(siteAnswered{name: at, task: clearing, err: session.ErrNoAuth}, unwatch{at}, await{at, patrol, 0})
		if _, counts := undone.(siteCounted); counts {
			take(sitePassed{at, patrol}, forget{at}, watchBallots{at})
			for _, in := range []siteInput{siteCounted{name: at}, sitePassed{at, patrol}} {
				if did := take(in); len(did.Do) > 0 {
					t.Errorf("%T: it does %v", in, did.Do)
				}
			}
		}
		take(undone, forget{at}, followRecord{"t"})
		take(siteRead{id: "t", rec: r}, check{at})
		if did := take(siteAnswered{name: at, task: checking, names: []string{"s-a"}}); namesOf(did.Emit) != "prepare;" {
			t.Errorf("%s: it emits %v", what, did.Emit)
		}
	}
}

// TestUnreadableAtRest: a site at rest may not read the record or the ballots for a while. It reads
// them again later: meanwhile another transaction may have got the id.
func TestUnreadableAtRest(t *testing.T) {
	at, r := name{"t", "g"}, &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	for what, watching := range map[string]bool{"its record": false, "its ballots": true} {
		m, _ := standing("").after(siteListed{})
		events := ""
		take := func(in siteInput) (did siteEffects) {
			m, did = m.after(in)
			events += namesOf(did.Emit)
			return did
		}
		finishes(take, r, r.With(Outcome{Committed: true, By: "a"}))
		refused := siteInput(siteRead{id: "t", err: session.ErrNoAuth})
		if watching {
			take(sitePassed{at, patrol})
			refused = siteCounted{name: at, err: session.ErrNoAuth}
		}
		if did := take(refused); !slices.Equal(did.Do, []siteEffect{forget{at}, followRecord{"t"}}) {
			t.Errorf("%s: it does %v", what, did.Do)
		}
		unnamed := name{id: "t"}
		for i := range mostDoubled + 2 {
			did := take(siteRead{id: "t", err: session.ErrNoAuth})
			if want := (await{unnamed, pause, refusedFor << min(i, mostDoubled)}); !slices.Contains(did.Do, siteEffect(want)) {
				t.Fatalf("%s: it does %v, want %v", what, did.Do, want)
			}
			if did := take(sitePassed{unnamed, pause}); !slices.Contains(did.Do, siteEffect(followRecord{"t"})) {
				t.Fatalf("%s: after the pause it does %v", what, did.Do)
			}
		}
		take(siteRead{id: "t", rec: &record{ID: "t", GUID: "h", Sites: []string{"a"}}})
		take(siteAnswered{name: name{"t", "h"}, task: checking, names: []string{"s-a"}})
		if events != "prepare;committed;prepare;" {
			t.Errorf("%s: it emits %s, and is %v", what, events, m)
		}
	}
}
