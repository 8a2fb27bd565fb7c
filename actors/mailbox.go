package actors

import "sync"

// A mailbox is a queue of inputs from any number of goroutines, none of which ever waits. It also
// carries the news that events are wanted, or only the last one. News starts a goroutine, unless
// there is one.
type mailbox[T any] struct {
	begin func() // starts a goroutine

	mu      sync.Mutex
	queue   []T
	news    bool          // set by each input and other news, cleared by take
	awake   bool          // set while there is a goroutine
	ready   chan struct{} // made by watch; holds a value while there may be news
	wanted  bool
	closing bool
	closed  bool // takes no more inputs
}

// usual is the number of inputs for which an actor has memory of its own.
const usual = 3

// put queues v. It reports false if the mailbox is closed.
func (b *mailbox[T]) put(v T) bool {
	queued, asleep := b.queued(v)
	if asleep {
		b.begin()
	}
	return queued
}

// queued queues v, and starts no goroutine. It reports whether v is in the queue, and whether there
// was no goroutine; then the caller's goroutine has to do the work.
func (b *mailbox[T]) queued(v T) (queued, asleep bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, false
	}
	b.queue = push(b.queue, v)
	return true, b.note()
}

// want notes that events are wanted.
func (b *mailbox[T]) want() {
	b.mu.Lock()
	b.wanted = true
	b.tell()
}

// stop queues v, the first time only, and notes that only the last event is wanted.
func (b *mailbox[T]) stop(v T) {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return
	}
	b.closing = true
	b.queue = push(b.queue, v)
	b.tell()
}

// tell notes that there is news, unlocks the mailbox, and starts a goroutine if there is none.
func (b *mailbox[T]) tell() {
	asleep := b.note()
	b.mu.Unlock()
	if asleep {
		b.begin()
	}
}

// note notes that there is news. It reports whether there was no goroutine: then the caller has to
// start one. The mailbox is locked.
func (b *mailbox[T]) note() (asleep bool) {
	asleep = !b.awake
	b.news, b.awake = true, true
	if b.ready != nil {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
	return asleep
}

// watch returns a channel with a value if there is news, or as soon as there is.
func (b *mailbox[T]) watch() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready == nil {
		b.ready = make(chan struct{}, 1)
		if b.news {
			b.ready <- struct{}{}
		}
	}
	return b.ready
}

// rest reports whether there is no news. Then the goroutine ends, and the next news starts another.
func (b *mailbox[T]) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news {
		return false
	}
	b.awake = false
	return true
}

// take empties the mailbox. Its queue continues in the memory of spare.
func (b *mailbox[T]) take(spare []T) (all []T, wanted, closing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.queue, b.news = b.queue, spare, false
	return all, b.wanted, b.closing
}

// close drops the inputs, and all later ones.
func (b *mailbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.queue)
	b.closed, b.queue = true, nil
}

// push appends v to s. If s outgrows its memory, push clears the old memory, which an actor keeps.
func push[T any](s []T, v T) []T {
	longer := append(s, v)
	if len(s) == cap(s) {
		clear(s)
	}
	return longer
}

// recycle empties s for further use. It gives up the memory of an unusually long slice.
func recycle[T any](s []T) []T {
	const keep = 32
	if cap(s) > keep {
		return nil
	}
	clear(s)
	return s[:0]
}
