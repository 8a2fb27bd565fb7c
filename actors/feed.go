package actors

// Feed hands everything that comes out of ch to tell, and calls end when ch is closed.
// Closing ch ends the feed: after that, the closer of ch may wait for gone. Neither
// function may block. Its goroutine is labelled with name.
func Feed[T any](name string, ch <-chan T, tell func(T), end func()) (gone <-chan struct{}) {
	f := &feed[T]{name: name, ch: ch, tell: tell, end: end, gone: make(chan struct{})}
	go f.run()
	return f.gone
}

// A feed is the state of the goroutine of [Feed].
type feed[T any] struct {
	name string
	ch   <-chan T
	tell func(T)
	end  func()
	gone chan struct{}
}

func (f *feed[T]) run() {
	defer close(f.gone)
	setLabel(f.name)
	for v := range f.ch {
		f.tell(v)
	}
	f.end()
}
