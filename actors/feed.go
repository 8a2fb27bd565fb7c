package actors

// Feed calls tell with every value received from ch, and end when ch is closed. Close ch to end the
// feed; after that you may wait for gone. Neither function may block. The goroutine of the feed is
// labelled with name.
func Feed[T any](name string, ch <-chan T, tell func(T), end func()) (gone <-chan struct{}) {
	refuseNil(tell == nil, "Feed: tell")
	refuseNil(end == nil, "Feed: end")
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
