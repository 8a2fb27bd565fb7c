package actors

import "sync"

// A mailbox is a queue of inputs from any number of goroutines, none of which ever
// waits. Beside the inputs it tells the loop that events have a reader, or that only
// the last one is wanted.
type mailbox[T any] struct {
	ready chan struct{} // holds a value while there is news

	mu      sync.Mutex
	queue   []T
	wanted  bool
	closing bool
	closed  bool // takes no more inputs
}

// usual is for how many inputs an actor has memory of its own.
const usual = 3

// put queues v. It reports false if the mailbox is closed.
func (b *mailbox[T]) put(v T) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.queue = push(b.queue, v)
	b.mu.Unlock()
	b.wake()
	return true
}

// want says that events have a reader.
func (b *mailbox[T]) want() {
	b.mu.Lock()
	news := !b.wanted
	b.wanted = true
	b.mu.Unlock()
	if news {
		b.wake()
	}
}

// stop queues v, the first time only, and says that no more than the last event is
// wanted.
func (b *mailbox[T]) stop(v T) {
	b.mu.Lock()
	news := !b.closing
	b.closing = true
	if news {
		b.queue = push(b.queue, v)
	}
	b.mu.Unlock()
	if news {
		b.wake()
	}
}

func (b *mailbox[T]) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take empties the mailbox, whose queue goes on in the memory of spare.
func (b *mailbox[T]) take(spare []T) (all []T, wanted, closing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.queue = b.queue, spare
	return all, b.wanted, b.closing
}

// close drops the inputs, and all that are to come.
func (b *mailbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.queue)
	b.closed, b.queue = true, nil
}

// push appends v to s, and empties the memory that s outgrows, which an actor keeps.
func push[T any](s []T, v T) []T {
	longer := append(s, v)
	if len(s) == cap(s) {
		clear(s)
	}
	return longer
}

// recycle empties s for further use. The memory of an uncommonly long one is
// given back.
func recycle[T any](s []T) []T {
	const keep = 32
	if cap(s) > keep {
		return nil
	}
	clear(s)
	return s[:0]
}
