package servers

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// An address is deaf, refuses, or accepts after some time.
type address struct {
	deaf, refuses bool
	after         time.Duration
}

// names dials the addresses of a name one after the other, with the bounds of package net.
type names struct {
	of   map[string][]address
	open atomic.Int32 // connections
}

// A counted connection is closed once.
type counted struct {
	net.Conn
	open *atomic.Int32
}

func (c counted) Close() error {
	c.open.Add(-1)
	return nil
}

func (n *names) dial(ctx context.Context, _, server string) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	var err error
	all := n.of[server]
	for i, a := range all {
		left := time.Until(deadline)
		bound := min(max(left/time.Duration(len(all)-i), 2*time.Second), left)
		switch {
		case a.refuses:
			err = errors.New("refused")
			continue
		case !a.deaf && a.after < bound:
			<-time.After(a.after)
			n.open.Add(1)
			return counted{nil, &n.open}, nil
		}
		select {
		case <-time.After(bound):
			err = context.DeadlineExceeded
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, err
}

// TestDeafAddresses: some addresses of a name are deaf. Another is reached all the same, whatever
// the timeout of the session; and other servers are reached as soon as without such a name.
func TestDeafAddresses(t *testing.T) {
	deaf, accepts := address{deaf: true}, address{}
	for name, row := range map[string]struct {
		of      map[string][]address
		timeout time.Duration
		within  time.Duration
		server  string
	}{
		"short":         {map[string][]address{"a:1": {deaf, accepts}}, 2 * time.Second, 3 * time.Second, "a:1"},
		"very short":    {map[string][]address{"a:1": {deaf, accepts}}, 100 * time.Millisecond, 3 * time.Second, "a:1"},
		"long":          {map[string][]address{"a:1": {deaf, accepts}}, 30 * time.Second, 5 * time.Second, "a:1"},
		"many are deaf": {map[string][]address{"a:1": {deaf, deaf, deaf, deaf, accepts}}, 2 * time.Second, time.Minute, "a:1"},
		"slow":          {map[string][]address{"a:1": {deaf, {after: 1900 * time.Millisecond}}}, 2 * time.Second, 5 * time.Second, "a:1"},
		"others serve":  {map[string][]address{"a:1": {deaf, deaf}, "b:1": {deaf}, "c:1": {accepts}}, 2 * time.Second, time.Second, "c:1"},
		"others refuse": {map[string][]address{"a:1": {deaf, accepts}, "b:1": {{refuses: true}}}, 2 * time.Second, 3 * time.Second, "a:1"},
		"both at once":  {map[string][]address{"a:1": {deaf, accepts}, "b:1": {deaf, accepts}}, 2 * time.Second, 3 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the order of the servers is random
				synctest.Test(t, func(t *testing.T) {
					n := &names{of: row.of}
					var all []string
					for server := range row.of {
						all = append(all, server)
					}
					l := New(all, Options{Timeout: row.timeout, Dialer: n.dial, Log: quiet})
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					began := time.Now()
					server, socket := l.Dial(ctx, noLease, false)
					check.Require(t, socket != nil, "never connected: %s", l.Troubles())
					check.AtMost(t, time.Since(began), row.within, "connected after")
					if row.server != "" {
						check.Equal(t, server, row.server)
					}
					synctest.Wait()
					check.Equal(t, n.open.Load(), 1, "connections")
				})
			}
		})
	}
}

// TestDeafAddressIsGivenUp: when the session ends, nothing goes on, and an address is not dialled
// beside others.
func TestDeafAddressIsGivenUp(t *testing.T) {
	for _, server := range []string{"a:1", "127.0.0.1:1", "[::1]:1"} {
		synctest.Test(t, func(t *testing.T) {
			var dialling, most atomic.Int32
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				most.Store(max(most.Load(), dialling.Add(1)))
				defer dialling.Add(-1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			l := New([]string{server}, Options{Timeout: 2 * time.Second, Dialer: dial, Log: quiet})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, socket := l.Dial(ctx, noLease, false)
			check.True(t, socket == nil, "connected")
			synctest.Wait()
			check.Equal(t, dialling.Load(), 0, "dials that go on")
			want := int32(1)
			if isName(server) {
				want = 2
			}
			check.Equal(t, most.Load(), want, server, " is dialled at a time")
		})
	}
}

// TestDialsBesideEndFirst: a dial that takes a moment to give up ends before the round is over.
func TestDialsBesideEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialling atomic.Int32
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialling.Add(1)
			defer dialling.Add(-1)
			begun := time.Now()
			deadline, _ := ctx.Deadline()
			<-ctx.Done()
			if deadline.Sub(begun) >= firstBeside {
				<-time.After(time.Second)
			}
			return nil, ctx.Err()
		}
		l := New([]string{"a:1"}, Options{Timeout: 2 * time.Second, Dialer: dial, Log: quiet})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, socket := l.Dial(ctx, noLease, false)
		check.True(t, socket == nil, "connected")
		check.Equal(t, dialling.Load(), 0, "dials that go on")
	})
}

// TestFirstConnectionWins: of several connections that are made at once, one is kept.
func TestFirstConnectionWins(t *testing.T) {
	var open atomic.Int32
	ends := 0
	r := &round{end: func() { ends++ }}
	for _, server := range []string{"a:1", "b:1", "c:1"} {
		open.Add(1)
		r.won(server, counted{nil, &open})
	}
	check.Equal(t, ends, 1, "ends of the dials")
	server, socket := r.result()
	check.True(t, server == "a:1" && socket != nil, "the connection is to %q", server)
	check.Equal(t, open.Load(), 1, "connections")
}
