// Package fifo has a queue that reuses its memory.
package fifo

// A Queue returns what was pushed first, first. The zero queue is empty.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push appends an item.
func (q *Queue[T]) Push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// maxKept is how many items the memory of an empty queue has room for.
const maxKept = 2048

// Pop takes the oldest item; the queue is not empty.
func (q *Queue[T]) Pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > maxKept {
			q.items = nil
		}
	}
	return v
}

// All returns the items, the oldest first.
func (q *Queue[T]) All() []T { return q.items[q.head:] }

// Set replaces the items.
func (q *Queue[T]) Set(items []T) { q.items, q.head = items, 0 }
