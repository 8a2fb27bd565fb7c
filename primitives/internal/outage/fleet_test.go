package outage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A fleet is sessions on a server in memory that come through a storm. It counts what they ask for.
type fleet struct {
	kit.World

	mu      sync.Mutex
	weather func() (net.Conn, error) // what an attempt to connect meets, if not nil
	dials   int
}

func (f *fleet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	f.mu.Lock()
	weather := f.weather
	f.dials++
	f.mu.Unlock()
	if weather != nil {
		return weather()
	}
	return f.DialContext(ctx, network, addr)
}

func (f *fleet) set(weather func() (net.Conn, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.weather = weather
}

func refused() (net.Conn, error) { return nil, errors.New("refused") }

// leaderless is how a server answers a handshake during an election.
func leaderless() (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Read(make([]byte, 1024))
		_ = far.Close()
	}()
	return near, nil
}

// A load is what a fleet has asked for.
type load struct {
	dials    int
	dialPeak int // within 100 ms
	requests zktest.Counts
	peak     int // of dials and requests together
}

func (l load) String() string {
	return fmt.Sprintf("%d dials, at most %d in 100 ms; at most %d in 100 ms with the requests, which are %v", l.dials, l.dialPeak, l.peak, l.requests)
}

// count returns the load of so many tenths of a second, which begin with the storm.
func (f *fleet) count(storm func(), tenths int) (l load) {
	dialled := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.dials
	}
	f.ResetRequests()
	begun := dialled()
	for i := range tenths {
		dials, requests := dialled(), f.Requests().Total()
		if i == 0 {
			storm()
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		dials, requests = dialled()-dials, f.Requests().Total()-requests
		l.dialPeak, l.peak = max(l.dialPeak, dials), max(l.peak, dials+requests)
	}
	l.dials, l.requests = dialled()-begun, f.Requests()
	return l
}

// The roles that sessions of a fleet have.
const (
	owns    = "owns a lock"
	waits   = "is in a line of ten"
	stands  = "stands for election, or leads"
	follows = "follows a value"
)

const fleetTimeout = 10 * time.Second

// ours opens a session of this library.
func (f *fleet) ours(role string, n int) {
	s := f.Open(session.Options{Timeout: fleetTimeout, Dialer: f.dial})
	switch role {
	case owns:
		f.Cleanup(check.Have(lock.Acquire(f.Context(), s, fmt.Sprintf("/own/%d", n), nil))(f).Close)
	case waits:
		f.Cleanup(check.Have(lock.New(s, fmt.Sprintf("/line/%d", n/10), nil))(f).Close)
	case stands:
		f.Cleanup(check.Have(election.New(s, fmt.Sprintf("/election/%d", n/3), nil))(f).Close)
	case follows:
		f.Cleanup(check.Have(config.Open(s, "/value", config.Text, nil))(f).Close)
	}
}

// plain opens a session of go-zookeeper. It has no elections: a candidate is in line for a lock.
func (f *fleet) plain(role string, n int) {
	c, _, err := zk.Connect(f.Addrs(), fleetTimeout, zk.WithLogger(silent{}), zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
		return f.dial(context.Background(), network, addr)
	}))
	check.Must(f, err)
	f.Cleanup(c.Close)
	path := map[string]string{owns: fmt.Sprintf("/own/%d", n), waits: fmt.Sprintf("/line/%d", n/10), stands: fmt.Sprintf("/election/%d", n/3)}[role]
	if role == follows {
		_, _, _, err = c.GetW("/value")
		check.Must(f, err)
		return
	}
	go func() { _ = zk.NewLock(c, path, zk.WorldACL(zk.PermAll)).Lock() }()
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// TestFleetInAStorm: what a fleet dials, and what it asks for when it comes back, is less than that
// of as many sessions of go-zookeeper, also within any tenth of a second. Each session sets its
// watches again by one request, and each place in line lists once; there are as many heartbeats as
// in good weather.
func TestFleetInAStorm(t *testing.T) {
	const tenths = 100
	const moment = 50 * time.Millisecond // go-zookeeper dials every second
	// Each dials at random within 300 ms. Among many, chance hardly changes the busiest 100 ms.
	owners, all := slices.Repeat([]string{owns}, 10), []string{owns, waits, stands, follows}
	chosen := hasten.OneIn(4, 4)
	for _, tt := range []struct {
		name    string
		roles   []string
		weather func() (net.Conn, error)
		lasts   time.Duration
	}{
		{"all are cut", all, nil, 0},
		{"owners are cut", owners, nil, 0},
		{"an election of 2 s", all, leaderless, 2*time.Second - moment},
		{"refused for 3 s", all, refused, 3*time.Second - moment},
	} {
		if chosen() {
			t.Run(tt.name, func(t *testing.T) {
				roles := tt.roles
				const each = 60
				sessions := each * len(roles)
				play := func(open func(f *fleet, role string, n int)) (calm, l load) {
					kit.Run(t, zktest.Config{Tick: 2 * time.Second, Replicas: 3, Latency: time.Millisecond}, func(w kit.World) {
						f := &fleet{World: w}
						admin := w.Open(session.Options{})
						check.Must(w, admin.EnsurePath(w.Context(), "/value"))
						for i := range sessions {
							open(f, roles[i%len(roles)], i/len(roles)+each*(i%len(roles)))
							<-time.After(11 * time.Millisecond)
						}
						<-time.After(time.Minute)
						calm = f.count(func() {}, tenths)
						l = f.count(func() {
							f.set(tt.weather)
							w.Disconnect(0)
							end := time.AfterFunc(tt.lasts, func() { f.set(nil) })
							w.Cleanup(func() { end.Stop() })
						}, tenths)
					})
					return calm, l
				}
				_, plain := play((*fleet).plain)
				calm, ours := play((*fleet).ours)
				t.Logf("%d sessions\nours  %v\nplain %v", sessions, ours, plain)
				check.AtMost(t, ours.dials, plain.dials, "dials")
				check.AtMost(t, ours.dialPeak, plain.dialPeak, "dials in 100 ms")
				check.AtMost(t, ours.peak, plain.peak, "dials and requests in 100 ms")

				lists := map[string]int{owns: 1, waits: 1, stands: 2} // those who stand have two directories
				// Servers in memory count no reigns: behind attempts that fail, each session with
				// nodes asks for its own.
				most := zktest.Counts{zktest.OpSetWatches: sessions, zktest.OpGetEphemerals: sessions}
				for _, role := range roles {
					most[zktest.OpGetChildren2] += each * lists[role]
				}
				beats := func(c zktest.Counts) int { return c[zktest.OpSync] + c[zktest.OpCheck] } // a transaction consists of that
				check.AtMost(t, beats(ours.requests), beats(calm.requests)+sessions/4, "heartbeats")
				delete(ours.requests, zktest.OpSync)
				delete(ours.requests, zktest.OpCheck)
				for op, n := range ours.requests {
					check.AtMost(t, n, most[op], op)
				}
			})
		}
	}
}
