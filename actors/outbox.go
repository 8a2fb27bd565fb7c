package actors

import "slices"

// An outbox queues events for a reader that may be slow. Until events have a reader it
// has only the newest, and those before that as long as keep says so. When there is nothing to send
// it yields a nil channel, so that its case in a select is never ready.
type outbox[T any] struct {
	ch     chan T // has room for one, and no other sender; nil until events have a reader
	merge  func(last, next T) (T, bool)
	cancel func(last, next T) bool
	keep   func(earlier, next T) bool

	queue []T
	head  int // of the queue: what comes before it has been sent
}

func (o *outbox[T]) len() int { return len(o.queue) - o.head }

// put queues v, or folds it into the newest event, if that was not received.
func (o *outbox[T]) put(v T) {
	o.reclaim()
	if o.len() == 0 {
		o.push(v)
		return
	}
	last := &o.queue[len(o.queue)-1]
	if o.merge != nil {
		if merged, ok := o.merge(*last, v); ok {
			*last = merged
			return
		}
	}
	switch {
	case o.ch == nil:
		o.replace(v)
	case o.cancel != nil && o.cancel(*last, v):
		clear(o.queue[len(o.queue)-1:])
		o.queue = o.queue[:len(o.queue)-1]
		o.rewind()
	default:
		o.push(v)
	}
}

// replace has v follow the events that stay before it, and drops the others. There is no reader. If v undoes
// one of them, both are dropped, but for v where no event stays: a reader that comes begins with something.
func (o *outbox[T]) replace(v T) {
	undone := false
	o.queue = slices.DeleteFunc(o.queue, func(earlier T) bool {
		if o.cancel != nil && o.cancel(earlier, v) {
			undone = true
			return true
		}
		return o.keep == nil || !o.keep(earlier, v)
	})
	if !undone || len(o.queue) == 0 {
		o.push(v)
	}
}

// reclaim takes the newest event back from the channel, if it is still there: events
// that were not received may be merged.
func (o *outbox[T]) reclaim() {
	if o.len() > 0 {
		return // the newest one is in the queue
	}
	select {
	case v := <-o.ch:
		o.push(v)
	default:
	}
}

// push appends v, in the place of events that have been sent if it can.
func (o *outbox[T]) push(v T) {
	if o.head > 0 && o.head >= cap(o.queue)/2 && len(o.queue) == cap(o.queue) {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
	o.queue = push(o.queue, v)
}

// next returns what to send, and where.
func (o *outbox[T]) next() (chan<- T, T) {
	if o.len() == 0 {
		var zero T
		return nil, zero
	}
	return o.ch, o.queue[o.head]
}

// pop removes what next returned, which has been sent.
func (o *outbox[T]) pop() {
	clear(o.queue[o.head : o.head+1])
	o.head++
	o.rewind()
}

// rewind starts an empty queue from the beginning.
func (o *outbox[T]) rewind() {
	if o.len() == 0 {
		o.queue, o.head = recycle(o.queue), 0
	}
}

// delivered reports whether nothing remains but what the channel can hold when no more
// is sent.
func (o *outbox[T]) delivered() bool { return o.ch == nil || o.len() == 0 }

// last leaves nothing but the newest event in the channel that the reader has, and closes it.
func (o *outbox[T]) last(ch chan T) {
	if o.len() > 0 {
		select {
		case <-ch:
		default:
		}
		ch <- o.queue[len(o.queue)-1]
	}
	clear(o.queue)
	close(ch)
}
