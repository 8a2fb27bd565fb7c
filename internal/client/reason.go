package client

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// A Reason is the error with which a handle has ended. Methods of the handle read it, and its actor
// sets it. The zero Reason has no error.
type Reason struct {
	mu  sync.Mutex
	err error
}

// Set sets the error.
func (r *Reason) Set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Err returns the error that was set last.
func (r *Reason) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Wrap explains an error, and puts the place where it happened before it. Without an error it
// returns nil, and allocates nothing.
func Wrap(s Session, err error, where ...string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(where, ""), s.Explain(err))
}

// Because returns the error, and wraps the reason too if it is not nil.
func Because(err, why error) error {
	if why == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// Told returns the text of an event, with its reason if it has one.
func Told(event string, why error) string {
	if why == nil {
		return event
	}
	return event + ": " + why.Error()
}

// Print prints the String of a value, whatever the verb is. It is for the method Format of the
// value.
func Print(f fmt.State, what fmt.Stringer) { _, _ = io.WriteString(f, what.String()) }
