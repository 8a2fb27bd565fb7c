package actors

// Contain calls f on a goroutine of its own and waits for it, so that a function of the user cannot
// end an actor. It returns the value of f's panic, if any, and whether f returned. If f neither
// returned nor panicked, it called runtime.Goexit.
func Contain(f func()) (panicked any, returned bool) {
	type end struct {
		panicked any
		returned bool
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			e.panicked = recover()
			ended <- e
		}()
		f()
		e.returned = true
	}()
	e := <-ended
	return e.panicked, e.returned
}
