package watches

import (
	"errors"
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// A bench has a table, and the requests that it makes, which the test answers.
type bench struct {
	table     *Table
	order     *order.Order
	reads     []Read
	plantings []Planting
	failing   int // reads that are said to be repeated
}

func newBench() *bench {
	b := &bench{order: order.New(func() {})}
	b.table = New(b.order, func(_ string, why error) error { return why })
	return b
}

func (b *bench) ID() int64                { return 7 }
func (b *bench) Read(r Read)              { b.reads = append(b.reads, r) }
func (b *bench) Plant(p Planting)         { b.plantings = append(b.plantings, p) }
func (b *bench) Unwatch(Key)              {}
func (b *bench) Found(string, *wire.Stat) {}

func (b *bench) Later(retry *workers.Retry, _ string, _ error, _ bool, do func()) *workers.Retry {
	if retry == nil {
		retry = &workers.Retry{Ended: func([]any) { b.failing-- }}
		retry.Again()
		b.failing++
	}
	b.order.Put(do)
	return retry
}

func (b *bench) present() (Epoch, error) { return b, nil }

// A listener notes what its subscription receives.
type listener struct {
	Subscription
	readings []Reading
	errors   []error
	then     func()
}

func newListener(lasting bool) *listener {
	l := &listener{Subscription: Subscription{Lasting: lasting}, then: func() {}}
	l.To = l
	return l
}

func (l *listener) Receive(r Reading, err error) {
	l.readings, l.errors = append(l.readings, r), append(l.errors, err)
	l.then()
}

// TestMissingOnceMore: a subscriber that has a missing node read once more leaves the others as
// they were, and later ones learn at once that it is missing.
func TestMissingOnceMore(t *testing.T) {
	b, key := newBench(), Key{"/n", Children}
	follow := func(lasting bool) *listener {
		l := newListener(lasting)
		check.Must(t, b.table.Follow(b.present, key, &l.Subscription, Reading{}))
		b.order.Run()
		return l
	}
	missing := func(n int) {
		t.Helper()
		check.Require(t, len(b.reads) == n, "%d reads, want %d", len(b.reads), n)
		b.reads[n-1].Answered(Reading{Zxid: 5}, fault.ErrNoNode)
	}
	first := follow(true)
	missing(1)
	missing(2) // of the data, on behalf of the children
	check.EqualSlices(t, first.errors, []error{nil}, "the first receives")
	check.False(t, first.Unsettled(), "the first is unsettled")

	second := follow(false)
	missing(3)
	check.EqualSlices(t, second.errors, []error{fault.ErrNoNode}, "the second receives")
	check.False(t, first.Unsettled(), "the first is unsettled again")

	third := follow(true)
	check.EqualSlices(t, third.errors, []error{nil}, "the third receives")
	check.Len(t, b.reads, 3)
}

// TestFailingEnds: a read that fails is repeated, and whatever ends that is said.
func TestFailingEnds(t *testing.T) {
	passing := errors.New("busy")
	for name, end := range map[string]func(b *bench, last Read, sub *listener){
		"an answer":     func(_ *bench, last Read, _ *listener) { last.Answered(Reading{Stat: new(wire.Stat)}, nil) },
		"no node":       func(_ *bench, last Read, _ *listener) { last.Answered(Reading{}, fault.ErrNoNode) },
		"a refusal":     func(_ *bench, last Read, _ *listener) { last.Answered(Reading{}, fault.ErrNoAuth) },
		"no subscriber": func(_ *bench, last Read, sub *listener) { sub.Cancel(); last.Answered(Reading{}, passing) },
		"another epoch": func(b *bench, _ Read, _ *listener) { b.table.Forget(b, fault.ErrExpired)() },
	} {
		b, l := newBench(), newListener(true)
		check.Must(t, b.table.Follow(b.present, Key{"/n", Data}, &l.Subscription, Reading{}))
		for i := range 3 {
			check.Require(t, len(b.reads) == i+1, "%s: %d reads, want %d", name, len(b.reads), i+1)
			b.reads[i].Answered(Reading{}, passing)
			b.order.Run()
			check.Equal(t, b.failing, 1, name)
		}
		end(b, b.reads[3], l)
		check.Equal(t, b.failing, 0, name)
	}
}

// TestPlantedTogether: a subscriber that ends the goroutine takes nothing away from the others
// whose watches were planted by the same request.
func TestPlantedTogether(t *testing.T) {
	b, first, second := newBench(), newListener(false), newListener(false)
	first.then = runtime.Goexit
	check.Must(t, b.table.FollowTogether(b.present, 3, []Watcher{
		{Key{"/a", Data}, &first.Subscription, Reading{Stat: &wire.Stat{Czxid: 3}}},
		{Key{"/b", Data}, &second.Subscription, Reading{Stat: &wire.Stat{Czxid: 3}}},
	}))
	check.Require(t, len(b.plantings) == 1, "%d requests", len(b.plantings))
	b.order.Put(func() { b.plantings[0].Answered(9, nil) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.order.Run()
	}()
	<-ended
	check.Len(t, second.readings, 0)
	b.order.Run()
	for _, l := range []*listener{first, second} {
		check.Len(t, l.readings, 1)
		check.Equal(t, l.readings[0].Zxid, 9, "the zxid")
	}
}

// TestRemoval: the server is to remove watches of the kind that was set.
func TestRemoval(t *testing.T) {
	for kind, want := range map[Kind]int32{Data: 2, Absent: 2, Children: 1} {
		check.Equal(t, Removal(Key{"/n", kind}).Kind, want, "removed of", kind)
	}
}
