package session

// maxInFlight bounds the unanswered requests of one session, well below the
// thousand at which a server stops reading.
const maxInFlight = 512

// A fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pop takes the oldest item; the queue is not empty.
func (q *fifo[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > 4*maxInFlight {
			q.items = nil
		}
	}
	return v
}

// all returns the items, the oldest first.
func (q *fifo[T]) all() []T { return q.items[q.head:] }

// set replaces the items.
func (q *fifo[T]) set(items []T) { q.items, q.head = items, 0 }
