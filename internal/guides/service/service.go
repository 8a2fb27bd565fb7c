// Package service has the code of docs/guides/service.md.
package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// Start connects to servers such as "zk1:2181,zk2:2181,zk3:2181/apps/billing". It returns at once:
// the service also starts while ZooKeeper is down, and its recipes join when it is up.
func Start(servers string, opts session.Options) (*session.Session, error) {
	addresses, chroot, err := session.ParseConnectString(servers)
	if err != nil {
		return nil, err
	}
	opts.Chroot = chroot
	opts.Timeout = 10 * time.Second
	opts.ServerTick = 2 * time.Second // tickTime in the configuration of the servers
	opts.Logger = slog.Default()
	return session.Start(addresses, &opts)
}

// Keep runs work whenever this process holds the lock. The context of work ends when the lock is
// lost: then Keep stands in line again as soon as work has returned. Without a loss it returns the
// error of work. An error of Acquire would come again: ctx has ended, the session is closed, the
// servers forbid it, or the path belongs to another recipe.
func Keep(ctx context.Context, s *session.Session, path string, work func(ctx context.Context, token int64) error) error {
	for {
		l, err := lock.Acquire(ctx, s, path, nil)
		if err != nil {
			return err
		}
		held, cancel := l.Context(ctx)
		err = work(held, l.Token())
		cancel()
		lost := l.Err() != nil
		l.Close()
		if !lost {
			return err
		}
	}
}

// Loop begins work when the lock is acquired, and stops it when the lock is lost or ctx ends. stop
// returns when the work is over.
func Loop(ctx context.Context, s *session.Session, path string, begin func(token int64) (stop func())) error {
	l, err := lock.New(s, path, nil)
	if err != nil {
		return err
	}
	stop := func() {} // of the work, while there is any
	defer func() { stop(); l.Close() }()
	for {
		select { // and whatever else the service does
		case ev := <-l.Events():
			switch ev := ev.(type) {
			case lock.Acquired:
				stop = begin(ev.Token)
			case lock.Failed: // a new one would fail, too
				return ev.Err
			case lock.Lost:
				stop()
				stop = func() {}
				l.Close()
				next, err := lock.New(s, path, nil)
				if err != nil {
					return err
				}
				l = next
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Lead acknowledges each term in a loop that never waits.
func Lead(ctx context.Context, candidate *election.Candidate) error {
	var acknowledged <-chan error // nil, and never ready, while there is no call
	for {
		select {
		case ev, ok := <-candidate.Events():
			if !ok {
				return candidate.Err()
			}
			if _, elected := ev.(election.Elected); elected {
				acknowledged = actors.Call(func() error { return candidate.Acknowledge(ctx) })
			}
		case err := <-acknowledged:
			acknowledged = nil
			if err != nil { // Deposed follows
				slog.Info("not acknowledged", "error", err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Serve returns when ctx has ended and nothing of the service is left on the servers.
func Serve(ctx context.Context, s *session.Session, name string, lead func(ctx context.Context, term int64) error) error {
	defer s.Close() // last
	member, err := group.Join(s, "/members", name, nil, nil)
	if err != nil {
		return err
	}
	defer member.Close()
	candidate, err := election.New(s, "/leader", nil)
	if err != nil {
		return err
	}
	defer candidate.Close()
	return candidate.Lead(ctx, lead) // returns when lead has returned
}
