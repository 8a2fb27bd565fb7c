// Package procedure runs the machine of one command as an actor would, but without a goroutine: a
// step runs where its input comes from, which is the session or the caller.
package procedure

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// None is the event of machines that have no reader.
type None struct{}

// A Procedure is a machine that runs. Tell is its mailbox.
type Procedure[M actors.Machine[M, In, Do, None], In, Do any] struct {
	perform func(do Do, answer func(In))

	mu       sync.Mutex
	machine  M
	out      actors.Effects[Do, None]
	mail     []In
	stepping bool // set while a step or its effects are under way. While set, inputs wait in mail
}

// New returns a procedure that waits for its first input.
func New[M actors.Machine[M, In, Do, None], In, Do any](m M, perform func(do Do, answer func(In))) *Procedure[M, In, Do] {
	return &Procedure[M, In, Do]{machine: m, perform: perform}
}

// Run is New, with a first input.
func Run[M actors.Machine[M, In, Do, None], In, Do any](m M, perform func(do Do, answer func(In)), first In) *Procedure[M, In, Do] {
	p := New(m, perform)
	p.Tell(first)
	return p
}

// Tell gives the machine an input. It never blocks.
func (p *Procedure[M, In, Do]) Tell(in In) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mail = append(p.mail, in)
	if p.stepping {
		return
	}
	p.stepping = true
	for len(p.mail) > 0 {
		next := p.mail[0]
		p.mail = p.mail[1:]
		p.out.Do = p.out.Do[:0]
		p.machine = p.machine.Step(next, &p.out)
		p.mu.Unlock()
		for _, do := range p.out.Do {
			p.perform(do, p.Tell)
		}
		p.mu.Lock()
	}
	p.stepping = false
}

// ErrAbandoned is the answer to a command whose caller has left it.
var ErrAbandoned = errors.New("abandoned")

// Abandoned is the answer to a command that was left, and may be done all the same if there is
// doubt.
func Abandoned(doubt bool) error {
	if doubt {
		return fmt.Errorf("%w: %w", session.ErrUnknownOutcome, ErrAbandoned)
	}
	return ErrAbandoned
}

// Await waits until the procedure that begin starts calls done. When ctx ends it abandons the
// command.
func Await(ctx context.Context, begin func(done func(error)) (abandon func())) error {
	if err := client.Usable(ctx); err != nil {
		return err
	}
	answered := make(chan error, 1)
	abandon := begin(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
	}
	abandon()
	switch err := <-answered; {
	case !errors.Is(err, ErrAbandoned):
		return err
	case session.InDoubt(err):
		return fmt.Errorf("%w: %w", session.ErrUnknownOutcome, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// AwaitAnswer is Await for a command that goes on when its caller has left it.
func AwaitAnswer(ctx context.Context, begin func(done func(error))) error {
	return Await(ctx, func(done func(error)) func() {
		var once sync.Once
		end := func(err error) { once.Do(func() { done(err) }) }
		begin(end)
		return func() { end(ErrAbandoned) }
	})
}

// Passes reports whether to repeat a request of the epoch that failed.
func Passes(epoch int, err error) bool {
	return session.Passing(err) && (epoch == 0 || !errors.Is(err, session.ErrExpired))
}
