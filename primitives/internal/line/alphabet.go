package line

import (
	"errors"

	"github.com/zkactors/zkactors/session"
)

// Alphabet returns inputs that lead a claiming machine through all that it can be, for the
// tests of machines that have one inside. A claim succeeds at the zxid.
func Alphabet(m Machine, zxid int64) []Input {
	at, own, ahead := m.attempt, m.rule.Name(m.guid())+"0000000005", m.rule.Name("ahead")+"0000000001"
	mine, theirs, held := Target{Node: own}, Target{Node: ahead}, Target{own, unclaimed}
	return []Input{
		heard{session.Connected{Epoch: 1, ID: 9}},
		heard{session.Suspended{}},
		heard{session.Resumed{}},
		heard{session.Expired{Epoch: at.epoch}},
		heard{session.Closed{}},
		joined{attempt: at, node: own, czxid: 7, children: 1},
		joined{attempt: at, node: own, czxid: 7, children: 2},
		watched{attempt: at, target: mine, czxid: 7, owner: m.session},
		listed{at, Sight{Names: []string{ahead, own}}},
		listed{at, Sight{Names: []string{own}}},
		gone{at, theirs},
		gone{at, mine},
		gone{at, held},
		claimed{at, zxid},
		occupied{at},
		withdrawn{at, own},
		withdrawn{at, ""},
		failed{claim{at, own, false}, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)},
		failed{claim{at, own, false}, session.ErrNoAuth},
		failed{createNode{at, m.guid(), false}, session.ErrSessionFull},
	}
}
