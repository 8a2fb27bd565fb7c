// Package paused is Jepsen's test of locks, with holders that are paused for longer than their
// sessions live. A holder acquires the lock, reads a set of numbers, pauses, adds a number of its
// own, and writes the set back. There are two sets: one is written without more, the other in a
// transaction with the guard of the grant.
//
// No lock over leases can keep a paused process from believing in its grant. So numbers of the
// first set get lost, whatever the lock is: the paused holder writes an old set over a newer one.
// Of the second set none get lost, because the servers refuse that write.
package paused

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

const (
	lockPath = "/paused/lock"
	plain    = "/paused/without"
	guarded  = "/paused/guarded"
)

// Prepare creates the sets, which are empty.
func Prepare(ctx context.Context, s *session.Session) error {
	if err := s.EnsurePath(ctx, lockPath); err != nil {
		return err
	}
	for _, path := range []string{plain, guarded} {
		if _, err := s.Create(ctx, path, []byte("[]"), session.Persistent); err != nil {
			return err
		}
	}
	return nil
}

// An Addition says which of the writes of a number were acknowledged.
type Addition struct {
	Number         int
	Plain, Guarded bool
}

// Add adds a number to both sets, as a holder that does not look whether it still holds: a process
// that is paused right before its write has no chance to.
func Add(ctx context.Context, s *session.Session, number int, pause func()) (a Addition, err error) {
	a.Number = number
	l, err := lock.New(s, lockPath, nil)
	if err != nil {
		return a, err
	}
	defer l.Close()
	if err := await(ctx, l); err != nil {
		return a, err
	}
	first, err := read(ctx, s, plain)
	if err != nil {
		return a, err
	}
	second, err := read(ctx, s, guarded)
	if err != nil {
		return a, err
	}
	guard := l.Guard()
	pause()
	plainErr := set(ctx, s, text(append(first, number)))
	_, guardedErr := s.Multi(ctx, guard, session.SetOp(guarded, text(append(second, number)), session.AnyVersion))
	a.Plain, a.Guarded = plainErr == nil, guardedErr == nil
	return a, nil
}

// set writes the set without a guard. A client whose session has ended meanwhile writes again in
// the next, as code does that only wants its write to be done.
func set(ctx context.Context, s *session.Session, data []byte) error {
	const tries = 10
	var err error
	for range tries {
		if _, err = s.Set(ctx, plain, data, session.AnyVersion); err == nil || session.InDoubt(err) || s.Await(ctx) != nil {
			break
		}
	}
	return err
}

// await waits for the grant.
func await(ctx context.Context, l *lock.Lock) error {
	events := l.Events()
	for {
		select {
		case ev, more := <-events:
			if _, granted := ev.(lock.Acquired); granted {
				return nil
			}
			if !more {
				return errors.New("lost before it was granted")
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func read(ctx context.Context, s *session.Session, path string) (set []int, err error) {
	data, _, err := s.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, nil
}

func text(set []int) []byte {
	data, _ := json.Marshal(set) // numbers can be encoded
	return data
}

// A Column is the result for one of the sets.
type Column struct {
	Acknowledged, Lost int // Lost were acknowledged, and are not in the set at the end
}

// A Result has both.
type Result struct{ Plain, Guarded Column }

// Judge reads both sets at the end.
func Judge(ctx context.Context, s *session.Session, all []Addition) (r Result, err error) {
	first, err := read(ctx, s, plain)
	if err != nil {
		return r, err
	}
	second, err := read(ctx, s, guarded)
	if err != nil {
		return r, err
	}
	for _, a := range all {
		r.Plain.count(a.Plain, first, a.Number)
		r.Guarded.count(a.Guarded, second, a.Number)
	}
	return r, nil
}

func (c *Column) count(acknowledged bool, set []int, number int) {
	if !acknowledged {
		return
	}
	c.Acknowledged++
	if !slices.Contains(set, number) {
		c.Lost++
	}
}
