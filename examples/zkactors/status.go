package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// The exit statuses: those of sysexits.h. The statuses of a command that zkactors runs are those of
// env(1) and of shells.
const (
	exitNothing     = 1   // there is nothing to act on, or the answer was no
	exitUsage       = 64  // EX_USAGE
	exitUnavailable = 69  // EX_UNAVAILABLE: no server
	exitSoftware    = 70  // any other error
	exitConflict    = 75  // EX_TEMPFAIL: try again later
	exitForbidden   = 77  // EX_NOPERM
	exitFailure     = 125 // of lock and elect
	exitNoExec      = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal
)

const statusHelp = `Exit status:
    0  done
    1  there is nothing to act on, or the answer to the question was no
   64  the command line is wrong; nothing was done
   69  no server could be reached
   70  another error
   75  held by another client, empty, or timed out: try again later
   77  the servers forbid it
  130  interrupted`

// A failure is an error with an exit status.
type failure struct {
	status int
	err    error // nil if the failure needs no message
}

// Error implements the error interface.
func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprint("exit status ", f.status)
	}
	return f.err.Error()
}

// Unwrap returns the error, or nil.
func (f *failure) Unwrap() error { return f.err }

func fail(status int, format string, args ...any) error {
	return &failure{status, fmt.Errorf(format, args...)}
}

func usage(format string, args ...any) error { return fail(exitUsage, format, args...) }

var (
	errNoSession   = errors.New("there was no session within --timeout")
	errWaited      = errors.New("the time to wait is over")
	errInterrupted = errors.New("interrupted")
)

// statusOf returns the exit status for an error. A failure has its own; other errors come from the
// library.
func statusOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return 0
	case is(session.ErrNoAuth, session.ErrAuthFailed):
		return exitForbidden
	case is(session.ErrInvalidPath, session.ErrInvalidArgument): // the library refuses it before it sends anything
		return exitUsage
	case is(errInterrupted, context.Canceled):
		return exitSignal + 2
	case is(errWaited, queue.ErrEmpty, queue.ErrFull, lock.ErrHeld):
		return exitConflict
	case is(inspect.ErrGone, lock.ErrNotHeld, queue.ErrNotDead, queue.ErrDuplicate, session.ErrNoNode, barrier.ErrForeign): // which is that of each recipe
		return exitNothing
	case is(session.ErrDisconnected, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitSoftware
}

// plainWords replaces the names that arguments have in Go, by those that they have on the command
// line.
func plainWords() *strings.Replacer {
	return strings.NewReplacer(
		"Options.DeadLetter", "--dead-letter", "Options.Timeout", "--timeout", "Options.Weight", "--weight", "Options.Data", "the identity",
		"semaphore: limit", "--limit", context.DeadlineExceeded.Error(), "timed out", context.Canceled.Error(), "interrupted",
	)
}

// complain prints an error, and returns the exit status for it.
func complain(to io.Writer, err error) int {
	status := statusOf(err)
	f, ok := errors.AsType[*failure](err)
	if err == nil || ok && f.err == nil {
		return status
	}
	text := plainWords().Replace(err.Error())
	switch status {
	case exitForbidden:
		text += " (the servers forbid it: see --auth)"
	case exitUsage:
		text += " (zkactors -h explains)"
	}
	_, _ = fmt.Fprintln(to, "zkactors:", text)
	return status
}
