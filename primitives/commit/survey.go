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

// A surveyInput is an event that the machine reacts to. Each answer names the node that it is about.
//
//sumtype:decl
type surveyInput interface{ surveyInput() }

type (
	surveyLeave struct{} // the actor was stopped
	surveyBegin struct { // commanded; its reply gets one answer
		reply actors.Reply[surveyed]
	}
	surveySynced struct{ err error } // answers surveySync
	surveyListed struct {            // answers surveyParent
		names []string // of the transactions, among others
		err   error
	}
	surveyAttended struct { // answers surveySites
		names []string // of the sites that are present
		err   error
	}
	surveyRead struct { // answers surveyRecord
		id  string
		rec *record
		err error // errForeign if the node is not a transaction
	}
	surveyCounted struct { // answers surveyBallots
		rec   *record
		names []string // of the ballots
		err   error
	}
	surveyVoteRead struct { // answers surveyVote
		of   surveyVote
		data []byte
		err  error
	}
)

func (surveyLeave) surveyInput()    {}
func (surveyBegin) surveyInput()    {}
func (surveySynced) surveyInput()   {}
func (surveyListed) surveyInput()   {}
func (surveyAttended) surveyInput() {}
func (surveyRead) surveyInput()     {}
func (surveyCounted) surveyInput()  {}
func (surveyVoteRead) surveyInput() {}

// A surveyEffect asks the performer for one thing. All but surveyRespond are requests,
// answered by one input each.
//
//sumtype:decl
type surveyEffect interface{ surveyEffect() }

type (
	surveySync    struct{}              // so that the list has what was committed before the survey
	surveyParent  struct{}              // list the transactions
	surveySites   struct{}              // list the present sites
	surveyRecord  struct{ id string }   // read a record
	surveyBallots struct{ rec *record } // list the ballots of a transaction
	surveyVote    struct {              // read the data of a vote
		rec  *record
		node string
		site int // its index in the record
	}
	surveyRespond struct { // give the command its reply
		reply actors.Reply[surveyed]
		surveyed
	}
)

func (surveySync) surveyEffect()    {}
func (surveyParent) surveyEffect()  {}
func (surveySites) surveyEffect()   {}
func (surveyRecord) surveyEffect()  {}
func (surveyBallots) surveyEffect() {}
func (surveyVote) surveyEffect()    {}
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
		t.ask(surveySync{})
	case surveySynced, surveyListed, surveyAttended, surveyRead, surveyCounted, surveyVoteRead:
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
func (t *surveyTurn) ask(e surveyEffect) {
	t.open++
	t.out.Do = append(t.out.Do, e)
}

// failed handles the error of an answer, and reports whether there was one. It asks again
// after an error that passes, and ends the survey after any other. A node that is gone is
// left out.
func (t *surveyTurn) failed(err error, again surveyEffect) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, session.ErrNoNode):
	case session.Passing(err):
		t.ask(again)
	default:
		t.end(err)
	}
	return true
}

// answered enters an answer, and asks what follows from it, as the picture above shows.
func (t *surveyTurn) answered(in surveyInput) {
	switch in := in.(type) {
	case surveySynced:
		if t.failed(in.err, surveySync{}) {
			return
		}
		if t.ask(surveyParent{}); t.ballots {
			t.ask(surveySites{})
		}
	case surveyListed:
		if t.failed(in.err, surveyParent{}) {
			return
		}
		for _, id := range transactions(in.names) {
			t.ask(surveyRecord{id})
		}
	case surveyAttended:
		if !t.failed(in.err, surveySites{}) {
			t.present = in.names
		}
	case surveyRead:
		// A node that is not a transaction is none of ours.
		if errors.Is(in.err, errForeign) || t.failed(in.err, surveyRecord{in.id}) {
			return
		}
		// Every record is read once: the list has each id once.
		if t.records = append(slices.Clip(t.records), in.rec); t.ballots {
			t.ask(surveyBallots{in.rec})
		}
	case surveyCounted:
		if !t.failed(in.err, surveyBallots{in.rec}) {
			t.show(in)
		}
	case surveyVoteRead:
		t.voteRead(in)
	case surveyLeave, surveyBegin:
	}
}

// show enters the ballots of a transaction, and asks for the data of its votes.
func (t *surveyTurn) show(in surveyCounted) {
	b := parse(in.names)
	s := Status{ID: in.rec.ID, Mode: in.rec.Mode, Payload: in.rec.Payload, Outcome: in.rec.Outcome, Coordinated: b.coordinators > 0}
	for i, site := range in.rec.Sites {
		// A site without a ballot has finished.
		ours, there := b.of[site]
		s.Sites = append(s.Sites, SiteStatus{Site: site, Vote: ours.vote, Finished: !there})
		if ours.data {
			t.ask(surveyVote{in.rec, ours.name(site), i})
		}
	}
	t.shown = append(slices.Clip(t.shown), s)
}

// voteRead enters the data of a vote. If the vote is gone, the site has finished
// meanwhile.
func (t *surveyTurn) voteRead(in surveyVoteRead) {
	if !errors.Is(in.err, session.ErrNoNode) && t.failed(in.err, in.of) {
		return
	}
	t.shown = slices.Clone(t.shown)
	for i := range t.shown {
		if s := &t.shown[i]; s.ID == in.of.rec.ID {
			// An earlier machine shares the slices.
			s.Sites = slices.Clone(s.Sites)
			s.Sites[in.of.site].Data, s.Sites[in.of.site].Finished = in.data, in.err != nil
		}
	}
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
