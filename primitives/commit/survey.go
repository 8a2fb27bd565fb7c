package commit

import (
	"cmp"
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file reads all transactions below a parent, for Resume and List, as a pure
// function. The performer of its effects is in surveyor.go.
//
//	begin ─► sync ─┬─► parent ──► record of each ──► ballots of each ──► data of each vote
//	               └─► sites, if the ballots are to be read
//
// All requests on one level are under way at once. The survey ends when none is left. A node
// that vanishes meanwhile, or is not a transaction, is left out. An error that does not pass
// ends the survey with what was found so far.

// A surveyStep is a step in the picture above.
type surveyStep int

const (
	surveySync    surveyStep = iota // so that the list has what was committed before the survey
	surveyParent                    // list the transactions
	surveySites                     // list the present sites
	surveyRecord                    // read a record
	surveyBallots                   // list the ballots of a transaction
	surveyVote                      // read the data of a vote
)

// A surveyInput is an event that the machine reacts to.
//
//sumtype:decl
type surveyInput interface{ surveyInput() }

type (
	surveyLeave struct{} // the actor was stopped
	surveyBegin struct { // commanded; its reply gets one answer
		reply actors.Reply[surveyed]
	}
	surveyAnswer struct { // answers a request
		of    surveyRequest
		names []string // of the children
		data  []byte   // of the node
		err   error
	}
)

func (surveyLeave) surveyInput()  {}
func (surveyBegin) surveyInput()  {}
func (surveyAnswer) surveyInput() {}

// A surveyEffect asks the performer for one thing. A request is answered by one input, surveyRespond is not.
//
//sumtype:decl
type surveyEffect interface{ surveyEffect() }

type (
	surveyRequest struct {
		step   surveyStep
		id     string  // of the transaction, in surveyRecord
		rec    *record // of the transaction, in surveyBallots and surveyVote
		ballot string  // the name of the node, in surveyVote
		site   int     // its index in the record, in surveyVote
	}
	surveyRespond struct { // give the command its reply
		reply actors.Reply[surveyed]
		surveyed
	}
)

func (surveyRequest) surveyEffect() {}
func (surveyRespond) surveyEffect() {}

// A surveyed is the result of a survey. It has records only, unless ballots were read.
type surveyed struct {
	records []*record // in the order of their ids
	shown   []Status  // in the same order; without those whose ballots are gone
	err     error     // why the survey ended early; nil if it is complete
}

// A survey is the machine. It is a value: its slices are replaced, never written to.
type survey struct {
	ballots bool                   // set if the ballots are to be read too; constant
	reply   actors.Reply[surveyed] // set by the command, answered once
	open    int                    // the number of requests without an answer: the survey ends when it is 0
	present []string               // the sites that are present; set once, only if ballots is
	records []*record              // those that were read, in no order
	shown   []Status               // for each record whose ballots were listed, in no order
	over    bool                   // set with the reply, or when the actor is stopped; answers mean nothing then
}

// surveyEffects accumulates what one step asks for. A survey emits no events.
type surveyEffects = actors.Effects[surveyEffect, struct{}]

// Ended implements [actors.Machine]. Answers that are still due mean nothing then.
func (m survey) Ended() bool { return m.over }

// Step implements [actors.Machine]. A survey without an open request ends in the same
// step.
func (m survey) Step(in surveyInput, out *surveyEffects) survey {
	if m.over {
		return m
	}
	t := surveyTurn{m, out}
	switch in := in.(type) {
	case surveyLeave: // the caller is gone: no reply
		t.over = true // no caller waits any more
	case surveyBegin:
		t.reply = in.reply
		t.ask(surveyRequest{step: surveySync})
	case surveyAnswer:
		t.open-- // before the answer may open others
		t.answered(in)
	}
	if t.open == 0 && !t.over {
		t.end(nil)
	}
	return t.survey
}

// A surveyTurn is a survey during a step, with the accumulator of its effects.
type surveyTurn struct {
	survey
	out *surveyEffects
}

// ask starts a request. The survey goes on until each has its answer.
func (t *surveyTurn) ask(e surveyRequest) {
	t.open++
	t.out.Do = append(t.out.Do, e)
}

// answered enters an answer. A request whose error passes is made again, and any other error
// ends the survey. A node that is gone is left out; where it was a vote, the site has finished meanwhile.
func (t *surveyTurn) answered(in surveyAnswer) {
	gone := errors.Is(in.err, session.ErrNoNode)
	switch {
	case in.err == nil, gone && in.of.step == surveyVote:
		t.found(in, gone)
	case gone:
	case session.Passing(in.err):
		t.ask(in.of)
	default:
		t.end(in.err)
	}
}

// found enters what was read, and asks what follows from it, as the picture above shows.
func (t *surveyTurn) found(in surveyAnswer, gone bool) {
	switch in.of.step {
	case surveySync:
		if t.ask(surveyRequest{step: surveyParent}); t.ballots {
			t.ask(surveyRequest{step: surveySites})
		}
	case surveyParent:
		for _, id := range transactions(in.names) {
			t.ask(surveyRequest{step: surveyRecord, id: id})
		}
	case surveySites:
		t.present = in.names
	case surveyRecord:
		r, err := decode(in.of.id, in.data)
		if err != nil { // a node that is not a transaction is none of ours
			return
		}
		// Every record is read once: the list has each id once.
		if t.records = append(slices.Clip(t.records), r); t.ballots {
			t.ask(surveyRequest{step: surveyBallots, rec: r})
		}
	case surveyBallots:
		t.show(in.of.rec, parse(in.names))
	case surveyVote:
		t.shown = slices.Clone(t.shown)
		at := slices.IndexFunc(t.shown, func(s Status) bool { return s.ID == in.of.rec.ID })
		s := &t.shown[at]
		s.Sites = slices.Clone(s.Sites) // an earlier machine shares the slices
		s.Sites[in.of.site].Data, s.Sites[in.of.site].Finished = in.data, gone
	}
}

// show enters the ballots of a transaction, and asks for the data of its votes.
func (t *surveyTurn) show(r *record, b ballots) {
	s := Status{ID: r.ID, Mode: r.Mode, Payload: r.Payload, Outcome: r.Outcome, Coordinated: b.coordinators > 0}
	for i, site := range r.Sites {
		// A site without a ballot has finished.
		ours, there := b.of[site]
		s.Sites = append(s.Sites, SiteStatus{Site: site, Vote: ours.vote, Finished: !there})
		if ours.data {
			t.ask(surveyRequest{step: surveyVote, rec: r, ballot: ours.name(site), site: i})
		}
	}
	t.shown = append(slices.Clip(t.shown), s)
}

// end gives the reply, in the order of the ids, with the presence of each site.
func (t *surveyTurn) end(err error) {
	found := surveyed{records: slices.Clone(t.records), shown: slices.Clone(t.shown), err: err}
	slices.SortFunc(found.records, func(a, b *record) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(found.shown, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
	// The sites may have been listed after the ballots.
	for i := range found.shown {
		for j := range found.shown[i].Sites {
			at := &found.shown[i].Sites[j]
			at.Present = slices.Contains(t.present, at.Site)
		}
	}
	t.over = true
	t.out.Do = append(t.out.Do, surveyRespond{t.reply, found})
}
