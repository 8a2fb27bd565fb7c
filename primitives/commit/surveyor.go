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
	switch e := e.(type) {
	case surveyRequest:
		v.request(v.session.Async(0), e, func(in surveyAnswer) {
			in.of = e
			v.owned.Answer(in.err, func() { tell(in) })
		})
	case surveyRespond:
		e.reply.Give(e.surveyed)
	}
}

// request makes a request, and answers once.
func (v *surveyor) request(a client.Async, e surveyRequest, answer func(surveyAnswer)) {
	list := func(node string) {
		a.Children(node, func(names []string, _ *session.Stat, err error) { answer(surveyAnswer{names: names, err: err}) })
	}
	read := func(node string) {
		a.Get(node, func(data []byte, _ *session.Stat, err error) { answer(surveyAnswer{data: data, err: err}) })
	}
	switch e.step {
	case surveySync:
		a.Sync(v.parent, func(err error) { answer(surveyAnswer{err: err}) })
	case surveyParent:
		list(v.parent)
	case surveySites:
		list(znode.Join(v.parent, nodes.Sites))
	case surveyRecord:
		read(znode.Join(v.parent, e.id))
	case surveyBallots:
		list(place{v.parent, e.rec.ID, e.rec.GUID}.dir())
	case surveyVote:
		read(place{v.parent, e.rec.ID, e.rec.GUID}.ballot(e.ballot))
	}
}
