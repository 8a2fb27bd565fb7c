package actors

import (
	"slices"
	"sync"
)

// A Shelf hands values to readers, one at a time, in the order of the values: a later value may be
// received earlier. It is safe for concurrent use, and must be closed.
type Shelf[T any] struct {
	before func(a, b T) bool
	taken  func(T)
	out    chan T
	wake   chan struct{} // holds a value when the values have changed
	gone   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	values  []T
	recalls []recall[T] // that the goroutine has to answer
	clears  int         // counts the calls of Clear
	closed  bool
	ended   bool // set when the goroutine answers no more
}

// A recall is a call of Recall.
type recall[T any] struct {
	match  func(T) bool
	answer func(ok bool)
}

// NewShelf returns an empty shelf. Its goroutine is labelled with name. Readers receive the values
// in the order of before, equal ones in the order of Put. taken is called with each value that was
// received, and must not block.
func NewShelf[T any](name string, before func(a, b T) bool, taken func(T)) *Shelf[T] {
	s := &Shelf[T]{before: before, taken: taken, out: make(chan T), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	go s.run(name)
	return s
}

// Values returns the channel of the values, which is always the same one. It is closed after Close:
// receive with "value, ok := <-values", because a select over a closed channel spins.
func (s *Shelf[T]) Values() <-chan T { return s.out }

// Put adds a value, behind the values that it does not precede. It never blocks.
func (s *Shelf[T]) Put(v T) {
	s.mu.Lock()
	i := len(s.values)
	for i > 0 && s.before(v, s.values[i-1]) {
		i--
	}
	s.values = slices.Insert(s.values, i, v)
	s.mu.Unlock()
	s.poke()
}

// Clear takes back all values that have not been received. A value that a reader is receiving at
// the same time may still reach it.
func (s *Shelf[T]) Clear() {
	s.mu.Lock()
	s.values = nil
	s.clears++
	s.mu.Unlock()
	s.poke()
}

// Recall takes back the first value that matches, and answers true. If there is none, or if a
// reader has received it, it answers false, after taken was called with the value. Recall never
// blocks; match and answer must not either.
func (s *Shelf[T]) Recall(match func(T) bool, answer func(ok bool)) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.recalls = append(s.recalls, recall[T]{match, answer})
	}
	s.mu.Unlock()
	if ended {
		answer(false)
		return
	}
	s.poke()
}

// Stop takes back all values, as Close does, and does not wait.
func (s *Shelf[T]) Stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.poke()
}

// Close takes back all values, closes the channel, and waits until the goroutine is gone. No value
// is received after that. It may be called any number of times.
func (s *Shelf[T]) Close() {
	s.Stop()
	<-s.gone
}

func (s *Shelf[T]) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Shelf[T]) run(name string) {
	defer close(s.gone)
	defer close(s.out)
	setLabel(name)
	for {
		s.answerRecalls()
		s.mu.Lock()
		var out chan<- T
		var head T
		if len(s.values) > 0 {
			out, head = s.out, s.values[0]
			s.values = s.values[1:]
		}
		clears, closed := s.clears, s.closed
		s.ended = closed
		s.mu.Unlock()
		if closed {
			s.answerRecalls()
			return
		}
		select {
		case out <- head:
			s.taken(head)
		case <-s.wake:
			if out != nil {
				s.putBack(head, clears)
			}
		}
	}
}

// answerRecalls answers the recalls. No value is offered meanwhile.
func (s *Shelf[T]) answerRecalls() {
	s.mu.Lock()
	recalls := s.recalls
	s.recalls = nil
	found := make([]bool, len(recalls))
	for i, r := range recalls {
		if at := slices.IndexFunc(s.values, r.match); at >= 0 && !s.closed {
			s.values = slices.Delete(s.values, at, at+1)
			found[i] = true
		}
	}
	s.mu.Unlock()
	for i, r := range recalls {
		r.answer(found[i])
	}
}

// putBack puts back a value that was offered and not received, unless it was cleared meanwhile.
func (s *Shelf[T]) putBack(v T, clears int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clears != clears {
		return
	}
	s.values = slices.Insert(s.values, 0, v)
	for i := 1; i < len(s.values) && s.before(s.values[i], v); i++ {
		s.values[i-1], s.values[i] = s.values[i], s.values[i-1]
	}
}
