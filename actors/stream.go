package actors

// A Stream delivers events from any number of writers, none of which ever
// waits, to one reader that may be slow. It is safe for concurrent use, and
// must be closed.
type Stream[Ev any] struct {
	actor *Actor[item[Ev], Ev]
}

// NewStream returns a stream. Its goroutine is labelled with name. If merge is nil, every event is
// delivered. Otherwise merge may fold next into last, the newest event that has not been received
// yet.
func NewStream[Ev any](name string, merge func(last, next Ev) (merged Ev, ok bool)) *Stream[Ev] {
	s := &Stream[Ev]{
		actor: Start(pipe[Ev]{}, Role[pipe[Ev], item[Ev], none, Ev]{
			Name:  name,
			Stop:  item[Ev]{end: true},
			Merge: merge,
		}),
	}
	s.actor.Events() // the maker of a stream wants all of it
	return s
}

// Put queues an event, unless the stream has ended. It never blocks.
func (s *Stream[Ev]) Put(ev Ev) {
	_ = s.actor.Tell(item[Ev]{emit: []Ev{ev}}) // too late is not an error
}

// End queues the last events, and ends the stream: the channel is closed when
// they have been received. It never blocks.
func (s *Stream[Ev]) End(last ...Ev) {
	_ = s.actor.Tell(item[Ev]{emit: last, end: true}) // too late is not an error
}

// Events returns the channel of events. The channel is closed after the last event: receive with
// "ev, ok := <-events", because a select over a closed channel spins.
func (s *Stream[Ev]) Events() <-chan Ev { return s.actor.Events() }

// Ended returns a channel that is closed when the stream has ended, whether or
// not its events have been read.
func (s *Stream[Ev]) Ended() <-chan struct{} { return s.actor.Ended() }

// Close ends the stream, and waits until its goroutine is gone. Events that are undelivered by then
// are discarded, except for the last one. Close may be called any number of times.
func (s *Stream[Ev]) Close() { s.actor.Close() }

// An item is an input of a stream.
type item[Ev any] struct {
	emit []Ev
	end  bool
}

// A pipe is the machine of a stream.
type pipe[Ev any] struct{ ended bool }

// none is the type of a pipe's effects; it has none.
type none struct{}

// Step implements [Machine].
func (p pipe[Ev]) Step(in item[Ev], out *Effects[none, Ev]) pipe[Ev] {
	out.Emit = append(out.Emit, in.emit...)
	return pipe[Ev]{ended: in.end}
}

// Ended implements [Machine].
func (p pipe[Ev]) Ended() bool { return p.ended }
