package line

import (
	"reflect"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// TestGoneInTime: a node is gone by an event only. If a read finds it gone, it may have gone
// after what others ahead have done.
func TestGoneInTime(t *testing.T) {
	e := watchTarget{target: Target{Node: "ahead"}}
	for zxid, want := range map[int64]Input{0: gone(e), 7: failed{e, session.ErrNoNode}} {
		p := &Performer{Recipe: Recipe{Hooks: &published}}
		var last Input
		hear := p.follower(e, func(in Input) { last = in })
		hear(session.Reading{Zxid: 5, Stat: &session.Stat{Czxid: 5}}, nil)
		if hear(session.Reading{Zxid: zxid}, session.ErrNoNode); !reflect.DeepEqual(last, want) {
			t.Errorf("told %#v of a reading at %d, want %#v", last, zxid, want)
		}
	}
}
