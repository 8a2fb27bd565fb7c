package once

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of one write, as a pure function; its performer is in writer.go.
// Package once has the grammar of its inputs.
//
//	unbegun ── no marker ► making ── no directory ► ensuring ► making
//	   │                     │ made ── nothing but a marker is wanted, or an older one ► ended
//	   │ a marker            ▼
//	   └────────────────► sending ── reply lost ──────────► looking
//	                         │ ▲ │  the marker has changed ►  │ │
//	                         │ └─┼──── not done so far ───────┘ │
//	                         │   │ refused in doubt, or lost too often
//	                         │   └► voiding ── it has changed ► looking
//	                         │         │ no attempt can be done │
//	                         ▼         ▼                        ▼
//	                       ended     refused            done, or unknown

// A stage is the question whose answer a write waits for. There is one at a time.
type stage int

const (
	unbegun  stage = iota // Granted: a marker
	making                // Made: the marker is being created
	ensuring              // Ensured: the directory of the markers is being made
	sending               // Sent: the transaction is on its way
	looking               // Looked: the marker is being read, to learn the outcome of an attempt
	voiding               // Voided: the marker is being deleted, after which no attempt can be done
)

func (s stage) String() string {
	return [...]string{"unbegun", "making", "ensuring", "sending", "looking", "voiding"}[s]
}

// A Marker is a node, and its version as far as the client knows. No two writes under way use the
// same.
type Marker struct {
	Node    string // the path; "" if there is none
	Version int32  // that the next write names
	Epoch   int    // of the write that has made it; 0 if that belonged to none
	Made    int    // numbers the markers of a client, from 1, when they are known to be there
}

// The errors of a write that package session has none for.
var (
	// ErrYounger refuses a write, before it is sent, whose marker was made too late.
	ErrYounger = errors.New("the marker is younger than what the write relies on")

	// ErrLost refuses a write whose replies were lost too often, and of which none was done.
	ErrLost = errors.New("each reply was lost")

	// ErrMarker is the reason of an unknown outcome.
	ErrMarker = errors.New("our marker is gone with its session, or another client has deleted or changed it")
)

// An Input is an event that a write reacts to.
//
//sumtype:decl
type Input interface{ input() }

type (
	// Granted begins: with a marker, without a node if none is free.
	Granted struct {
		Marker Marker
		N      int  // the number of the write
		Bare   bool // set if no marker may be made
		Err    error
	}
	// Made answers Make.
	Made struct {
		Marker Marker
		Err    error
	}
	// Ensured answers Ensure.
	Ensured struct{ Err error }
	// Sent answers Send. The first result is the marker's.
	Sent struct {
		Results []session.OpResult
		Err     error
	}
	// Looked answers Look. Without an error it has the marker as it is.
	Looked struct {
		Exists  bool
		N       int // the number of the write that it has; 0 if it has none
		Version int32
		Err     error
	}
	// Voided answers Void.
	Voided struct{ Err error }
	// Abandoned is commanded: the caller waits no longer.
	Abandoned struct{}
)

func (Granted) input()   {}
func (Made) input()      {}
func (Ensured) input()   {}
func (Sent) input()      {}
func (Looked) input()    {}
func (Voided) input()    {}
func (Abandoned) input() {}

// An Effect asks the performer for one thing. Questions are answered by one input each; PutAway and
// Answer are not.
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Make creates the node of a marker, with a new name if it has none.
	Make struct{ Node string }
	// Ensure makes the directory of the markers.
	Ensure struct{}
	// Send sends the transaction, with the write of the number to the marker if that has a node.
	Send struct {
		Marker Marker
		N      int
	}
	// Look reads the marker.
	Look struct{ Marker Marker }
	// Void deletes the marker at its version.
	Void struct{ Marker Marker }
	// PutAway says that the write uses the marker no more. With Doubt its version may change yet:
	// it is deleted, which refuses an attempt that arrives late.
	PutAway struct {
		Marker Marker
		Doubt  bool
	}
	// Answer answers the caller, once.
	Answer struct {
		Results []session.OpResult
		Err     error
	}
)

func (Make) effect()    {}
func (Ensure) effect()  {}
func (Send) effect()    {}
func (Look) effect()    {}
func (Void) effect()    {}
func (PutAway) effect() {}
func (Answer) effect()  {}

// A Write is the state of a write that is to be done once. After every step:
//
//   - One question is open, or the write has ended.
//   - While nothing is in doubt, no attempt was done, and none can be.
//   - While an attempt is in doubt, all attempts name one marker, at one version.
//   - The caller has its answer at the end, and before that only if it has left.
//   - After the end no attempt can be done any more, or the answer was unknown.
type Write struct {
	// Constant.
	Epoch  int  // the session in which it is to be done; 0 if the next will do as well
	Before int  // the number under which all markers were made that will do; 0 if any will do
	Marks  bool // set if nothing is to be written: it ends when there is a marker
	Tries  int  // how many replies may be lost with their connections before it is given up; 0 for any number

	Rests bool // set if the write rests on what was read before: no attempt is sent when the session has lapsed since
	Bares bool // set if it is done without a marker where none may be made; then a lost reply leaves it unknown

	stage  stage  // names the open question
	n      int    // its number; set with Granted
	marker Marker // of the attempts; another one only when none of them can have been done

	bare bool // set when no marker may be made; never cleared. While set, marker has no node

	// Set when a reply was lost; never cleared. It wraps [session.ErrExpired] if the session of an
	// attempt ended before it was known to be done. While set, an attempt may have been done, or
	// may yet be.
	doubt error

	lost int // how many replies were lost with their connections; counted while Tries is set

	refusal  Sent // set when voiding begins: the answer, if the voiding confirms it
	answered bool // set with Answer. While set, nothing more is sent
	ended    bool // set when the marker is put away, or none was granted
}

// Ended implements [actors.Machine].
func (w Write) Ended() bool { return w.ended }

// A turn is a write during a step, with the accumulator of its effects.
type turn struct {
	Write
	*actors.Effects[Effect, procedure.None]
}

func (s *turn) do(e Effect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine]. A caller that has abandoned the write has its answer; the
// machine goes on until the marker can be put away.
func (w Write) Step(in Input, out *actors.Effects[Effect, procedure.None]) Write {
	if w.ended {
		return w
	}
	s := &turn{Write: w, Effects: out}
	switch in := in.(type) {
	case Granted:
		s.n, s.marker, s.bare = in.N, in.Marker, in.Bare
		switch {
		case in.Err != nil:
			s.ended = true
			s.answer(nil, in.Err)
		case s.marker.Node == "" && !s.bare:
			s.make()
		default:
			s.send()
		}
	case Made:
		s.marker = in.Marker
		switch {
		case in.Err == nil, errors.Is(in.Err, session.ErrNodeExists): // by an earlier attempt, whose reply was lost
			s.send()
		case errors.Is(in.Err, session.ErrNoNode) && !s.answered:
			s.stage = ensuring
			s.do(Ensure{})
		default:
			s.unmade(in.Err)
		}
	case Ensured:
		if in.Err == nil {
			s.make()
		} else {
			s.unmade(in.Err)
		}
	case Sent:
		s.sent(in.Results, in.Err)
	case Looked:
		s.looked(in)
	case Voided:
		s.voided(in.Err)
	case Abandoned:
		s.answer(nil, procedure.Abandoned(s.stage == sending || s.doubt != nil))
	}
	return s.Write
}

// answer answers the caller, once.
func (s *turn) answer(results []session.OpResult, err error) {
	if !s.answered {
		s.answered = true
		s.do(Answer{results, err})
	}
}

// end ends the write. It puts the marker away before it answers, so that the next write of the
// caller finds it free.
func (s *turn) end(m Marker, doubt bool, results []session.OpResult, err error) {
	s.ended = true
	s.do(PutAway{m, doubt})
	s.answer(results, err)
}

// done ends a write of which one attempt was done, or this one. The marker is free, because all
// other attempts expect the version before.
func (s *turn) done(results []session.OpResult) {
	s.marker.Version++
	s.end(s.marker, false, results, nil)
}

// fail ends the write with an error that leaves open whether an attempt in doubt was done.
func (s *turn) fail(err error) {
	if s.doubt != nil {
		err = client.Doubted(err)
	}
	s.end(s.marker, true, nil, err)
}

// make creates a marker, unless the caller is gone. No attempt is in doubt.
func (s *turn) make() {
	if s.answered {
		s.end(s.marker, true, nil, nil)
		return
	}
	s.stage = making
	s.do(Make{s.marker.Node})
}

// unmade follows the failure to create a marker. The write was not sent: its outcome is not in
// doubt.
func (s *turn) unmade(err error) {
	switch {
	case procedure.Passes(s.Epoch, err):
		s.make()
		return
	case s.Bares && errors.Is(err, session.ErrNoAuth):
		s.marker, s.bare = Marker{}, true
		s.send()
		return
	case session.InDoubt(err) && errors.Is(err, session.ErrClosed):
		err = fmt.Errorf("marker: %w", session.ErrClosed)
	case session.InDoubt(err):
		err = fmt.Errorf("marker: %w", session.ErrExpired)
	}
	s.fail(err)
}

// send sends the transaction, for the first time or again, unless the caller is gone.
func (s *turn) send() {
	switch {
	case s.answered:
		s.end(s.marker, s.doubt != nil, nil, nil)
		return
	case s.Marks:
		s.end(s.marker, false, nil, nil)
		return
	case s.Before > 0 && s.marker.Made >= s.Before:
		s.end(s.marker, false, nil, ErrYounger)
		return
	}
	s.stage = sending
	s.do(Send{s.marker, s.n})
}

// sent follows an answer. The write to the marker is the first operation. If another operation is
// refused, the marker had its version: no earlier attempt was done before this one, but an earlier
// one could still arrive.
func (s *turn) sent(results []session.OpResult, err error) {
	refused := error(nil)
	if len(results) > 0 {
		refused, results = results[0].Err, results[1:]
	}
	changed := client.IsAny(refused, session.ErrNoNode, session.ErrBadVersion)
	switch {
	case err == nil && s.bare:
		s.end(Marker{}, false, results, nil)
	case err == nil:
		s.done(results)
	case s.bare && session.InDoubt(err): // nothing says whether it was done
		if !errors.Is(err, session.ErrUnknownOutcome) {
			err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
		}
		s.end(Marker{}, false, nil, err)
	case s.Rests && errors.Is(err, session.ErrLapsed): // it was not sent
		s.refused(Sent{nil, err})
	case session.InDoubt(err) || procedure.Passes(s.Epoch, err):
		s.unanswered(err)
	case changed && s.doubt == nil && errors.Is(refused, session.ErrNoNode):
		// The marker went with its session, or another client has deleted it.
		s.marker = Marker{}
		s.make()
	case changed: // by an attempt, or by another client
		s.look()
	case refused != nil || client.Over(err):
		s.fail(err)
	default:
		s.refused(Sent{results, err})
	}
}

// refused follows a refusal. It counts only if no earlier attempt arrives after it.
func (s *turn) refused(no Sent) {
	if s.doubt == nil {
		s.end(s.marker, false, no.Results, no.Err)
		return
	}
	s.refusal = no
	s.void()
}

// unanswered follows an attempt without a reply. One that was not sent is sent again, unless an
// earlier one is in doubt.
func (s *turn) unanswered(err error) {
	if session.InDoubt(err) && s.doubt == nil {
		s.doubt = err
	}
	if session.InDoubt(err) && errors.Is(err, session.ErrDisconnected) && s.Tries > 0 {
		s.lost++
	}
	s.outlive(err)
	switch {
	case !procedure.Passes(s.Epoch, err):
		s.fail(err)
	case s.doubt != nil:
		s.look()
	case errors.Is(err, session.ErrExpired): // the marker went with its session
		s.marker = Marker{}
		s.make()
	default:
		s.send()
	}
}

// outlive follows an error that may be the end of the session of an attempt in doubt.
func (s *turn) outlive(err error) {
	if s.doubt != nil && errors.Is(err, session.ErrExpired) {
		s.doubt = err
	}
}

// look reads the marker, unless the caller is gone.
func (s *turn) look() {
	if s.answered {
		s.end(s.marker, true, nil, nil)
		return
	}
	s.stage = looking
	s.do(Look{s.marker})
}

// looked follows the reading of the marker. With the number of the write an attempt was done. With
// the known version none was done so far: the next attempt excludes the earlier ones. Anything else
// says nothing of an attempt in doubt. Without doubt it is the work of another client, whatever
// that wanted, and the write goes on.
func (s *turn) looked(in Looked) {
	s.outlive(in.Err)
	switch {
	case procedure.Passes(s.Epoch, in.Err):
		s.look()
	case in.Err != nil:
		s.fail(in.Err)
	case in.Exists && in.N == s.n:
		s.done(nil)
	case in.Exists && in.Version == s.marker.Version && s.Tries > 0 && s.lost >= s.Tries:
		s.refusal = Sent{Err: ErrLost}
		s.void()
	case in.Exists && in.Version == s.marker.Version:
		s.send()
	case s.doubt != nil:
		s.marker.Version = in.Version
		if !in.Exists {
			s.marker = Marker{}
		}
		s.end(s.marker, false, nil, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, ErrMarker))
	case in.Exists:
		s.marker.Version = in.Version
		s.send()
	default:
		s.marker = Marker{}
		s.make()
	}
}

// void deletes the marker at the version that all attempts expect, unless the caller is gone.
func (s *turn) void() {
	if s.answered {
		s.end(s.marker, true, nil, nil)
		return
	}
	s.stage = voiding
	s.do(Void{s.marker})
}

// voided follows the deletion of the marker. If that succeeded, or the node is gone, every attempt
// is refused from now on. Another version means that an attempt was done, or that another client or
// older data has changed the marker. A marker of an earlier session may have gone with it. An
// attempt of that session may have come before that, and after the refusal.
func (s *turn) voided(err error) {
	s.outlive(err)
	switch {
	case errors.Is(err, session.ErrNoNode) && errors.Is(s.doubt, session.ErrExpired):
		s.fail(err)
	case err == nil, errors.Is(err, session.ErrNoNode):
		s.end(Marker{}, false, s.refusal.Results, s.refusal.Err)
	case errors.Is(err, session.ErrBadVersion):
		s.look()
	case procedure.Passes(s.Epoch, err):
		s.void()
	default:
		s.fail(err)
	}
}
