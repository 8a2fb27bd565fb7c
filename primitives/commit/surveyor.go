package commit

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A surveyor performs the effects of a survey. Answers of a busy server come late, so that
// the machine may ask again at once.
type surveyor struct {
	session client.Session
	parent  string
	owned   owned.Set
}

// observe ends what the surveyor owns, with the machine.
func (v *surveyor) observe(m survey, _ []struct{}) {
	if m.Ended() {
		v.owned.End()
	}
}

// perform starts one effect. Requests are not bound to an epoch: a survey goes on in the
// next session.
func (v *surveyor) perform(e surveyEffect, tell func(surveyInput)) {
	a := v.session.Async(0)
	answer := func(err error, in surveyInput) { v.owned.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case surveySync:
		a.Sync(v.parent, func(err error) { answer(err, surveySynced{err}) })
	case surveyParent:
		a.Children(v.parent, func(names []string, _ *session.Stat, err error) { answer(err, surveyListed{names, err}) })
	case surveySites:
		a.Children(znode.Join(v.parent, nodes.Sites), func(names []string, _ *session.Stat, err error) {
			answer(err, surveyAttended{names, err})
		})
	case surveyRecord:
		a.Get(znode.Join(v.parent, e.id), func(data []byte, _ *session.Stat, err error) {
			in := surveyRead{id: e.id, err: err}
			if err == nil {
				in.rec, in.err = decode(e.id, data)
			}
			answer(err, in)
		})
	case surveyBallots:
		a.Children(place{v.parent, e.rec.ID, e.rec.GUID}.dir(), func(names []string, _ *session.Stat, err error) {
			answer(err, surveyCounted{e.rec, names, err})
		})
	case surveyVote:
		a.Get(place{v.parent, e.rec.ID, e.rec.GUID}.ballot(e.node), func(data []byte, _ *session.Stat, err error) {
			answer(err, surveyVoteRead{e, data, err})
		})
	case surveyRespond:
		e.reply.Give(e.surveyed)
	}
}
