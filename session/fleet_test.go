package session_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A dialCount counts the attempts of a fleet to connect.
type dialCount struct {
	mu    sync.Mutex
	since time.Time
	all   int
	bins  map[time.Duration]int // by tenths of a second
}

func (d *dialCount) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.all, d.bins = time.Now(), 0, make(map[time.Duration]int)
}

func (d *dialCount) note() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all++
	if d.bins != nil {
		d.bins[time.Since(d.since)/(100*time.Millisecond)]++
	}
}

func (d *dialCount) peak() (most int) {
	for _, n := range d.bins {
		most = max(most, n)
	}
	return most
}

// hangUp reads a request, and closes the connection.
func hangUp(c net.Conn) {
	_, _ = c.Read(make([]byte, 1024))
	_ = c.Close()
}

// TestFleetComesBack: a fleet that loses all connections at once comes back with all of its
// sessions. It dials no more often than the plain client, which tries each server once a second,
// and spreads what it asks for.
func TestFleetComesBack(t *testing.T) {
	const sessions = 200
	chosen := hasten.OneIn(2, 4)
	for _, tt := range []struct {
		name    string
		servers int
		outage  time.Duration
		refuses bool // at the dial; else servers hang up at the handshake, as while they elect a leader
		dials   int  // at most, of each session
		peak    int  // at most, of all, within 100 ms
	}{
		{"cut", 3, 0, false, 1, sessions / 2},
		{"an election of 2 s", 3, 2 * time.Second, false, 5, sessions / 2},
		{"refused for 3 s", 3, 3 * time.Second, true, 9, sessions * 3 / 2},
		{"one server, refused for 3 s", 1, 3 * time.Second, true, 7, sessions / 2},
	} {
		if !chosen() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: 2 * time.Second, Replicas: tt.servers}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				var dials dialCount
				var mu sync.Mutex
				refused := false
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials.note()
					mu.Lock()
					defer mu.Unlock()
					switch {
					case refused && tt.refuses:
						return nil, errors.New("refused")
					case refused:
						near, far := net.Pipe()
						go hangUp(far)
						return near, nil
					}
					return srv.DialContext(ctx, network, addr)
				}
				all := make([]*session.Session, sessions)
				for i := range all {
					all[i] = mustOpen(t, srv.Addrs(), &session.Options{Timeout: 10 * time.Second, Dialer: dial})
					t.Cleanup(all[i].Rely())
				}
				pass(5 * time.Minute) // none moves to another server any more
				dials.begin()
				refuse := func(is bool) {
					mu.Lock()
					defer mu.Unlock()
					refused = is
				}
				if tt.outage > 0 {
					refuse(true)
				}
				srv.Disconnect(0)
				pass(tt.outage)
				srv.ResetRequests()
				refuse(false)
				pass(900 * time.Millisecond)
				requests := srv.Requests()
				pass(3 * time.Second)
				synctest.Wait()
				for _, s := range all {
					if _, resumed := s.State().(session.Resumed); !resumed {
						t.Fatalf("%v", s.State())
					}
				}
				t.Logf("%.1f dials a session, at most %d in 100 ms; in the first 900 ms %v", float64(dials.all)/sessions, dials.peak(), requests)
				check.AtMost(t, dials.all, tt.dials*sessions, "dials")
				check.AtMost(t, dials.peak(), tt.peak, "dials in 100 ms")
				check.Equal(t, requests[zktest.OpSync], 0, "syncs, though nothing is written")
				check.AtMost(t, requests[zktest.OpCheck], sessions, "transactions") // which consist of that
			})
		})
	}
}
