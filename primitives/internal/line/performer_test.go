package line

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
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
		hear(session.Reading{Zxid: zxid}, session.ErrNoNode)
		check.True(t, reflect.DeepEqual(last, want), "told %#v of a reading at %d, want %#v", last, zxid, want)
	}
}

// TestEndWhileKnown: a handle that ends while an answer is read from what it follows, on the goroutine
// of the session, takes nothing away from that answer.
func TestEndWhileKnown(t *testing.T) {
	p := &Performer{Recipe: Recipe{
		Hooks: &Hooks{Known: func(_ *Recipe, node session.Reading, _ []string) (string, error) { return string(node.Data), nil }},
	}}
	ends := subscription{unsettled: func() {
		go p.End()
		for data, children := p.around(); data != nil || children != nil; data, children = p.around() {
			runtime.Gosched()
		}
	}}
	read := session.Reading{Data: []byte("5"), Stat: new(session.Stat)}
	p.owned.Keep(Target{Until: dependence}, &followed{Subscription: ends, newest: read})
	p.owned.Keep(beside{}, &followed{Subscription: subscription{}, newest: read})
	p.beside(nil, func(data string, err error) {
		check.True(t, data == "5" && err == nil, "%q, %v, want what was followed", data, err)
	})
}

// A subscription is a [client.Subscription] that is over never, and settled always.
type subscription struct{ unsettled func() }

func (s subscription) Cancel()    {}
func (s subscription) Over() bool { return false }
func (s subscription) Unsettled() bool {
	if s.unsettled != nil {
		s.unsettled()
	}
	return false
}
