package watch_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

const (
	oneWay    = time.Second // nothing else takes any time on the clock of a bubble
	roundTrip = 2 * oneWay
)

// A doorman notes when a client was last let in.
type doorman struct {
	srv *zktest.Server
	mu  sync.Mutex
	at  time.Time
}

func (d *doorman) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.srv.DialContext(ctx, network, address)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.at = time.Now()
	}
	return conn, err
}

// established returns when the server's answer to the last connect request came.
func (d *doorman) established() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at.Add(roundTrip)
}

// A logbook has the times at which views first told what was waited for.
type logbook struct {
	mu    sync.Mutex
	times map[string]time.Time
}

func (l *logbook) note(view string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, has := l.times[view]; !has {
		l.times[view] = time.Now()
	}
}

// spectate has every kind of view of /a write down when it has /a with the data "new", and
// /a/new as its only child. It returns what ends them.
func spectate(t *testing.T, s *session.Session, log *logbook) (end func()) {
	t.Helper()
	node := check.Have(watch.Node(s, "/a", nil))(t)
	value := check.Have(watch.Value(s, "/a", watch.Text, nil))(t)
	children := check.Have(watch.Children(s, "/a", nil))(t)
	tree := check.Have(watch.Tree(s, "/a", nil))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for state := range node.Changes() {
			if string(state.Data) == "new" {
				log.note("node")
			}
		}
	})
	all.Go(func() {
		for state := range value.Changes() {
			if state.Value == "new" {
				log.note("value")
			}
		}
	})
	all.Go(func() {
		for state := range children.Changes() {
			if slices.Equal(state.Names, []string{"new"}) {
				log.note("children")
			}
		}
	})
	all.Go(func() {
		for range tree.Changes() {
			if string(tree.Get("/a").Data) == "new" {
				log.note("tree")
			}
			if tree.Get("/a/new").Exists && !tree.Get("/a/old").Exists {
				log.note("branch of a tree")
			}
		}
	})
	return func() {
		for _, w := range []interface{ Close() }{node, value, children, tree} {
			w.Close()
		}
		all.Wait()
	}
}

// A trial is a change in the middle of some trouble. It returns when that was over.
type trial func(srv *zktest.Server, s *session.Session, d *doorman, change func()) (over func() time.Time)

var trials = map[string]trial{
	"no trouble": func(_ *zktest.Server, _ *session.Session, _ *doorman, change func()) func() time.Time {
		change()
		done := time.Now() // the news comes with the answer
		return func() time.Time { return done }
	},
	"disconnected": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		change()
		srv.Refuse(false)
		return d.established
	},
	"expired": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		srv.Refuse(true)
		srv.Expire(s.ID())
		change()
		srv.Refuse(false)
		return d.established
	},
	"expired by its own deadline": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		<-time.After(2 * time.Minute)
		change()
		srv.Refuse(false)
		return d.established
	},
	"frozen": func(srv *zktest.Server, s *session.Session, _ *doorman, change func()) func() time.Time {
		srv.Freeze(s.ID(), zktest.Both)
		change()
		srv.Thaw(s.ID())
		done := time.Now()
		return func() time.Time { return done }
	},
	"the read is lost": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		srv.DropRequest(zktest.Match{Session: s.ID(), Op: zktest.OpGetData})
		change()
		return d.established
	},
	"what it found is lost": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpGetChildren2})
		change()
		return d.established
	},
	"disconnected again while watches are set": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		change()
		srv.DropRequest(zktest.Match{Session: s.ID(), Op: zktest.OpSetWatches})
		srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpSetWatches})
		srv.Refuse(false)
		return d.established
	},
	"flapping": func(srv *zktest.Server, s *session.Session, d *doorman, change func()) func() time.Time {
		change()
		for range 20 {
			srv.Disconnect(s.ID())
			<-time.After(oneWay / 2)
		}
		return d.established
	},
}

// TestTwoRoundTrips: when the news has come, or there is a connection again, every view has the
// newest state within two round trips; a tree takes one more for a level of nodes that are
// new to it. Each change is read once, however many views there are.
func TestTwoRoundTrips(t *testing.T) {
	for name, trouble := range trials {
		for _, again := range []bool{false, true} {
			if again {
				name += ", made again"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					got := twoRoundTrips(t, trouble, again)
					want, counted := map[string]zktest.Counts{
						"no trouble":   {zktest.OpGetData: 2, zktest.OpGetChildren2: 2},
						"frozen":       {zktest.OpGetData: 2, zktest.OpGetChildren2: 2},
						"disconnected": {zktest.OpGetData: 2, zktest.OpGetChildren2: 2, zktest.OpSetWatches: 1},
					}[name]
					delete(got, zktest.OpSync)
					check.False(t, counted && !maps.Equal(got, want), "to read a change of /a and of its children, and a new node: %v", got)
				})
			})
		}
	}
}

// twoRoundTrips returns what has been asked for since the change.
func twoRoundTrips(t *testing.T, trouble trial, again bool) zktest.Counts {
	t.Helper()
	srv := check.Have(zktest.NewServer(zktest.Config{InProcess: true, Latency: oneWay, Tick: 10 * time.Second}))(t)
	defer srv.Close()
	d := &doorman{srv: srv}
	open := func(dial func(context.Context, string, string) (net.Conn, error)) *session.Session {
		return check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 100 * time.Second, ServerTick: 10 * time.Second, Dialer: dial}))(t)
	}
	s, other := open(d.dial), open(srv.DialContext)
	defer s.Close()
	defer other.Close()
	create(t, other, "/a", "old")
	create(t, other, "/a/old", "")
	log := &logbook{times: map[string]time.Time{}}
	end := spectate(t, s, log)
	defer end()
	<-time.After(time.Minute)
	synctest.Wait()
	check.Require(t, len(log.times) == 0, "it is new before it is made: %v", log.times)
	ops := []session.Op{session.DeleteOp("/a/old", 0), session.SetOp("/a", []byte("new"), 0), session.CreateOp("/a/new", nil, session.Persistent)}
	if again {
		ops = []session.Op{ops[0], session.DeleteOp("/a", 0), session.CreateOp("/a", []byte("new"), session.Persistent), ops[2]}
	}
	srv.ResetRequests()
	over := trouble(srv, s, d, func() {
		_, err := other.Multi(t.Context(), ops...)
		check.OK(t, err)
	})
	<-time.After(5 * time.Minute)
	synctest.Wait()
	log.mu.Lock()
	defer log.mu.Unlock()
	for view, trips := range map[string]int{"node": 2, "value": 2, "children": 2, "tree": 2, "branch of a tree": 3} {
		at, told := log.times[view]
		took := at.Sub(over())
		check.True(t, told && took <= time.Duration(trips)*roundTrip, "%s: told %v, after %.2f round trips, want %d", view, told, took.Seconds()/roundTrip.Seconds(), trips)
	}
	for _, view := range slices.Sorted(maps.Keys(log.times)) {
		t.Logf("%-17s %.2f round trips", view, log.times[view].Sub(over()).Seconds()/roundTrip.Seconds())
	}
	return srv.RequestsOf(s.ID())
}
