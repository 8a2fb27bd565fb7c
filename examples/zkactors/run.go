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

// run acquires, runs the command, and releases.
func (r *runner) run(ctx context.Context) error {
	c, err := find(r.command)
	switch {
	case missing(err):
		return &failure{exitNotFound, err}
	case err != nil:
		return &failure{exitNoExec, err}
	}

	// Notify, without a reader, makes both signals harmless. SIGTSTP would stop zkactors, and a
	// stopped process cannot keep a lock. SIGPIPE would end it when its standard error has no
	// reader.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGPIPE)
	deadly := slices.DeleteFunc([]os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}, signal.Ignored)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append(deadly, syscall.SIGWINCH)...)
	acquiring, stop := signal.NotifyContext(ctx, deadly...)
	defer stop()

	s, held, err := r.acquire(acquiring)
	if s != nil {
		defer s.Close()
	}
	if held != nil {
		defer held.close()
	}
	switch {
	case acquiring.Err() != nil:
		for sig := range signals {
			if slices.Contains(deadly, sig) { // the signal that ended acquiring is here, or will be soon
				return &failure{exitSignal + int(sig.(syscall.Signal)), cmp.Or(err, context.Cause(acquiring))}
			}
		}
	case err != nil && s != nil && conflicts(err):
		return &failure{r.conflict, err}
	case err != nil && statusOf(err) == exitSoftware:
		return &failure{exitFailure, err}
	case err != nil:
		return err
	}

	if err := c.start(held.env(held.grant)...); err != nil {
		return &failure{exitNoExec, err}
	}
	status, err := r.guard(c, held.news, signals)
	if status == 0 && err == nil {
		return nil
	}
	return &failure{status, err}
}

// acquire returns the session, which may be there also after an error, and the tenancy.
func (r *runner) acquire(ctx context.Context) (*session.Session, *tenancy, error) {
	ctx, cancel := waiting(ctx, r.wait)
	defer cancel()
	s, err := r.open(ctx)
	if errors.Is(err, errWaited) {
		err = fail(exitUnavailable, "%s: no server could be reached: %w", r.connect, err)
	}
	if err != nil {
		return nil, nil, err
	}
	held, err := r.begin(s)
	if err != nil {
		return s, nil, err
	}
	if r.try {
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	if err := r.await(ctx, s, held); err != nil {
		held.close()
		return s, nil, r.explain(ctx, s, err)
	}
	return s, held, nil
}

// explain adds the holders to an error that means that another client holds the lock.
func (r *runner) explain(ctx context.Context, s *session.Session, err error) error {
	if !conflicts(err) {
		return err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	path, holders, _ := r.firstHeld(asking, s)
	if holders != "" {
		return fmt.Errorf("%s: %w: %s", path, err, holders)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// await waits for the grant, and reports the holders in the meantime.
func (r *runner) await(ctx context.Context, s *session.Session, held *tenancy) error {
	asking, stop := context.WithCancel(ctx)
	reports := make(chan string)
	said, underWay, due := "", false, false
	report := func() {
		underWay, due = true, false
		go func(said string) { reports <- r.report(asking, s, said) }(said)
	}
	defer func() {
		stop()
		if underWay {
			<-reports
		}
	}()
	for {
		select {
		case n, ok := <-held.news:
			switch {
			case !ok:
				return session.ErrClosed
			case n.what == granted:
				held.grant = n
				return nil
			case n.what == lost: // before it was granted
				return fmt.Errorf("could not acquire: %w", n.err)
			case r.try && n.what == waits:
				return lock.ErrHeld
			case r.quiet:
				continue
			}
			if due = underWay; !due { // a report in progress may show the state before this event
				report()
			}
		case said = <-reports:
			if underWay = false; due {
				report()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var (
	errDisconnected = errors.New("the connection is lost, and the lock will be: the command had to end")
	errRevoked      = errors.New("another client asks for the lock: the command had to end")
)

// guard waits until the command has ended, and makes sure that it does not outlive the lock.
func (r *runner) guard(c *command, events <-chan news, signals <-chan os.Signal) (status int, err error) {
	var terminate, kill, force <-chan time.Time
	var ended error          // why zkactors ended the command, if it did
	margin := r.timeout / 20 // a signal takes effect a little later than it is sent
	end := func(sig syscall.Signal, why error) {
		c.signal(sig)
		ended = cmp.Or(ended, why)
	}
	for {
		select {
		case <-c.exited:
			c.signal(syscall.SIGKILL) // the processes that it has left behind
			if status = c.status(); status == 0 && ended != nil {
				status = exitFailure
			}
			return status, ended
		case sig := <-signals:
			c.signal(sig.(syscall.Signal))
		case n := <-events:
			switch n.what {
			case suspended:
				if !r.overlap {
					left := time.Until(n.deadline) - margin
					terminate, kill = time.After(left-r.grace), time.After(left)
				}
			case resumed:
				terminate, kill = nil, nil
			case revoked:
				end(syscall.SIGTERM, errRevoked)
				if !n.deadline.IsZero() && !r.overlap {
					force = time.After(time.Until(n.deadline) - margin)
				}
			case lost:
				events, terminate = nil, nil // no later event matters
				if r.overlap {
					end(syscall.SIGTERM, n.err)
					kill = time.After(r.grace)
				} else {
					end(syscall.SIGKILL, n.err)
				}
			case waits, granted: // need no action
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
