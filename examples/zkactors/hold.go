package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// This file gives locks, leases and leadership one interface.

// A what is the kind of a news.
type what int

const (
	waits what = iota // still waiting, after any change
	granted
	suspended
	resumed
	revoked
	lost
)

// A news is an event of a lock, a lease or a candidate.
type news struct {
	what
	deadline time.Time // of suspended; of revoked if the lock will be taken away
	err      error     // of lost
	token    int64     // of granted
}

// A tenancy is a place in line for a lock, a lease or leadership, and later the grant.
type tenancy struct {
	news  <-chan news
	grant news                // set by await
	env   func(news) []string // returns the command's variables, for the grant
	close func()              // may be called once
}

// begin joins the line.
func (r *runner) begin(s *session.Session) (*tenancy, error) {
	switch {
	case r.elect:
		return r.beginElection(s)
	case r.limit > 0:
		return r.beginLease(s)
	}
	if len(r.also) > 0 {
		return r.beginSeveral(s)
	}
	join := lock.New
	if r.shared {
		join = lock.NewRead
	}
	l, err := join(s, r.path, &lock.Options{Data: r.identity(), ReleaseInBackground: true})
	if err != nil {
		return nil, err
	}
	return adapt(l.Events(), newsOfLock, l.Close, func(news) []string {
		return []string{"ZK_LOCK_PATH=" + r.path, "ZK_LOCK_NODE=" + l.Node(), fmt.Sprint("ZK_LOCK_TOKEN=", l.Token())}
	}), nil
}

// beginSeveral joins the lines for all locks in one transaction.
func (r *runner) beginSeveral(s *session.Session) (*tenancy, error) {
	kind := lock.Exclusive
	if r.shared {
		kind = lock.Read
	}
	var wants []lock.Want
	for _, path := range r.paths() {
		wants = append(wants, lock.Want{Path: path, Kind: kind})
	}
	l, err := lock.NewAll(s, wants, &lock.Options{Data: r.identity(), ReleaseInBackground: true})
	if err != nil {
		return nil, err
	}
	return adapt(l.Events(), newsOfLock, l.Close, func(news) []string {
		return []string{"ZK_LOCK_PATH=" + r.path, "ZK_LOCK_NODE=" + l.Nodes()[0], fmt.Sprint("ZK_LOCK_TOKEN=", l.Token())}
	}), nil
}

// paths returns the paths of all locks.
func (r *runner) paths() []string { return append([]string{r.path}, r.also...) }

func (r *runner) beginLease(s *session.Session) (*tenancy, error) {
	opts := &semaphore.Options{Data: r.identity(), Weight: r.weight, ReleaseInBackground: true}
	l, err := semaphore.New(s, r.path, r.limit, opts)
	if err != nil {
		return nil, err
	}
	return adapt(l.Events(), newsOfLease, l.Close, func(news) []string {
		return []string{"ZK_LOCK_PATH=" + r.path, "ZK_LOCK_NODE=" + l.Node()}
	}), nil
}

func (r *runner) beginElection(s *session.Session) (*tenancy, error) {
	c, err := election.New(s, r.path, &election.Options{Data: r.identity()})
	if err != nil {
		return nil, err
	}
	return adapt(c.Events(), newsOfElection, c.Close, func(g news) []string {
		return []string{"ZK_ELECTION_PATH=" + r.path, "ZK_ELECTION_NODE=" + c.Node(), fmt.Sprint("ZK_ELECTION_TERM=", g.token)}
	}), nil
}

// identity returns the data of the contender's node, for operators: host:pid and the command.
func (r *runner) identity() []byte {
	host, _ := os.Hostname()
	return fmt.Appendf(nil, "%s:%d %s", host, os.Getpid(), r.command[0])
}

// adapt makes a tenancy of a handle, whose events it translates.
func adapt[Ev any](events <-chan Ev, translate func(Ev) news, end func(), env func(grant news) []string) *tenancy {
	out := make(chan news)
	over := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer close(out)
		for ev := range events {
			select {
			case out <- translate(ev):
			case <-over:
				return
			}
		}
	}()
	return &tenancy{
		news: out,
		env:  env,
		close: func() {
			close(over)
			end()
			<-gone
		},
	}
}

func newsOfLock(ev lock.Event) news {
	switch ev := ev.(type) {
	case lock.Acquired:
		return news{what: granted, token: ev.Token}
	case lock.Suspended:
		return news{what: suspended, deadline: ev.Deadline}
	case lock.Resumed:
		return news{what: resumed}
	case lock.Revoked:
		return news{what: revoked, deadline: ev.Deadline}
	case lock.Lost:
		return news{what: lost, err: ev.Err}
	case lock.Failed:
		return news{what: lost, err: ev.Err}
	case lock.Waiting, lock.Released:
	}
	return news{}
}

func newsOfLease(ev semaphore.Event) news {
	switch ev := ev.(type) {
	case semaphore.Acquired:
		return news{what: granted}
	case semaphore.Suspended:
		return news{what: suspended, deadline: ev.Deadline}
	case semaphore.Resumed:
		return news{what: resumed}
	case semaphore.Lost:
		return news{what: lost, err: ev.Err}
	case semaphore.Failed:
		return news{what: lost, err: ev.Err}
	case semaphore.Waiting, semaphore.Released:
	}
	return news{}
}

func newsOfElection(ev election.Event) news {
	switch ev := ev.(type) {
	case election.Elected:
		return news{what: granted, token: ev.Term}
	case election.Suspended:
		return news{what: suspended, deadline: ev.Deadline}
	case election.Resumed:
		return news{what: resumed}
	case election.Deposed:
		return news{what: lost, err: ev.Err}
	case election.Left:
		return news{what: lost, err: ev.Err}
	case election.Standing, election.LeaderChanged, election.Overrun:
	}
	return news{}
}

// holdersOf returns the holders at the path, and since when each of them is in line. The nodes do
// not show since when it holds.
func holdersOf(ctx context.Context, s *session.Session, path string) (string, error) {
	survey, err := inspect.Look(ctx, s, path, &inspect.Options{MaxWaiters: 1})
	if err != nil || len(survey.Things) == 0 {
		return "", err
	}
	var all []string
	for _, c := range survey.Things[0].Holders() {
		now := time.Now()
		all = append(all, fmt.Sprintf("%s, in line since %s", shown(c.Identity), when(c.Since, now)))
	}
	const few = 3
	if rest := len(all) - few; rest > 0 {
		all = append(all[:few], fmt.Sprintf("%d more", rest))
	}
	return strings.Join(all, "; "), nil
}
