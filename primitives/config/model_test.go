package config

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// A model is one handle beside a server that has the value, the markers and the
// directories; requests and replies are lost, or come late, sessions expire, callers leave,
// and others write, also where they should not.
type model struct {
	m machine[string]

	parents, markersDir bool
	exists              bool
	version             int32
	marker              [3]struct { // by epoch
		exists bool
		seen   int32
		n      int
	}
	alive   int    // the epoch that the server knows
	applied [3]int // by write: how often
	said    [3]verdict
	kind    [3]string

	question               effect // without an answer: mark, put, look or ensure
	late                   *put   // whose reply was given up, and which may still come to the server
	removing               bool   // the marker is to be removed
	faults, others, epochs int
	forgets                int
	meddled                bool // somebody else has deleted a marker
	left                   bool
}

// A verdict is what the caller of a write was told.
type verdict int

const (
	pending verdict = iota
	confirmed
	unknown
	denied
)

func (s model) key() string {
	late := "-"
	if s.late != nil {
		late = describe(effects{Do: []effect{*s.late}})
	}
	question := "-"
	if s.question != nil {
		question = describe(effects{Do: []effect{s.question}})
	}
	s.m.codec = nil
	return fmt.Sprint(s.m, s.m.n, s.parents, s.markersDir, s.exists, s.version, s.marker, s.alive, s.applied, s.said, s.kind,
		question, late, s.removing, s.faults, s.others, s.epochs, s.forgets, s.meddled, s.left)
}

// apply is what the server does with a transaction.
func apply(s *model, p put) wrote {
	at := wrote{attempt: p.attempt}
	mk := &s.marker[p.epoch]
	switch {
	case p.epoch != s.alive:
		at.err = errLostForEver
		return at
	case !mk.exists:
		at.err, at.marker = session.ErrNoNode, true
	case mk.seen != p.seen:
		at.err, at.marker = session.ErrBadVersion, true
	case p.create && !s.parents:
		at.err = session.ErrNoNode
	case p.create && s.exists:
		at.err = session.ErrNodeExists
	case !p.create && !s.exists:
		at.err = session.ErrNoNode
	case !p.create && !p.always && p.version != s.version:
		at.err = session.ErrBadVersion
	default:
		s.version++
		if p.create {
			s.exists, s.version = true, 0
		}
		mk.seen++
		mk.n, at.seen = p.attempt.n, mk.seen
		s.applied[p.attempt.n]++
	}
	return at
}

// plant is what the server does with a request for a marker.
func plant(s *model, e mark) marked {
	mk := &s.marker[e.epoch]
	switch {
	case e.epoch != s.alive:
		return marked{e.attempt, errLostForEver}
	case !s.markersDir:
		return marked{e.attempt, session.ErrNoNode}
	case mk.exists:
		return marked{e.attempt, session.ErrNodeExists}
	}
	mk.exists, mk.seen, mk.n = true, 0, 0
	return marked{e.attempt, nil}
}

// step has the machine take an input, and notes what it asks for.
func (s model) step(in input) model {
	queue := s.m.queue
	if w, is := in.(submit); is {
		w.n = s.m.n + 1
		queue = append(slices.Clip(queue), w.write)
	}
	var out effects
	s.m, out = s.m.Step(in)
	for _, e := range out.Do {
		switch e := e.(type) {
		case mark, put, look, ensure:
			s.question = e
		case withdraw:
			s.removing = true
		case answer:
			n := queue[0].n
			queue = queue[1:]
			switch {
			case e.err == nil:
				s.said[n] = confirmed
			case errors.Is(e.err, session.ErrUnknownOutcome):
				s.said[n] = unknown
			default:
				s.said[n] = denied
			}
		case confirm:
			if e.done {
				s.said[takenBack(queue, s.m.queue)] = denied
			}
		case follow, unfollow:
		}
	}
	return s
}

// takenBack returns the number of the write that is missing.
func takenBack(before, after []write) int {
	for i, w := range before {
		if i == len(after) || w.n != after[i].n {
			return w.n
		}
	}
	return 0
}

func (s model) answered(in input) model {
	s.question = nil
	return s.step(in)
}

// next returns everything that can happen.
func (s model) next() []model {
	var all []model
	add := func(s model) { all = append(all, s) }
	lose := func(in input) { // a reply, for the price of a fault
		if s.faults > 0 {
			s := s
			s.faults--
			add(s.answered(in))
		}
	}
	switch q := s.question.(type) {
	case mark:
		done := s
		in := plant(&done, q)
		add(done.answered(in))
		if q.epoch != s.alive {
			break
		}
		lose(marked{q.attempt, errLost})
		if s.faults > 0 {
			done.faults--
			add(done.answered(marked{q.attempt, errLost}))
		}
	case put:
		done := s
		in := apply(&done, q)
		add(done.answered(in))
		lost := wrote{attempt: q.attempt, err: errLost}
		if q.epoch != s.alive {
			break
		}
		lose(lost) // the request was
		if s.faults > 0 {
			done.faults--
			add(done.answered(lost))
			if s.late == nil {
				late := s
				late.faults--
				late.late = &q
				add(late.answered(lost))
			}
		}
	case look:
		in := looked{attempt: q.attempt}
		if q.epoch != s.alive {
			in.err = session.ErrExpired
		} else if mk := s.marker[q.epoch]; mk.exists {
			in.exists, in.n, in.seen = true, mk.n, mk.seen
		}
		add(s.answered(in))
		lose(looked{attempt: q.attempt, err: session.ErrDisconnected})
	case ensure:
		s := s
		in := ensured{attempt: q.attempt}
		if q.epoch == s.alive {
			s.parents, s.markersDir = true, s.markersDir || q.markers
		} else {
			in.err = session.ErrExpired
		}
		add(s.answered(in))
	case nil, answer, confirm, follow, unfollow, withdraw: // is no question
	}
	// A session that has reconnected sees everything that it did before. That a lost request
	// comes after the first look at the marker is more than can happen; the version of the
	// marker protects against that too, unless the write was given up meanwhile, or
	// the marker is another one.
	if s.late != nil && s.m.phase == open && s.said[s.late.attempt.n] != denied && (!s.meddled || s.said[s.late.attempt.n] == pending) {
		s := s
		apply(&s, *s.late)
		s.late = nil
		add(s)
	}
	if s.alive > 0 && s.epochs > 0 {
		s := s
		s.epochs--
		old := s.alive
		s.marker[old].exists, s.removing = false, false
		s.alive = old + 1
		s.late = nil
		if s.m.phase == leaving {
			add(s.step(withdrawn{old}))
		} else {
			add(s.step(heard{session.Expired{Epoch: old}}).step(heard{session.Connected{Epoch: s.alive}}))
		}
	}
	if s.removing {
		s := s
		s.marker[s.alive].exists, s.removing = false, false
		add(s.step(withdrawn{s.alive}))
	}
	if mk := s.marker[s.alive]; s.others > 0 && mk.exists {
		s := s
		s.others--
		s.marker[s.alive].n = 0
		s.marker[s.alive].seen++
		add(s)
		s.marker[s.alive] = model{}.marker[0]
		s.meddled = true
		add(s)
	}
	if s.forgets > 0 && len(s.m.queue) > 0 {
		s := s
		s.forgets--
		add(s.step(forget{}))
	}
	if s.others > 0 && s.exists {
		s := s
		s.others--
		s.version++
		add(s)
		s.exists, s.version = false, 0
		add(s)
	}
	if s.m.n < 2 && s.m.phase == open {
		for kind, w := range map[string]write{
			"set": {always: true, version: session.AnyVersion}, "update": {version: s.version, create: !s.exists},
		} {
			s := s
			s.kind[s.m.n+1] = kind
			add(s.step(submit{w}))
		}
	}
	if !s.left {
		s := s
		s.left = true
		add(s.step(leave{}))
	}
	return all
}

// TestOnceOrNotAtAll goes through everything that can happen to two writes.
func TestOnceOrNotAtAll(t *testing.T) {
	if testing.Short() {
		t.Skip("an exploration")
	}
	for _, exists := range []bool{false, true} {
		begin := model{m: fresh(), alive: 1, exists: exists, parents: exists, markersDir: exists, faults: 2, others: 1, epochs: 1, forgets: 1}
		begin.m, _ = begin.m.Step(heard{session.Connected{Epoch: 1}})
		todo := []model{begin}
		seen := map[string]bool{}
		outcomes := map[verdict]int{}
		for len(todo) > 0 {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			all := at.next()
			for _, s := range all {
				key := s.key()
				if seen[key] {
					continue
				}
				seen[key] = true
				todo = append(todo, s)
				for n := 1; n <= s.m.n; n++ {
					outcomes[s.said[n]]++
					times := s.applied[n]
					if times > 1 || s.said[n] == confirmed && times != 1 || s.said[n] == denied && times != 0 {
						t.Fatalf("write %d, of which was said %d, was done %d times:\n%s\nafter\n%s", n, s.said[n], times, key, at.key())
					}
					if s.m.Ended() && s.said[n] == pending {
						t.Fatalf("nothing was said of write %d:\n%s", n, key)
					}
				}
				if s.m.Ended() && s.marker[s.alive].exists {
					t.Fatalf("the marker is left:\n%s\nafter\n%s", key, at.key())
				}
			}
			if len(all) == 0 && !at.m.Ended() {
				t.Fatalf("nothing can happen any more:\n%s", at.key())
			}
		}
		t.Logf("%d states, outcomes %v", len(seen), outcomes)
		if len(seen) < 1000 || outcomes[confirmed] == 0 || outcomes[unknown] == 0 || outcomes[denied] == 0 {
			t.Errorf("%d states, outcomes %v", len(seen), outcomes)
		}
	}
}
