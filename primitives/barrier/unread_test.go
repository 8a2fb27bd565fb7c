package barrier

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestRecordUnread: an Enter whose record cannot be read any more ends, even if a round may have begun, and
// leaves no node.
func TestRecordUnread(t *testing.T) {
	m := newMachine("id", "a", 2)
	var asked request
	var said []DoubleEvent
	take := func(in input) {
		var out effects
		m = m.Step(in, &out)
		said = append(said, out.Emit...)
		for _, e := range out.Do {
			if r, is := e.(request); is {
				asked = r
			}
		}
	}
	reply := func(in answered) {
		in.turn = asked.turn
		take(in)
	}
	take(heard{session.Connected{ID: 1, Epoch: 1}})
	take(enter{})
	take(saw{epoch: 1, zxid: 5, czxid: 1, version: 1, book: book{Parties: 2}, nodes: 1})
	reply(answered{count: 1})
	take(cancel{})
	check.Require(t, asked.step == retiring, "after a cancel: %v", m)
	take(blind{epoch: 1, err: session.ErrNoAuth})
	reply(answered{at: record, err: session.ErrBadVersion})
	check.Require(t, asked.step == exiting, "the record has changed, and cannot be read: %v", m)
	reply(answered{count: 1})
	if _, is := said[len(said)-1].(Withdrawn); !is || m.stage != resting {
		t.Errorf("%v: %v", said, m)
	}
	take(enter{}) // the next one says why
	take(blind{epoch: 1, err: session.ErrNoAuth})
	if last, is := said[len(said)-1].(Withdrawn); !is || !errors.Is(last.Err, session.ErrNoAuth) {
		t.Errorf("%v: %v", said, m)
	}
}

// TestAwaitedOfAnotherRecord: only the directory that was known to stand is awaited.
func TestAwaitedOfAnotherRecord(t *testing.T) {
	for czxid, want := range map[int64]stage{4: leaving, 5: leaving, 6: resting} {
		m := machine{parties: 2, stage: leaving, epoch: 1, round: 1, awaited: 1, known: 5}
		var out effects
		m = m.Step(over{epoch: 1, round: 1, czxid: czxid}, &out)
		if left := slices.Contains(out.Emit, DoubleEvent(Left{1})); m.stage != want || left != (want == resting) {
			t.Errorf("directory of %d: %v, %v", czxid, m, out.Emit)
		}
	}
}

// TestEntrantsUnread: an Enter that may not list the entrants ends with the error, and leaves no node.
func TestEntrantsUnread(t *testing.T) {
	m := newMachine("id", "a", 1)
	var out effects
	take := func(in input, want step) {
		out = effects{}
		if m = m.Step(in, &out); m.step != want {
			t.Fatalf("%T leads to %v", in, m)
		}
	}
	take(heard{session.Connected{ID: 1, Epoch: 1}}, idle)
	take(enter{}, idle)
	take(saw{epoch: 1, zxid: 5, czxid: 1, version: 1, book: book{Parties: 1}, nodes: 1}, entering)
	take(answered{turn: m.asked.turn, count: 1}, listing)
	take(answered{turn: m.asked.turn, err: session.ErrNoAuth}, retiring)
	take(answered{turn: m.asked.turn}, idle)
	if last, is := slices.Concat([]DoubleEvent{nil}, out.Emit)[len(out.Emit)].(Withdrawn); !is || !errors.Is(last.Err, session.ErrNoAuth) || m.node != 0 {
		t.Errorf("%v: %v", out.Emit, m)
	}
}
