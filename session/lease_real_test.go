package session_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var leaseRuns = flag.Int("session.losses", 2, "runs of each story of a lost lease on real servers; 20 are a campaign")

// A departure is the end of a ward's node, as another session learns of it.
type departure struct {
	at       time.Time
	believed bool // the ward counted on its session still
}

// A ward is a session, and its ephemeral node.
type ward struct {
	*session.Session
	events <-chan session.Event
	number int64 // its id; another is established after it
	gone   <-chan departure
	lapsed <-chan struct{} // closed by Lapsed, or Expired
}

// newWard opens a session that a recipe relies on, and creates its node.
func newWard(t *testing.T, witness *session.Session, addrs []string, opts *session.Options) ward {
	t.Helper()
	w := openWard(t, addrs, opts)
	t.Cleanup(w.Rely())
	w.gone = w.create(t, witness)
	return w
}

// openWard opens a session that holds something, and has no node yet.
func openWard(t *testing.T, addrs []string, opts *session.Options) ward {
	t.Helper()
	s := kit.Open(t, addrs, opts)
	t.Cleanup(s.Hold())
	events := s.Events(check.Patient(t))
	lapsed := make(chan struct{})
	end := sync.OnceFunc(func() { close(lapsed) })
	s.Subscribe(func(ev session.Event) (settled <-chan struct{}) {
		switch ev.(type) {
		case session.Lapsed, session.Expired:
			end()
		case session.Connected, session.Suspended, session.Resumed, session.Closed:
		}
		return nil
	})
	return ward{Session: s, events: events, number: await[session.Connected](t, events).ID, lapsed: lapsed}
}

// create creates the node, which the witness watches until it goes.
func (w ward) create(t *testing.T, witness *session.Session) <-chan departure {
	t.Helper()
	path := fmt.Sprintf("/%x", w.number)
	check.Have(w.Create(check.Patient(t), path, nil, session.Ephemeral))(t)
	check.Must(t, witness.Sync(check.Patient(t), "/"))
	gone := make(chan departure, 1)
	armed := make(chan error, 1)
	witness.Async(0).Watch(path, func(_ []byte, _ *session.Stat, err error) { armed <- err },
		func(_ []byte, _ *session.Stat, err error) {
			if errors.Is(err, session.ErrNoNode) {
				gone <- departure{time.Now(), w.believes()}
			}
		})
	check.Must(t, <-armed)
	return gone
}

// toldInTime waits until the session tells that it has lapsed, and then until the node goes: with
// the session, or because it is given up as a lost grant is. It returns by how much the first was
// earlier.
func (w ward) toldInTime(t *testing.T) time.Duration {
	t.Helper()
	await[session.Lapsed](t, w.events)
	told := time.Now()
	w.Async(1).Withdraw(fmt.Sprintf("/%x", w.number), func(error) {})
	select {
	case gone := <-w.gone:
		check.False(t, gone.believed, "the node has gone, and the session counted on its lease")
		return gone.at.Sub(told)
	case <-check.Patient(t).Done():
		t.Fatal("the node stays")
	}
	return 0
}

// believes reports whether the session has not lapsed.
func (w ward) believes() bool {
	select {
	case <-w.lapsed:
		return false
	default:
		return w.ID() == w.number
	}
}

// heal repairs the ensemble, and waits until every server serves.
func heal(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ens.Heal()
	for _, addr := range ens.Addrs() {
		kit.Open(t, []string{addr}, nil).Close()
	}
}

// chat reads all the time, until stopped: the server hears the session, the leader does not.
func chat(t *testing.T, s *session.Session) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(check.Patient(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.Async(0).Exists("/", func(*session.Stat, error) {})
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestRealLeaseWhatIsProposed counts what the quorum is asked: a sync is not, a transaction
// that changes nothing is, and so are half the heartbeats of a session that is relied on.
func TestRealLeaseWhatIsProposed(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx := check.Patient(t)
	s := kit.Open(t, ens.Addrs(), &session.Options{Timeout: time.Minute, ServerTick: 100 * time.Millisecond})
	zxid := func() int64 {
		t.Helper()
		text, err := ens.FourLetterWord(0, "srvr")
		for err != nil && ctx.Err() == nil { // the server is busy
			text, err = ens.FourLetterWord(0, "srvr")
		}
		_, text, _ = strings.Cut(text, "Zxid: ")
		text, _, _ = strings.Cut(text, "\n")
		n := check.Have(strconv.ParseInt(text, 0, 64))(t)
		return n
	}
	count := func(what string, want int64, ask func() error) {
		t.Helper()
		before := zxid()
		for range 10 {
			check.Must(t, ask())
		}
		check.Equal(t, zxid()-before, want, "transactions of ten of", what)
	}
	count("sync", 0, func() error { return s.Sync(ctx, "/") })
	count("a check", 10, func() error {
		_, err := s.Multi(ctx, session.CheckOp("/", session.AnyVersion))
		return err
	})
	count("a check that fails", 10, func() error {
		if _, err := s.Multi(ctx, session.CheckOp("/", 1000)); !errors.Is(err, session.ErrBadVersion) {
			return err
		}
		return nil
	})
	relied := kit.Open(t, ens.Addrs(), &session.Options{Timeout: time.Second, ServerTick: 100 * time.Millisecond})
	before := zxid()
	defer relied.Rely()()
	for zxid() < before+3 {
		check.Require(t, ctx.Err() == nil, "the heartbeats are not proposed")
	}
}

// TestRealLeaseCutOffServer: a server that is cut off from its leader continues to answer reads.
func TestRealLeaseCutOffServer(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(100))
	for range *leaseRuns {
		leader, follower := ens.Leader(), ens.Followers()[0]
		witness := kit.Open(t, []string{ens.Addr(leader)}, nil)
		w := newWard(t, witness, []string{ens.Addr(follower)}, &session.Options{Timeout: 6 * time.Second, ServerTick: 100 * time.Millisecond})
		stop := chat(t, w.Session)
		ens.CutLink(leader, follower)
		t.Logf("told %v before the node went", w.toldInTime(t))
		stop()
		w.Close()
		witness.Close()
		heal(t, ens)
	}
}

// TestRealLeaseDeposedLeader: a leader whose followers have left continues to answer
// syncs. A run counts only if a session that trusts these answers counts on itself when its
// node goes: then the next leader was elected within the lease. On a busy machine there are more
// runs.
func TestRealLeaseDeposedLeader(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	const timeout, tick = 10 * time.Second, 500 * time.Millisecond
	// The old leader continues for 30 s, the next one is elected within 1 or 2.
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.TickTime(tick), zktest.SyncLimit(60))
	for counted := 0; counted < *leaseRuns; {
		old := ens.Leader()
		var others []string
		for _, i := range ens.Followers() {
			others = append(others, ens.Addr(i))
		}
		witness := kit.Open(t, others, &session.Options{Timeout: 20 * time.Second})
		opts := session.Options{Timeout: timeout, ServerTick: tick}
		w := newWard(t, witness, []string{ens.Addr(old)}, &opts)
		opts.Lease = session.LeaseAnswered
		trusting := newWard(t, witness, []string{ens.Addr(old)}, &opts)
		ens.Depose(old)
		cut := time.Now()
		early := w.toldInTime(t)
		<-trusting.gone
		t.Logf("told %v before the node went, %v after the cut", early, time.Since(cut))
		if trusting.believes() {
			counted++
		}
		w.Close()
		trusting.Close()
		witness.Close()
		heal(t, ens)
	}
}

// TestRealLeaseReportOnItsWay: what the leader sends to the follower is held up, and then
// nothing of what the follower sends reaches the leader, such as its report.
func TestRealLeaseReportOnItsWay(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	const timeout, tick = 8 * time.Second, 200 * time.Millisecond
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.TickTime(tick), zktest.SyncLimit(60))
	for run := range *leaseRuns {
		leader, follower := ens.Leader(), ens.Followers()[0]
		witness := kit.Open(t, []string{ens.Addr(leader)}, nil)
		w := newWard(t, witness, []string{ens.Addr(follower)}, &session.Options{Timeout: timeout, ServerTick: tick})
		stop := chat(t, w.Session)
		ens.HoldOneWay(leader, follower)
		<-time.After(timeout / 8 * time.Duration(1+run%3)) // a heartbeat, two, or three
		ens.CutOneWay(follower, leader)
		ens.ReleaseOneWay(leader, follower)
		t.Logf("told %v before the node went", w.toldInTime(t))
		stop()
		w.Close()
		witness.Close()
		heal(t, ens)
	}
}

// TestRealLeaseShorterTimeout: a server that allows less takes over the connection.
func TestRealLeaseShorterTimeout(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	const timeout, less = 20 * time.Second, 6 * time.Second
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(100))
	followers := ens.Followers()
	config := filepath.Join(filepath.Dir(ens.Log(followers[1])), "zoo.cfg")
	file := check.Have(os.OpenFile(config, os.O_APPEND|os.O_WRONLY, 0))(t)
	check.Have(fmt.Fprintf(file, "maxSessionTimeout=%d\n", less.Milliseconds()))(t)
	check.Must(t, file.Close())
	ens.Restart(followers[1])
	leader := ens.Leader()
	witness := kit.Open(t, []string{ens.Addr(leader)}, &session.Options{Timeout: 30 * time.Second})
	for range *leaseRuns {
		first, second := zktest.NewProxy(t, ens.Addr(followers[0])), zktest.NewProxy(t, ens.Addr(followers[1]))
		second.Refuse(true)
		addrs := append(first.Addrs(), second.Addrs()...)
		w := newWard(t, witness, addrs, &session.Options{Timeout: timeout, ServerTick: 100 * time.Millisecond})
		second.Refuse(false)
		first.Refuse(true)
		first.Disconnect(w.number)
		await[session.Suspended](t, w.events)
		await[session.Resumed](t, w.events)
		check.Must(t, w.Sync(check.Patient(t), "/"))
		second.Freeze(w.number, zktest.Both)
		frozen := time.Now()
		check.AtMost(t, await[session.Suspended](t, w.events).Deadline.Sub(frozen), timeout/2, "the deadline, after the freeze")
		// The leader may still count the longer one: a report of the first server was on its way.
		t.Logf("told %v before the node went", w.toldInTime(t))
		w.Close()
	}
}
