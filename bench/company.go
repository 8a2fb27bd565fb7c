package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
	"github.com/zkactors/zkactors/bench/peers"
)

// A company is all sessions of a fleet, in one process for each crew.
type company struct {
	sessions, each int // each: in one process
	processes      []*peers.Process
	calls          []*rpc.Client
	ended          []chan error   // the results of the runs in the processes
	tasks          sync.WaitGroup // those runs
}

// together returns companies as one, for calls. The companies themselves must be closed.
func together(all []*company) *company {
	one := &company{}
	for _, c := range all {
		one.sessions += c.sessions
		one.processes, one.calls = append(one.processes, c.processes...), append(one.calls, c.calls...)
	}
	return one
}

// library returns the library of a client, and its variant: ours+tick is a variant of ours.
func library(client string) (l peers.Library, variant []string, err error) {
	name, words, varies := strings.Cut(client, "+")
	known := []string(nil)
	switch name {
	case "ours":
		l, known = peers.ZKActors, crew.OursVariants()
	case "plain":
		l = peers.GoZookeeper
	default:
		return "", nil, fmt.Errorf("-clients: %q is neither ours nor plain", client)
	}
	if varies {
		variant = strings.Split(words, "+")
	}
	for _, word := range variant {
		if !slices.Contains(known, word) {
			return "", nil, fmt.Errorf("-clients %s: %s has no variant %q: %s", client, name, word, strings.Join(known, ", "))
		}
	}
	return l, variant, nil
}

// open starts the processes, and opens the sessions. Their openings are spread evenly over the time
// between two pings, like those of independent processes. Pings that coincide would cost the
// servers, and the client, about half.
func (f *fleetBench) open(ctx context.Context, client string, sessions int) (_ *company, err error) {
	l, variant, err := library(client)
	if err != nil {
		return nil, err
	}
	f.sockets++
	socket := filepath.Join(f.dir, "control-"+strconv.Itoa(f.sockets))
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer listener.Close() //nolint:errcheck // no connection is lost
	if err := listener.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	c := &company{sessions: sessions, each: f.opts.process}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	command, err := peers.Command(l, f.self, f.dir)
	if err != nil {
		return nil, err
	}
	for range (sessions + c.each - 1) / c.each {
		p, err := peers.Start(l, command)
		if err != nil {
			return nil, err
		}
		ended := make(chan error, 1)
		c.processes, c.ended = append(c.processes, p), append(c.ended, ended)
		c.tasks.Go(func() {
			_, err := p.Run(ctx, "crew", of("servers", join(f.ens.Addrs()), "timeout_ms", f.opts.timeout.Milliseconds(), "control", socket),
				peers.Hooks{}, peers.Patience{Total: time.Hour})
			ended <- err
			if err != nil {
				_ = listener.SetDeadline(time.Now()) // a process that has ended will not connect
				p.Kill()                             // calls in flight fail
			}
		})
		conn, err := listener.Accept()
		if err != nil {
			return nil, errors.Join(err, <-ended)
		}
		c.calls = append(c.calls, rpc.NewClient(conn))
	}
	return c, tell(c, "Open", func(i int) crew.Opening {
		return crew.Opening{Sessions: min(c.each, sessions-i*c.each), Variant: variant, Tick: f.opts.tick, Within: f.opts.timeout / 3}
	})
}

// tell calls a method of all crews at once, without a reply. arg returns the argument for crew i.
func tell[A any](c *company, method string, arg func(i int) A) error {
	_, err := ask[A, struct{}](c, method, arg)
	return err
}

// ask calls a method of all crews at once, and returns the replies. arg returns the argument for
// crew i.
func ask[A, R any](c *company, method string, arg func(i int) A) ([]R, error) {
	replies, errs := make([]R, len(c.calls)), make([]error, len(c.calls))
	var tasks sync.WaitGroup
	for i, call := range c.calls {
		tasks.Go(func() {
			if err := call.Call("Crew."+method, arg(i), &replies[i]); err != nil {
				errs[i] = fmt.Errorf("crew %d: %s: %w", i, method, err)
			}
		})
	}
	tasks.Wait()
	return replies, errors.Join(errs...)
}

// same returns an argument that is the same for all crews.
func same[A any](a A) func(int) A { return func(int) A { return a } }

// play assigns a part to each session.
func (c *company) play(part func(session int) (role, path string)) error {
	return tell(c, "Play", func(i int) []crew.Part {
		var parts []crew.Part
		for member := range min(c.each, c.sessions-i*c.each) {
			if role, path := part(i*c.each + member); role != "" {
				parts = append(parts, crew.Part{Member: member, Role: role, Path: path})
			}
		}
		return parts
	})
}

// close closes all sessions, and ends the processes.
func (c *company) close() error {
	err := tell(c, "Close", same(struct{}{}))
	for i, call := range c.calls {
		if closed := call.Close(); closed == nil {
			err = errors.Join(err, <-c.ended[i])
		}
	}
	for _, p := range c.processes {
		p.Kill()
	}
	c.tasks.Wait()
	return err
}
