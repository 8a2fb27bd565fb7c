package actors

import (
	"errors"
	"fmt"
)

// Contain calls f on a goroutine of its own and waits for it, so that a function of the user cannot
// end an actor. It returns nil if f has returned; else an error that says whether f has panicked,
// and with what, or has called [runtime.Goexit]. A panic with an error is wrapped.
func Contain(f func()) error {
	ended := make(chan error, 1)
	ContainLater(f, func(err error) { ended <- err })
	return <-ended
}

// ContainLater is Contain, but returns at once: f may never return. It calls ended, on the
// goroutine of f, with the error of Contain.
func ContainLater(f func(), ended func(error)) {
	go func() {
		err := errors.New("it called runtime.Goexit")
		defer func() {
			switch panicked := recover().(type) {
			case nil:
			case error:
				err = fmt.Errorf("it panicked: %w", panicked)
			default:
				err = fmt.Errorf("it panicked: %v", panicked)
			}
			ended(err)
		}()
		f()
		err = nil
	}()
}
