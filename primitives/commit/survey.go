package commit

import (
	"cmp"
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// This file reads all transactions below a parent, for Resume and List: as a pure function, and
// the performer of its effects. A survey syncs, lists the parent, and then has all reads under
// way at once. A node that vanishes meanwhile, or is not a transaction, is left out.

// A surveyInput is something that happened.
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
		names []string
		err   error
	}
	surveyAttended struct { // answers surveySites
		names []string
		err   error
	}
	surveyRead struct { // answers surveyRecord
		id  string
		rec *record
		err error
	}
	surveyCounted struct { // answers surveyBallots
		rec   *record
		names []string
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

// A surveyEffect is something to do about it.
//
//sumtype:decl
type surveyEffect interface{ surveyEffect() }

type (
	surveySync    struct{}
	surveyParent  struct{}
	surveySites   struct{}
	surveyRecord  struct{ id string }
	surveyBallots struct{ rec *record }
	surveyVote    struct { // the data of it
		rec  *record
		node string
		site int // its index in the record
	}
	surveyRespond struct {
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

// surveyed is what a survey has found. A survey without ballots has records only.
type surveyed struct {
	records []*record
	shown   []Status
	err     error
}

// A survey is the machine. It is a value: its slices are replaced, not modified.
type survey struct {
	ballots bool // set at the start, if the ballots are to be read too
	reply   actors.Reply[surveyed]
	open    int // requests without an answer. The survey ends when there is none.
	present []string
	records []*record // in the order of their ids
	shown   []Status  // of those records whose ballots were listed, in no order
	over    bool
}

type surveyEffects = actors.Effects[surveyEffect, struct{}]

// Ended implements [actors.Machine].
func (m survey) Ended() bool { return m.over }

// Step implements [actors.Machine].
func (m survey) Step(in surveyInput, out *surveyEffects) survey {
	if m.over {
		return m
	}
	t := surveyTurn{m, out}
	switch in := in.(type) {
	case surveyLeave:
		t.over = true
	case surveyBegin:
		t.reply = in.reply
		t.ask(surveySync{})
	case surveySynced, surveyListed, surveyAttended, surveyRead, surveyCounted, surveyVoteRead:
		t.open--
		t.answered(in)
	}
	if t.open == 0 && !t.over {
		t.end(nil)
	}
	return t.survey
}

type surveyTurn struct {
	survey
	out *surveyEffects
}

// ask starts a request. The survey goes on until each has its answer.
func (t *surveyTurn) ask(e surveyEffect) {
	t.open++
	t.out.Do = append(t.out.Do, e)
}

// failed asks again after an error that passes, and ends after any other. A node that is gone is
// no error.
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

// answered takes an answer, and asks what follows from it: after the sync the list of the transactions, and that of the sites;
// after that the records; after each of these its ballots; and the data of each vote that has any.
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
		if errors.Is(in.err, errForeign) || t.failed(in.err, surveyRecord{in.id}) {
			return
		}
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

// show takes the ballots of a transaction, and asks for the data of its votes.
func (t *surveyTurn) show(in surveyCounted) {
	b := parse(in.names)
	s := Status{ID: in.rec.id, Mode: in.rec.Mode, Payload: in.rec.Payload, Outcome: in.rec.Outcome, Coordinated: b.coordinators > 0}
	for i, site := range in.rec.Sites {
		ours, there := b.of[site]
		s.Sites = append(s.Sites, SiteStatus{Site: site, Vote: ours.vote, Finished: !there})
		if ours.data {
			t.ask(surveyVote{in.rec, ours.name(site), i})
		}
	}
	t.shown = append(slices.Clip(t.shown), s)
}

// voteRead takes the data of a vote. A vote that is gone has been finished meanwhile.
func (t *surveyTurn) voteRead(in surveyVoteRead) {
	if !errors.Is(in.err, session.ErrNoNode) && t.failed(in.err, in.of) {
		return
	}
	t.shown = slices.Clone(t.shown)
	for i := range t.shown {
		if s := &t.shown[i]; s.ID == in.of.rec.id {
			s.Sites = slices.Clone(s.Sites)
			s.Sites[in.of.site].Data, s.Sites[in.of.site].Finished = in.data, in.err != nil
		}
	}
}

// end answers, in the order of the ids.
func (t *surveyTurn) end(err error) {
	found := surveyed{records: slices.Clone(t.records), shown: slices.Clone(t.shown), err: err}
	slices.SortFunc(found.records, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	slices.SortFunc(found.shown, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
	for i := range found.shown {
		for j := range found.shown[i].Sites {
			at := &found.shown[i].Sites[j]
			at.Present = slices.Contains(t.present, at.Site)
		}
	}
	t.over = true
	t.out.Do = append(t.out.Do, surveyRespond{t.reply, found})
}

// A surveyor performs a survey.
type surveyor struct {
	session client.Session
	parent  string
	owned   owned.Set
}

func (v *surveyor) observe(m survey, _ []struct{}) {
	if m.Ended() {
		v.owned.End()
	}
}

// perform starts one thing that the machine asked for.
func (v *surveyor) perform(e surveyEffect, tell func(surveyInput)) {
	a := v.session.Async(0)
	answer := func(err error, in surveyInput) { v.owned.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case surveySync:
		a.Sync(v.parent, func(err error) { answer(err, surveySynced{err}) })
	case surveyParent:
		a.Children(v.parent, func(names []string, _ *session.Stat, err error) { answer(err, surveyListed{names, err}) })
	case surveySites:
		a.Children(session.Join(v.parent, presences), func(names []string, _ *session.Stat, err error) {
			answer(err, surveyAttended{names, err})
		})
	case surveyRecord:
		a.Get(session.Join(v.parent, e.id), func(data []byte, _ *session.Stat, err error) {
			in := surveyRead{id: e.id, err: err}
			if err == nil {
				in.rec, in.err = decode(e.id, data)
			}
			answer(err, in)
		})
	case surveyBallots:
		a.Children(place{v.parent, e.rec.id, e.rec.GUID}.dir(), func(names []string, _ *session.Stat, err error) {
			answer(err, surveyCounted{e.rec, names, err})
		})
	case surveyVote:
		a.Get(place{v.parent, e.rec.id, e.rec.GUID}.ballot(e.node), func(data []byte, _ *session.Stat, err error) {
			answer(err, surveyVoteRead{e, data, err})
		})
	case surveyRespond:
		e.reply.Give(e.surveyed)
	}
}
