package contender

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// TestGoneInTime: a node is gone by an event only. If a read finds it gone, it may have gone
// after what others ahead have done.
func TestGoneInTime(t *testing.T) {
	e := line.WatchTarget{Target: line.Target{Node: "ahead"}}
	for zxid, want := range map[int64]line.Input{0: line.Happened(e), 7: line.Failed{What: e, Err: session.ErrNoNode}} {
		p := NewPerformer(nil, &Recipe{})
		var last line.Input
		hear := p.watches.follower(e, func(in line.Input) { last = in })
		hear(session.Reading{Zxid: 5, Stat: &session.Stat{Czxid: 5}}, nil)
		hear(session.Reading{Zxid: zxid}, session.ErrNoNode)
		check.True(t, reflect.DeepEqual(last, want), "told %#v of a reading at %d, want %#v", last, zxid, want)
	}
}

// TestEndWhileKnown: a handle that ends while an answer is read from what it follows, on the
// goroutine of the session, takes nothing away from that answer.
func TestEndWhileKnown(t *testing.T) {
	p := NewPerformer(nil, &Recipe{Condition: known{}})
	ends := subscription{unsettled: func() {
		go p.End()
		for data, children := p.condition.around(); data != nil || children != nil; data, children = p.condition.around() {
			runtime.Gosched()
		}
	}}
	read := session.Reading{Data: []byte("5"), Stat: new(session.Stat)}
	p.owned.Keep(aspectData{}, &following{Subscription: ends, newest: read})
	p.owned.Keep(aspectChildren{}, &following{Subscription: subscription{}, newest: read})
	p.condition.read(nil, func(data string, err error) {
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

// A known condition is the data of its node.
type known struct{ Followed }

func (known) Of(node session.Reading) string { return string(node.Data) }
func (known) Check([]string) error           { return nil }
