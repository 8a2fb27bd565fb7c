package actors

// Feed hands everything that comes out of ch to tell, and calls end when ch is closed.
// Closing ch ends the feed: after that, the closer of ch may wait for gone. Neither
// function may block. Its goroutine is labelled with name.
func Feed[T any](name string, ch <-chan T, tell func(T), end func()) (gone <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		setLabel(name)
		for v := range ch {
			tell(v)
		}
		end()
	}()
	return ended
}
