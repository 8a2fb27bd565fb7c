package actors

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/zkactors/zkactors/internal/check"
)

// A note is an event of kind 'l' (a level: merges), 'e' (an edge), 'o' or 'c'
// (which undoes the 'o' before it).
type note struct {
	kind rune
	sum  int
}

func mergeNotes(last, next note) (note, bool) {
	return note{'l', last.sum + next.sum}, last.kind == 'l' && next.kind == 'l'
}

func cancelNotes(last, next note) bool { return last.kind == 'o' && next.kind == 'c' }

func keepNotes(earlier, next note) bool {
	return earlier.kind == 'o' && next.kind != 'l' || earlier.kind == 'c' && next.kind != 'o'
}

// A plainOutbox is the specification: what nobody has received, in order.
type plainOutbox struct {
	undelivered []note
	wanted      bool
}

func (o *plainOutbox) put(v note) {
	n := len(o.undelivered)
	if n == 0 {
		o.undelivered = []note{v}
		return
	}
	last, rest := o.undelivered[n-1], o.undelivered[:n-1]
	if merged, ok := mergeNotes(last, v); ok {
		o.undelivered = append(rest, merged)
		return
	}
	switch {
	case !o.wanted:
		var stay []note
		undone := false
		for _, earlier := range o.undelivered {
			switch {
			case cancelNotes(earlier, v):
				undone = true
			case keepNotes(earlier, v):
				stay = append(stay, earlier)
			}
		}
		if o.undelivered = stay; !undone || len(stay) == 0 {
			o.undelivered = append(stay, v)
		}
	case cancelNotes(last, v):
		o.undelivered = rest
	default:
		o.undelivered = append(o.undelivered, v)
	}
}

func TestOutboxIsWhatItShouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ch := make(chan note, 1)
		out := outbox[note]{merge: mergeNotes, cancel: cancelNotes, keep: keepNotes}
		var want plainOutbox
		pump := func() {
			for {
				ch, next := out.next()
				select {
				case ch <- next:
					out.pop()
				default:
					return
				}
			}
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n++
				v := note{rapid.SampledFrom([]rune("leoc")).Draw(t, "kind"), n}
				out.put(v)
				want.put(v)
			},
			"burst": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{3, 20, 100}).Draw(t, "edges") {
					n++
					out.put(note{'e', n})
					want.put(note{'e', n})
				}
			},
			"want": func(*rapid.T) { out.ch, want.wanted = ch, true },
			"send": func(*rapid.T) { pump() },
			"receive": func(t *rapid.T) {
				pump()
				select {
				case got := <-out.ch:
					if !want.wanted || len(want.undelivered) == 0 || got != want.undelivered[0] {
						t.Fatalf("received %v of %v", got, want)
					}
					want.undelivered = want.undelivered[1:]
				default:
					if want.wanted && len(want.undelivered) > 0 {
						t.Fatalf("received nothing of %v", want)
					}
				}
			},
			"drain": func(t *rapid.T) {
				n := len(want.undelivered) - rapid.SampledFrom([]int{0, 0, 1, 10}).Draw(t, "rest")
				if !want.wanted || n < 0 {
					t.Skip()
				}
				for _, v := range want.undelivered[:n] {
					pump()
					if got := <-out.ch; got != v {
						t.Fatalf("received %v instead of %v", got, v)
					}
				}
				want.undelivered = want.undelivered[n:]
			},
			"": func(t *rapid.T) {
				if got, want := out.len()+len(out.ch), len(want.undelivered); got != want {
					t.Fatalf("%d undelivered events, want %d", got, want)
				}
				if out.delivered() && want.wanted && len(want.undelivered) > 1 {
					t.Fatalf("delivered, but for %v", want)
				}
				for i, v := range out.queue[:cap(out.queue)] {
					if v != (note{}) && (i < out.head || i >= len(out.queue)) {
						t.Fatalf("%v is kept alive", v)
					}
				}
				if out.len() == 0 && cap(out.queue) > 32 {
					t.Fatalf("empty, but has room for %d", cap(out.queue))
				}
			},
		})
		out.last(ch)
		var rest []note
		for v := range ch {
			rest = append(rest, v)
		}
		if tail := want.undelivered[max(0, len(want.undelivered)-1):]; !slices.Equal(rest, tail) {
			t.Fatalf("the last are %v, want %v", rest, tail)
		}
	})
}

func TestOutboxReusesItsMemory(t *testing.T) {
	out := outbox[int]{ch: make(chan int, 1)}
	// A reader who is always two events behind, for ever.
	out.put(0)
	out.put(1)
	i := 2
	allocs := testing.AllocsPerRun(1000, func() {
		out.put(i)
		i++
		ch, next := out.next()
		ch <- next
		out.pop()
		<-out.ch
	})
	check.True(t, allocs == 0, "%v allocations for each event", allocs)
	if cap(out.queue) > 16 {
		t.Errorf("room for %d events, 2 queued", cap(out.queue))
	}
}

func TestMailboxReusesItsMemory(t *testing.T) {
	box := mailbox[*int]{awake: true}
	var spare []*int
	round := func(n int) {
		for range n {
			box.put(new(int))
		}
		all, _, _ := box.take(spare)
		if len(all) != n {
			t.Fatalf("took %d, want %d", len(all), n)
		}
		spare = recycle(all)
		for _, p := range spare[:cap(spare)] {
			if p != nil {
				t.Fatal("an input is kept alive")
			}
		}
	}
	round(3)
	round(3)
	if allocs := testing.AllocsPerRun(100, func() { round(3) }); allocs > 3 {
		t.Errorf("%v allocations for three inputs, which make three", allocs)
	}
	round(10_000)
	round(1)
	if cap(spare)+cap(box.queue) > 64 {
		t.Errorf("%d+%d places are kept after a burst", cap(spare), cap(box.queue))
	}
}

func TestMailboxKeepsNothingWhenClosed(t *testing.T) {
	room := make([]*int, 0, usual)
	box := mailbox[*int]{awake: true, queue: room}
	for range usual {
		box.put(new(int))
	}
	box.close()
	for _, p := range room[:usual] {
		if p != nil {
			t.Error("an input is kept alive")
		}
	}
}
