package actors

import "slices"

// An outbox queues events for a reader that may be slow. Until there is a reader, it has the newest
// event, and older ones as long as keep says so. When there is nothing to send, it yields a nil
// channel, so that its case in a select is never ready.
type outbox[T any] struct {
	ch     chan T // has room for one, and no other sender; nil until events have a reader
	merge  func(last, next T) (T, bool)
	cancel func(last, next T) bool
	keep   func(earlier, next T) bool

	queue []T
	head  int // index in queue; the events before it have been sent
}

func (o *outbox[T]) len() int { return len(o.queue) - o.head }

// put queues v, or folds it into the newest event if that has not been received.
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

// replace appends v to the events that stay before it, and drops the others. There is no reader. If
// v undoes one of the events, both are dropped. But if no event would be left, v stays, so that a
// later reader begins with an event.
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

// reclaim takes the newest event back from the channel if it is still there, because an event that
// has not been received may be merged.
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

// push appends v. It reuses the memory of events that have been sent, if it can.
func (o *outbox[T]) push(v T) {
	if o.head > 0 && o.head >= cap(o.queue)/2 && len(o.queue) == cap(o.queue) {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
	o.queue = push(o.queue, v)
}

// next returns the next event, and the channel for it.
func (o *outbox[T]) next() (chan<- T, T) {
	if o.len() == 0 {
		var zero T
		return nil, zero
	}
	return o.ch, o.queue[o.head]
}

// pop removes the event that next returned: it has been sent.
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

// delivered reports whether the channel can hold all that remains.
func (o *outbox[T]) delivered() bool { return o.ch == nil || o.len() == 0 }

// last leaves only the newest event in the reader's channel, and closes it.
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
