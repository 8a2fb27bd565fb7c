package actors

// Feed hands everything that comes out of ch to tell, and calls end when ch is closed,
// which is what ends it: whoever closes the source of ch may then wait for gone. Neither
// function may block. Its goroutine is labelled with name.
func Feed[T any](name string, ch <-chan T, tell func(T), end func()) (gone <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		label(name)
		for v := range ch {
			tell(v)
		}
		end()
	}()
	return done
}
