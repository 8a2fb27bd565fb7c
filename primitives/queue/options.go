package queue

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/taking"
	"github.com/zkactors/zkactors/session"
)

// Errors of queues, beside those of package session.
var (
	// ErrLayout means that there is a node at the path, or below it, that no queue with this layout
	// has made. A [Flat] looks whenever it lists its items, the others when they are used for the
	// first time, and at the claim of an item that stays claimed for a minute. Neither Curator's
	// queues nor kazoo's look for nodes of ours: kazoo's Queue takes every node that it finds at
	// its path, whatever its name.
	ErrLayout = layout.ErrForeign

	// ErrForeign means that the path belongs to another recipe, which the error names. The error
	// wraps [ErrLayout], too.
	ErrForeign = nodes.ErrForeign

	// ErrNotClaimed means that the item is not claimed by this delivery any more: it is
	// acknowledged or rejected, or it went back because the consumer was closed, or its session
	// expired.
	ErrNotClaimed = errors.New("not claimed")

	// ErrEmpty means that there is no item that could be taken.
	ErrEmpty = taking.ErrEmpty

	// ErrFull means that there is no room for the items: see [Options.MaxItems].
	ErrFull = filing.ErrFull

	// ErrDuplicate means that an item was put with the same key before: see [Queue.PutOnce].
	ErrDuplicate = errors.New("an item was put with this key before")

	// ErrNotDead means that an item is not among the dead letters that could be moved or purged.
	ErrNotDead = errors.New("not a dead letter")

	// ErrClosed means that the queue or the consumer is closed.
	ErrClosed = receipt.ErrClosed
)

// Options are optional parameters for [New] and [NewPriority]. A nil *Options is equivalent to a
// zero Options.
type Options struct {
	// Ephemeral makes items that are deleted when the session of their producer ends.
	Ephemeral bool

	// MaxAttempts is the number of times that readers of [Queue.Consume] receive an item. An item
	// that was rejected, or not acknowledged, that many times moves to the queue at DeadLetter. The
	// default is 30, which takes about 20 minutes with the default [Backoff]. If it is negative,
	// there is no limit.
	MaxAttempts int

	// DeadLetter is the path of the queue of the dead letters. The default is the child "dead" of
	// the queue's path.
	DeadLetter string

	// Backoff is the delay of rejected items in [Queue.Run], and by default in [Queue.Consume]; see
	// [Item.Reject].
	Backoff Backoff

	// MaxItems limits the number of items, including claimed items. If all handles have the same
	// bound, there are never more items, whatever the producers do at the same time. Handles of
	// consumers need it too: otherwise a count can miss an item while a rejection moves it. Dead
	// letters are moved to a queue whether or not it is full. The default is no bound.
	//
	// Producers are served in the order of arrival, those of one handle as one. Put waits for room,
	// in line. As long as a producer stands in line, no other puts: the first gets as many places
	// as its call has items. With RefuseWhenFull, Put fails with [ErrFull] if there is no room
	// beside what the line wants. Any Put does if the call has more items than MaxItems.
	MaxItems       int
	RefuseWhenFull bool

	// KeepKeys is the time for which [Queue.PutOnce] remembers the ID of an item. It must be the
	// same for all producers, and longer than the timeouts of their sessions. The default is 10
	// minutes.
	KeepKeys time.Duration
}

// The defaults of Options.MaxAttempts and Options.KeepKeys.
const (
	defaultAttempts = 30
	defaultKeepKeys = 10 * time.Minute
)

// defaults returns the options with their defaults filled in.
func (o Options) defaults(path string) Options {
	o.MaxAttempts = cmp.Or(o.MaxAttempts, defaultAttempts)
	o.KeepKeys = cmp.Or(o.KeepKeys, defaultKeepKeys)
	o.DeadLetter = cmp.Or(o.DeadLetter, znode.Join(path, layout.DeadDir))
	return o
}

// validate refuses invalid options, before any I/O.
func validate(s *session.Session, path string, o Options) error {
	return client.Validate(recipe, s, func() error {
		return errors.Join(client.CheckPlace(s, "queue", "path", path, "a queue"), o.validate(s, path))
	})
}

// validate refuses options that contradict each other.
func (o Options) validate(s *session.Session, path string) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf("queue: "+format, args...)) }
	switch {
	case o.DeadLetter != "":
		errs = append(errs, client.CheckPlace(s, "queue", "Options.DeadLetter", o.DeadLetter, "a queue"))
		if o.DeadLetter != znode.Join(path, layout.DeadDir) && (strings.HasPrefix(o.DeadLetter+"/", path+"/") || strings.HasPrefix(path+"/", o.DeadLetter+"/")) {
			refuse("Options.DeadLetter: %w %q: one queue is within the other", session.ErrInvalidPath, o.DeadLetter)
		}
	}
	switch {
	case o.MaxItems < 0:
		refuse("Options.MaxItems: %w: %d is negative", session.ErrInvalidArgument, o.MaxItems)
	case o.MaxItems == 0 && o.RefuseWhenFull:
		refuse("Options.RefuseWhenFull: %w: it needs MaxItems", session.ErrInvalidArgument)
	}
	if o.KeepKeys < 0 {
		refuse("Options.KeepKeys: %w: %v is negative", session.ErrInvalidArgument, o.KeepKeys)
	}
	if err := o.Backoff.validate("Options"); err != nil {
		refuse("%w", err)
	}
	return errors.Join(errs...)
}
