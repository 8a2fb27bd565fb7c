package conn

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestPausesFollowTheLeaseOfTheEpoch: the pauses between servers follow the lease as it is before
// each of them, also if the list of servers changes while one is dialled, or something begins to
// rest on the lease.
func TestPausesFollowTheLeaseOfTheEpoch(t *testing.T) {
	const rest, change = 4 * time.Second, 2500 * time.Millisecond
	for _, tt := range []struct {
		name     string
		deadline time.Duration // at first
		changes  func(b *bench, began time.Duration) error
	}{
		{"the list changes", rest, func(b *bench, _ time.Duration) error {
			b.e.SetServers([]string{"c:1", "d:1"})
			return nil // a connection to a server that is not in the list any more
		}},
		{"the deadline changes", 2 * rest, func(b *bench, began time.Duration) error {
			b.e.deadline.Store(int64(began + rest))
			return errors.New("refused")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, 1)
					begun, last := time.Now(), time.Now()
					changed, began := 0, time.Duration(0)
					dial := func(context.Context, string, string) (net.Conn, error) {
						since := time.Since(begun)
						if changed > 0 {
							left := (rest - last.Sub(begun)).Seconds() // when the pause began
							check.AtMost(t, time.Since(last).Seconds(), max(left*left/10, 0.1)+0.001, "pause with", left)
						}
						last = time.Now()
						if since < change {
							return nil, errors.New("refused")
						}
						if changed++; changed > 1 {
							return nil, errors.New("refused")
						}
						if err := tt.changes(b, began); err != nil {
							return nil, err
						}
						near, far := net.Pipe()
						_ = far.Close()
						return near, nil
					}
					b.s.Servers = servers.New([]string{"a:1", "b:1"}, servers.Options{
						Timeout: 10 * time.Second, Dialer: dial, Log: func(slog.Level, string, ...any) {},
					})
					b.e.current, b.e.open = nil, nil
					began = b.s.Clock.Now()
					b.e.deadline.Store(int64(began + tt.deadline))
					ctx, cancel := context.WithTimeout(t.Context(), rest-time.Millisecond)
					defer cancel()
					check.True(t, b.e.dial(ctx) == nil, "connected")
					check.AtLeast(t, changed, 2, "attempts after the change")
				})
			}
		})
	}
}

// TestClosedIsNotDialled: when the server has confirmed that the session is closed, the epoch dials
// no more, even before its owner ends it. ClickHouse Keeper would create another session.
func TestClosedIsNotDialled(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.InProcess(), zktest.WithProfile(profile))
			b := newBench(t, 1)
			b.s.Timeout = 10 * time.Second
			dials := 0
			b.s.Servers = servers.New(srv.Addrs(), servers.Options{
				Timeout: b.s.Timeout, Log: func(slog.Level, string, ...any) {},
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials++
					return srv.DialContext(ctx, network, addr)
				},
			})
			e, dial := NewEpoch(b.s, 1, nil)
			dial()
			synctest.Wait()
			e.Announce()
			e.Part(time.Second)
			check.Len(t, srv.Sessions(), 0, profile, "sessions")
			synctest.Wait()
			b.s.Order.Run() // the connection is lost, and its owner has not acted on that yet
			synctest.Wait()
			check.Equal(t, dials, 1, profile, "dials")
			e.End(fault.ErrClosed)
			b.s.Order.Run()
			b.s.Workers.Wait()
		})
	}
}
