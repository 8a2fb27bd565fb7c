package actors

// Contain calls f on a goroutine of its own and waits for it: for functions of users, which
// must not end an actor. It returns what f panicked with, and whether f returned: if
// not, and there is no panic, it has called runtime.Goexit.
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
