package upgrade

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var (
	rounds = flag.Int("upgrade.rounds", 1, "how often the ensemble is upgraded and goes back; 10 are a campaign")
	older  = flag.String("upgrade.from", "3.8.6", "the version that it has at first")
	newer  = flag.String("upgrade.to", "3.9.5", "the version that it becomes")
)

// A world is an ensemble, what stands on it, and what works on it.
type world struct {
	*testing.T

	ctx     context.Context //nolint:containedctx // it is as old as the test, as that of testing.T
	ens     *zktest.Ensemble
	stopped chan struct{}            // closed when the work is to end
	running sync.WaitGroup           // goroutines that end by ctx
	working sync.WaitGroup           // goroutines that end by stopped
	works   map[string]*atomic.Int64 // how often each kind of work was done
}

// TestRollingUpgrade replaces the servers one by one, the leader last, by those of another version,
// and back. Meanwhile a lock is held and waited for, a semaphore is full, an election stands;
// another lock goes from hand to hand, a queue is consumed, and transactions commit. No holder
// loses anything, no two hold at once, and no write is lost.
func TestRollingUpgrade(t *testing.T) {
	if !hasten.Thorough() && os.Getenv(zktest.RequireVersionsVariable) != "1" {
		t.Skip("ensembles are upgraded with ZKACTORS_THOROUGH=1, or if versions are required")
	}
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.Version(*older))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	w := &world{T: t, ctx: ctx, ens: ens, stopped: make(chan struct{}), works: map[string]*atomic.Int64{}}
	t.Cleanup(func() {
		cancel()
		w.working.Wait()
		w.running.Wait()
		for i := range ens.Size() {
			if t.Failed() {
				w.complaints(i)
			}
		}
	})
	sessions := []*session.Session{w.connect(), w.connect(), w.connect()}
	stands, end := w.stand(sessions)
	finish := []func(){w.handOver(sessions), w.consume(sessions), w.commit(sessions)}
	w.progress()
	for range *rounds {
		for _, version := range []string{*newer, *older} {
			for _, i := range append(ens.Followers(), ens.Leader()) {
				ens.Upgrade(i, version)
				check.Equal(t, ens.Version(i), version)
				w.progress()
				stands()
			}
		}
	}
	close(w.stopped)
	w.working.Wait() // a write that is under way would be counted before or after it is done
	for _, f := range finish {
		f()
	}
	end()
	for name, n := range w.works {
		t.Logf("%s: %d", name, n.Load())
	}
}

// complaints shows what a server has logged of its troubles.
func (w *world) complaints(i int) {
	text, err := os.ReadFile(w.ens.Log(i))
	check.OK(w, err)
	const most = 20
	shown := 0
	for line := range strings.Lines(string(text)) {
		if (strings.Contains(line, " ERROR ") || strings.HasPrefix(line, "java.")) && shown < most {
			shown++
			w.Logf("server %d: %s", i, strings.TrimSpace(line))
		}
	}
}

// connect opens a session, which must live as long as the test.
func (w *world) connect() *session.Session {
	w.Helper()
	// An election, and a leader that no follower joins in time, take some ten seconds.
	s := check.Open(session.Open(w.ctx, w.ens.Addrs(), &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(w)
	events := s.Events(w.ctx)
	w.running.Go(func() {
		for ev := range events {
			if expired, is := ev.(session.Expired); is {
				w.Errorf("the ensemble has lost no session, and its client is told: %v", expired)
			}
		}
	})
	return s
}

// work has f done again and again until the work is to end.
func (w *world) work(name string, f func(n int) error) {
	count := w.works[name]
	if count == nil {
		count = new(atomic.Int64)
		w.works[name] = count
	}
	w.working.Go(func() {
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for n := 0; ; n++ {
			select {
			case <-w.stopped:
				return
			case <-w.ctx.Done():
				return
			case <-pause.C:
			}
			if err := f(n); err != nil {
				if w.ctx.Err() == nil {
					w.Errorf("%s: %v", name, err)
				}
				return
			}
			count.Add(1)
		}
	})
}

// progress waits until all kinds of work have been done twice more.
func (w *world) progress() {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for name, count := range w.works {
		for had := count.Load(); count.Load() < had+2; {
			check.Require(w, !w.Failed(), "%s has ended", name)
			select {
			case <-tick.C:
			case <-w.ctx.Done():
				w.Fatalf("%s does not go on: %v", name, context.Cause(w.ctx))
			}
		}
	}
}

// next returns the next event that is not told of the connection.
func next[Ev any](w *world, events <-chan Ev, skip func(Ev) bool) Ev {
	w.Helper()
	for {
		select {
		case ev, open := <-events:
			check.Require(w, open, "the events have ended")
			if !skip(ev) {
				return ev
			}
		case <-w.ctx.Done():
			w.Fatal(context.Cause(w.ctx))
		}
	}
}

// stand has the first two sessions hold, and the third wait. It returns what looks whether this is
// still so, and what has them hand over at the end.
func (w *world) stand(all []*session.Session) (look, end func()) {
	w.Helper()
	held := check.Open(lock.Acquire(w.ctx, all[0], "/held", nil))(w)
	waits := check.Open(lock.New(all[2], "/held", nil))(w)
	var leases []*semaphore.Lease
	for _, s := range all[:2] {
		leases = append(leases, check.Open(semaphore.Acquire(w.ctx, s, "/full", 2, nil))(w))
	}
	queued := check.Open(semaphore.New(all[2], "/full", 2, nil))(w)
	var candidates []*election.Candidate
	for _, s := range all {
		candidates = append(candidates, check.Open(election.Stand(w.ctx, s, "/election", nil))(w))
	}
	elected, is := next(w, candidates[0].Events(), func(ev election.Event) bool {
		_, is := ev.(election.Elected)
		return !is
	}).(election.Elected)
	check.Require(w, is, "%v", elected)
	token, nodes := held.Token(), []string{held.Node(), leases[0].Node(), leases[1].Node(), candidates[0].Node()}
	witness := w.connect()

	granted := make(chan lock.Event, 1)
	leased := make(chan semaphore.Event, 1)
	w.running.Go(func() {
		for ev := range waits.Events() {
			if _, is := ev.(lock.Waiting); !is {
				granted <- ev
				return
			}
		}
	})
	w.running.Go(func() {
		for ev := range queued.Events() {
			if _, is := ev.(semaphore.Waiting); !is {
				leased <- ev
				return
			}
		}
	})
	look = func() {
		w.Helper()
		check.None(w, held.Done(), "the lock is lost")
		check.Equal(w, held.Token(), token)
		check.None(w, granted, "a lock that is held")
		check.None(w, leased, "a semaphore that is full")
		for _, l := range leases {
			check.None(w, l.Done(), "a lease is lost")
		}
		term, leads := candidates[0].Leading()
		check.True(w, leads && term == elected.Term, "leading: %v, in term %d, was elected in %d", leads, term, elected.Term)
		for _, c := range candidates[1:] {
			_, leads := c.Leading()
			check.False(w, leads, "two lead")
		}
		check.Must(w, witness.Sync(w.ctx, "/"))
		for _, node := range nodes {
			stat, err := witness.Exists(w.ctx, node)
			check.True(w, stat != nil && err == nil, "%s: %v", node, err)
		}
	}
	end = func() {
		w.Helper()
		look()
		check.Must(w, held.Release(w.ctx))
		ev, is := next(w, granted, func(lock.Event) bool { return false }).(lock.Acquired)
		check.True(w, is && ev.Token > token, "after %d: %v", token, ev)
		check.Must(w, leases[0].Release(w.ctx))
		_, is = next(w, leased, func(semaphore.Event) bool { return false }).(semaphore.Acquired)
		check.True(w, is, "no lease after another is released")
		check.Must(w, candidates[0].Resign(w.ctx))
		after, is := next(w, candidates[1].Events(), func(ev election.Event) bool {
			_, is := ev.(election.Elected)
			return !is
		}).(election.Elected)
		check.True(w, is && after.Term > elected.Term, "after %d: %v", elected.Term, after)
	}
	return look, end
}

// handOver has a lock go from hand to hand, and each holder write. No two hold at once, and no
// write is lost.
func (w *world) handOver(all []*session.Session) (finish func()) {
	w.Helper()
	check.Have(all[0].Create(w.ctx, "/written", nil, session.Persistent))(w)
	var inside, last, writes, unknown atomic.Int64
	for _, s := range all {
		w.work("hand-overs of a lock", func(int) error {
			return lock.Do(w.ctx, s, "/busy", nil, func(ctx context.Context, token int64) error {
				defer inside.Add(-1)
				if n := inside.Add(1); n != 1 {
					return fmt.Errorf("%d hold at once", n)
				}
				if before := last.Swap(token); before >= token {
					return fmt.Errorf("token %d after %d", token, before)
				}
				_, stat, err := s.Get(ctx, "/written")
				if err != nil {
					return err
				}
				switch _, err := s.Set(ctx, "/written", []byte(strconv.FormatInt(token, 10)), stat.Version); {
				case errors.Is(err, session.ErrUnknownOutcome):
					unknown.Add(1)
				case err != nil:
					return err
				default:
					writes.Add(1)
				}
				return nil
			})
		})
	}
	return func() {
		w.Helper()
		for i := range w.ens.Size() { // every server has every write
			s := check.Have(session.Open(w.ctx, []string{w.ens.Addr(i)}, nil))(w)
			check.Must(w, s.Sync(w.ctx, "/written"))
			_, stat, err := s.Get(w.ctx, "/written")
			check.Must(w, err)
			check.Within(w, int64(stat.Version), writes.Load(), writes.Load()+unknown.Load(), "writes that server", i, "has")
			s.Close()
		}
	}
}

// consume has items put and consumed. Each is delivered, and only once, as no claim is lost.
func (w *world) consume(all []*session.Session) (finish func()) {
	w.Helper()
	var mu sync.Mutex
	var put []string
	got := map[string]int{}
	arrived := make(chan struct{}, 1)
	q := check.Have(queue.New(all[0], "/queue", nil))(w)
	w.Cleanup(func() { check.OK(w, q.Close(context.Background())) })
	w.work("items put", func(n int) error {
		data := strconv.Itoa(n)
		mu.Lock()
		put = append(put, data)
		mu.Unlock()
		_, err := q.Put(w.ctx, []byte(data))
		return err
	})
	consumed := new(atomic.Int64)
	w.works["items consumed"] = consumed
	for _, s := range all[1:] {
		other := check.Have(queue.New(s, "/queue", nil))(w)
		w.Cleanup(func() { check.OK(w, other.Close(context.Background())) })
		c := check.Open(other.Consume(nil))(w)
		w.running.Go(func() {
			for {
				select {
				case item, open := <-c.Items():
					if !open {
						return
					}
					if err := item.Ack(w.ctx); err != nil && w.ctx.Err() == nil {
						w.Errorf("acknowledge %s: %v", item.Data, err)
					}
					mu.Lock()
					got[string(item.Data)]++
					mu.Unlock()
					consumed.Add(1)
					select {
					case arrived <- struct{}{}:
					default: // it is told already
					}
				case <-w.ctx.Done():
					return
				}
			}
		})
	}
	return func() {
		w.Helper()
		missing := func() (all []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, data := range put {
				if got[data] == 0 {
					all = append(all, data)
				}
				check.AtMost(w, got[data], 1, "deliveries of", data)
			}
			return all
		}
		soon := time.After(check.Patience)
		for left := missing(); len(left) > 0; left = missing() {
			select {
			case <-arrived:
			case <-soon:
				witness := w.connect()
				check.Must(w, witness.Sync(w.ctx, "/queue"))
				names, _, err := witness.Children(w.ctx, "/queue")
				w.Fatalf("put, and not delivered: %v; the queue has %v, %v", left, names, err)
			}
		}
	}
}

// commit has transactions commit at two sites.
func (w *world) commit(all []*session.Session) (finish func()) {
	w.Helper()
	var mu sync.Mutex
	committed := map[string][]string{} // the sites, by transaction
	sites := []string{"a", "b"}
	for i, site := range sites {
		p := check.Open(commit.Join(all[i+1], "/tx", site, nil))(w)
		events := p.Events()
		w.running.Go(func() {
			for {
				var err error
				select {
				case <-w.ctx.Done():
					return
				case ev, open := <-events:
					if !open {
						return
					}
					switch ev := ev.(type) {
					case commit.Prepare:
						err = p.Vote(w.ctx, ev.Tx, commit.Yes)
					case commit.Committed:
						mu.Lock()
						committed[ev.Tx.ID] = append(committed[ev.Tx.ID], site)
						mu.Unlock()
						err = p.Finish(w.ctx, ev.Tx)
					case commit.Aborted, commit.Forgotten, commit.Left, commit.Voted:
						err = fmt.Errorf("%v", ev)
					}
				}
				if err != nil && !errors.Is(err, commit.ErrDecided) && w.ctx.Err() == nil {
					w.Errorf("site %s: %v", site, err)
				}
			}
		})
	}
	var begun []string
	w.work("transactions", func(n int) error {
		id := fmt.Sprintf("%05d", n)
		tx, err := commit.Begin(w.ctx, all[0], "/tx/"+id, &commit.Options{Sites: sites, Deadline: 10 * time.Minute})
		if err != nil {
			return err
		}
		defer tx.Close()
		outcome, err := tx.Wait(w.ctx)
		if err == nil && !outcome.Committed {
			err = fmt.Errorf("%s: %+v", id, outcome)
		}
		mu.Lock()
		begun = append(begun, id)
		mu.Unlock()
		return err
	})
	return func() {
		w.Helper()
		// Sites act after the coordinator knows.
		soon := time.After(check.Patience)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		lacks := func() (id string) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range begun {
				for _, site := range sites {
					if !slices.Contains(committed[id], site) {
						return id
					}
				}
			}
			return ""
		}
		for id := lacks(); id != ""; id = lacks() {
			select {
			case <-tick.C:
			case <-soon:
				w.Fatalf("%s has committed, and a site does not know", id)
			}
		}
	}
}
