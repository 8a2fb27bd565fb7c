package contender

import (
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
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
		hear(session.Reading{Zxid: 5, Stat: &session.Stat{EphemeralOwner: 1, Czxid: 5}}, nil)
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

// TestAgeOfTheObstacle: the age of the contender ahead has milliseconds in its first second only.
func TestAgeOfTheObstacle(t *testing.T) {
	begun := time.UnixMilli(5000)
	for age, want := range map[time.Duration]string{
		-time.Hour:              "0s",
		600 * time.Millisecond:  "600ms",
		2600 * time.Millisecond: "3s",
	} {
		text := describe(line.Obstacle{Identity: "me", Since: begun.UnixMilli()}, true, "n", begun.Add(age))
		check.Equal(t, text, "held by me, in line since "+want)
	}
	text := describe(line.Obstacle{Since: begun.UnixMilli(), NoSession: true}, true, "n", begun)
	check.Equal(t, text, "held by the node n of no session, which has to be deleted, in line since 0s")
}

// A parental session has the events that a test gives it, and a parent with data.
type parental struct {
	client.Session
	tell func(session.Event) (settled <-chan struct{})
	cold []string // the parents that do not exist, or carry data
}

func (p *parental) Sharing(int) client.Async                  { return parentWithData{} }
func (p *parental) Rely(int32)                                {}
func (p *parental) After(time.Duration, func()) (stop func()) { return func() {} }

func (p *parental) SetWarm(path string, warm bool) {
	if !warm {
		p.cold = append(p.cold, path)
	}
}

func (p *parental) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	p.tell = tell
	return func() {}
}

// parentWithData answers lists.
type parentWithData struct{ client.Async }

func (parentWithData) Children(_ string, answer func([]string, *session.Stat, error)) {
	answer([]string{"n"}, &session.Stat{DataLength: 1}, nil)
}

// TestListIsNotSpread: a list that waits for its time does not go out while the connection is lost.
func TestListIsNotSpread(t *testing.T) {
	s := new(parental)
	p := NewPerformer(s, &Recipe{})
	defer p.End()
	p.Begin(func(line.Input) {}, nil)
	p.Perform(line.ListLater{After: time.Second}, func(line.Input) {})
	check.True(t, p.owned.Get(later{}) != nil, "the list waits for nothing")
	s.tell(session.Suspended{})
	check.True(t, p.owned.Get(later{}) == nil, "the list goes out when its time has come")
}

// TestParentWithData: a list that shows data in the parent reminds the session of that.
func TestParentWithData(t *testing.T) {
	s := new(parental)
	p := NewPerformer(s, &Recipe{Path: "/a", Dir: "/a/b"})
	defer p.End()
	p.Perform(line.ListParent{}, func(line.Input) {})
	check.EqualSlices(t, s.cold, []string{"/a/b"}, "parents that may not be written to")
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
