//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// run does it all, and returns what to exit with.
func run(o options) (status int, err error) {
	c, err := find(o.command)
	switch {
	case missing(err):
		return exitNotFound, err
	case err != nil:
		return exitNoExec, err
	}

	// Nobody reads these. Otherwise the one would stop lockrun, and the other end it when
	// nobody hears its last words.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGPIPE)
	deadly := slices.DeleteFunc([]os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}, signal.Ignored)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append(deadly, syscall.SIGWINCH)...)
	ctx, stop := signal.NotifyContext(context.Background(), deadly...)
	defer stop()

	s, held, err := acquire(ctx, o)
	if s != nil {
		defer s.Close()
	}
	if held != nil {
		defer held.Close()
	}
	switch {
	case ctx.Err() != nil:
		for sig := range signals {
			if slices.Contains(deadly, sig) { // which has come, or is about to
				return exitSignal + int(sig.(syscall.Signal)), err
			}
		}
	case s != nil && (errors.Is(err, lock.ErrHeld) || errors.Is(err, errWaited)):
		return o.conflict, err
	case err != nil:
		return exitFailure, err
	}

	if err := c.start(
		"ZK_LOCK_PATH="+o.lock,
		"ZK_LOCK_NODE="+held.Node(),
		fmt.Sprintf("ZK_LOCK_TOKEN=%d", held.Token()),
	); err != nil {
		return exitNoExec, err
	}
	return guard(o, c, held.Events(), signals)
}

// acquire returns the session, if there is one, and the lock, if that is held.
func acquire(ctx context.Context, o options) (*session.Session, *lock.Lock, error) {
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.wait, errWaited)
		defer cancel()
	}
	atOnce, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	s, err := session.Open(atOnce, o.servers, &session.Options{Timeout: o.timeout, Chroot: o.chroot})
	if err != nil {
		return nil, nil, err
	}
	host, _ := os.Hostname() // it is for people to see
	opts := &lock.Options{Data: fmt.Appendf(nil, "%s:%d %s", host, os.Getpid(), o.command[0])}
	acquire, try := lock.Acquire, lock.TryAcquire
	if o.shared {
		acquire, try = lock.AcquireRead, lock.TryAcquireRead
	}
	if o.try {
		acquire, ctx = try, atOnce
	}
	held, err := acquire(ctx, s, o.lock, opts)
	return s, held, err
}

var (
	errWaited       = errors.New("the time to wait is over")
	errDisconnected = errors.New("the connection is lost, and the lock will be: the command had to end")
	errRevoked      = errors.New("somebody else asks for the lock: the command had to end")
)

// guard waits until the command has ended, and sees to it that it does not outlive the lock.
func guard(o options, c *command, events <-chan lock.Event, signals <-chan os.Signal) (status int, err error) {
	var terminate, kill, force <-chan time.Time
	var ended error          // why it was not for the command to say when
	margin := o.timeout / 20 // a signal takes effect a little later than it is sent
	end := func(sig syscall.Signal, why error) {
		c.signal(sig)
		ended = cmp.Or(ended, why)
	}
	for {
		select {
		case <-c.exited:
			c.signal(syscall.SIGKILL) // what it has left behind
			if status = c.status(); status == 0 && ended != nil {
				status = exitFailure
			}
			return status, ended
		case sig := <-signals:
			c.signal(sig.(syscall.Signal))
		case ev := <-events:
			switch ev := ev.(type) {
			case lock.Suspended:
				if !o.overlap {
					left := time.Until(ev.Deadline) - margin
					terminate, kill = time.After(left-o.grace), time.After(left)
				}
			case lock.Resumed:
				terminate, kill = nil, nil
			case lock.Revoked:
				end(syscall.SIGTERM, errRevoked)
				if !ev.Deadline.IsZero() && !o.overlap {
					force = time.After(time.Until(ev.Deadline) - margin)
				}
			case lock.Lost:
				events, terminate = nil, nil // it was the last
				if o.overlap {
					end(syscall.SIGTERM, ev.Err)
					kill = time.After(o.grace)
				} else {
					end(syscall.SIGKILL, ev.Err)
				}
			case lock.Waiting, lock.Acquired, lock.Released: // are no news
			}
		case <-terminate:
			end(syscall.SIGTERM, errDisconnected)
		case <-kill:
			end(syscall.SIGKILL, errDisconnected)
		case <-force:
			end(syscall.SIGKILL, errRevoked)
		}
	}
}
