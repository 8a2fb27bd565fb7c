package primitives_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// older brings older data back, and waits until the sessions have seen that.
func older(w kit.World, backup zktest.Backup, all ...*session.Session) {
	w.Helper()
	transact(w, all[0])
	for _, s := range all { // each has seen them: else its session would go on, if the backup knows it
		check.Must(w, s.Sync(w.Context(), "/"))
	}
	w.Restore(backup)
	for _, s := range all {
		check.Must(w, s.Await(w.Context()))
		for ev := range s.Events(w.Context()) {
			if c, ok := ev.(session.Connected); ok && c.Epoch > 1 {
				break
			}
		}
	}
	synctest.Wait()
}

// transact has the servers do more transactions than a test.
func transact(w kit.World, s *session.Session) {
	w.Helper()
	for range 500 {
		check.Have(s.Set(w.Context(), "/", nil, session.AnyVersion))(w)
	}
}

// afterARestore plays once with servers that come back empty, and once from a backup that is taken
// after before.
func afterARestore(t *testing.T, before func(w kit.World, s, other *session.Session) (after func())) {
	t.Helper()
	for name, empty := range map[string]bool{"empty": true, "from a backup": false} {
		t.Run(name, func(t *testing.T) {
			kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
				opts := session.Options{Timeout: 4 * time.Second}
				s, other := w.Open(opts), w.Open(opts)
				after := before(w, s, other)
				synctest.Wait()
				var backup zktest.Backup
				if !empty {
					backup = w.Backup()
				}
				older(w, backup, s, other)
				after()
			})
		})
	}
}

// eventually waits until something holds, by the clock of the bubble.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 100 {
		if synctest.Wait(); holds() {
			return
		}
		<-time.After(time.Second)
	}
	t.Fatalf("never: %s", what)
}

// TestViewsOfRecipesAfterARestore: what handles that stand through it see converges to what the
// servers have.
func TestViewsOfRecipesAfterARestore(t *testing.T) {
	afterARestore(t, func(w kit.World, s, other *session.Session) func() {
		value, theirs := check.Open(config.Open(s, "/config", config.Text, nil))(w.T), check.Open(config.Open(other, "/config", config.Text, nil))(w.T)
		for i := range 30 {
			check.Must(w, theirs.Set(w.Context(), fmt.Sprint("old ", i)))
		}
		watcher := check.Open(group.Watch(s, "/group", nil))(w.T)
		old := check.Have(group.Enroll(w.Context(), other, "/group", "old", nil, nil))(w.T)
		wall := check.Open(barrier.New(s, "/barrier", nil))(w.T)
		check.Must(w, wall.Raise(w.Context()))
		waited := make(chan error, 1)
		go func() { waited <- wall.Wait(w.Context()) }()
		observer := check.Open(election.Observe(s, "/election", nil))(w.T)
		check.Must(w, naming.Register(w.Context(), other, "/names", "service", []byte("old"), nil))
		names := check.Open(naming.Watch(s, "/names", "service", nil))(w.T)
		for i := range 30 {
			check.Must(w, naming.Register(w.Context(), other, "/names", "service", fmt.Append(nil, "old ", i), &naming.Options{Replace: true}))
		}
		leader := check.Have(election.Stand(w.Context(), other, "/election", &election.Options{Data: []byte("old")}))(w.T)
		synctest.Wait()
		old.Close()
		leader.Close()
		return func() {
			check.Must(w, theirs.Set(w.Context(), "new"))
			check.Must(w, naming.Register(w.Context(), other, "/names", "service", []byte("new"), &naming.Options{Replace: true}))
			eventually(w.T, "the name", func() bool {
				for {
					select {
					case state := <-names.Changes():
						if string(state.Data) == "new" {
							return true
						}
					default:
						return false
					}
				}
			})
			eventually(w.T, "the value", func() bool { v, _, ok := value.Last(); return ok && v == "new" })
			check.Open(group.Enroll(w.Context(), other, "/group", "new", nil, nil))(w.T)
			eventually(w.T, "the member", func() bool {
				all := watcher.Members()
				return len(all) == 1 && all[0].ID == "new"
			})
			fresh := w.Open(session.Options{Timeout: 4 * time.Second}) // it knows of no past
			check.Open(election.Stand(w.Context(), fresh, "/election", &election.Options{Data: []byte("new")}))(w.T)
			eventually(w.T, "the leader", func() bool { l, ok := observer.Leader(); return ok && string(l.Data) == "new" })
			if stat, err := s.Exists(w.Context(), "/barrier"); err == nil && stat != nil {
				check.Must(w, wall.Lift(w.Context()))
			}
			check.Must(w, <-waited)
		}
	})
}

// TestHandlesUsedAfterARestore: handles that were used before are used again, without what they
// knew of the servers.
func TestHandlesUsedAfterARestore(t *testing.T) {
	afterARestore(t, func(w kit.World, s, other *session.Session) func() {
		q, p := check.Have(queue.New(s, "/queue", nil))(w.T), check.Have(queue.NewPriority(other, "/priorities", nil))(w.T)
		put := func(data string) {
			w.Helper()
			check.Have(q.Put(w.Context(), []byte(data)))(w.T)
			check.Have(p.Put(w.Context(), []byte(data), 3))(w.T)
		}
		take := func(want string) {
			w.Helper()
			one, two := check.Have(q.Take(w.Context()))(w.T), check.Have(p.Take(w.Context()))(w.T)
			check.True(w, string(one) == want && string(two) == want, "%q, %q, want %q", one, two, want)
		}
		put("before")
		take("before")
		taken := make(chan string, 1)
		go func() { taken <- string(check.Have(q.Take(w.Context()))(w.T)) }()
		name := check.Open(naming.Keep(s, "/names", "mine", []byte("address"), nil))(w.T)
		lease := check.Have(semaphore.Acquire(w.Context(), s, "/limited", 2, nil))(w.T)
		lease.Close()
		double := [2]*barrier.Double{check.Open(barrier.NewDouble(s, "/double", 2, nil))(w.T), check.Open(barrier.NewDouble(other, "/double", 2, nil))(w.T)}
		rounds := func() {
			w.Helper()
			for _, do := range []func(*barrier.Double) error{
				func(d *barrier.Double) error { return d.Enter(w.Context()) }, func(d *barrier.Double) error { return d.Leave(w.Context()) },
			} {
				done := make(chan error, 1)
				go func() { done <- do(double[0]) }()
				check.Must(w, do(double[1]))
				check.Must(w, <-done)
			}
		}
		rounds()
		rounds()
		site := check.Open(commit.Join(s, "/transactions", "site", nil))(w.T)
		go func() {
			for ev := range site.Events() {
				switch ev := ev.(type) {
				case commit.Prepare:
					_ = site.Vote(w.Context(), ev.Tx, commit.Yes)
				case commit.Committed:
					_ = site.Finish(w.Context(), ev.Tx)
				case commit.Aborted, commit.Forgotten, commit.Voted, commit.Left:
				}
			}
		}()
		transaction := func() {
			w.Helper()
			tx := check.Open(commit.Begin(w.Context(), other, "/transactions/t", &commit.Options{Sites: []string{"site"}}))(w.T)
			outcome, err := tx.Wait(w.Context())
			check.True(w, err == nil && outcome.Committed, "%v, %v", outcome, err)
			<-tx.Done()
		}
		transaction()
		return func() {
			check.Have(q.Put(w.Context(), []byte("waited for")))(w.T)
			check.True(w, <-taken == "waited for", "another item")
			put("after")
			take("after")
			eventually(w.T, "the name", func() bool {
				data, err := naming.Lookup(w.Context(), other, "/names", "mine")
				return err == nil && string(data) == "address"
			})
			check.True(w, name.Err() == nil, "%v", name.Err())
			lease := check.Have(semaphore.Acquire(w.Context(), s, "/limited", 2, nil))(w.T)
			lease.Close()
			rounds()
			transaction()
			check.Must(w, errors.Join(q.Close(w.Context()), p.Close(w.Context())))
		}
	})
}

// TestTokensAfterARestore: a grant whose fencing token would go back is an error that says so, of
// every kind of lock and of elections, also for contenders that waited. Nothing is left of it. A
// session that is opened anew is granted.
func TestTokensAfterARestore(t *testing.T) {
	layouts := map[string]*lock.Options{"standard": nil, "plain": {Layout: lock.Curator}, "priorities": {Layout: lock.Prioritized}}
	afterARestore(t, func(w kit.World, s, other *session.Session) func() {
		held := check.Have(lock.Acquire(w.Context(), s, "/held", nil))(w.T)
		waits := check.Have(lock.New(other, "/held", nil))(w.T)
		leader := check.Have(election.Stand(w.Context(), s, "/led", nil))(w.T)
		candidate := check.Have(election.New(other, "/led", nil))(w.T)
		return func() {
			<-held.Done()
			check.True(w, errors.Is(held.Err(), session.ErrLapsed), "%v", held.Err())
			<-waits.Done()
			check.True(w, errors.Is(waits.Err(), session.ErrHistoryLost) && !errors.Is(waits.Err(), lock.ErrLost) && waits.Token() == 0, "%v", waits.Err())
			for _, c := range []*election.Candidate{leader, candidate} {
				<-c.Done()
				check.True(w, errors.Is(c.Err(), session.ErrHistoryLost), "%v", c.Err())
			}
			for name, opts := range layouts {
				path := "/" + name // its own: a directory of readers stays, and says whose path it is
				for kind, acquire := range map[string]func() (*lock.Lock, error){
					"exclusive": func() (*lock.Lock, error) { return lock.Acquire(w.Context(), s, path, opts) },
					"read":      func() (*lock.Lock, error) { return lock.AcquireRead(w.Context(), s, path, opts) },
					"write":     func() (*lock.Lock, error) { return lock.AcquireWrite(w.Context(), s, path, opts) },
				} {
					got, err := acquire()
					check.True(w, got == nil && errors.Is(err, session.ErrHistoryLost), "%s, %s: %v, %v", name, kind, got, err)
				}
				synctest.Wait()
				names, _, err := other.Children(w.Context(), path)
				check.True(w, err == nil && len(names) == 0 || errors.Is(err, session.ErrNoNode) || opts != nil, "%s: left: %v, %v", name, names, err)
			}
			fresh := w.Open(session.Options{Timeout: 4 * time.Second})
			again := check.Have(lock.Acquire(w.Context(), fresh, "/held", nil))(w.T)
			again.Close()

			transact(w, fresh) // when the servers have caught up, tokens grow again
			later := check.Have(lock.Acquire(w.Context(), s, "/held", nil))(w.T)
			check.True(w, later.Token() > max(held.Token(), again.Token()), "%d after %d and %d", later.Token(), held.Token(), again.Token())
			later.Close()
		}
	})
}
