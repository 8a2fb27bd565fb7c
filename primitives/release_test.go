package primitives_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRefusedRelease: a release that the server refuses says so after a session timeout, in the
// error of the call and in the last event. When the permission is back, the node goes.
func TestRefusedRelease(t *testing.T) {
	type tenant struct {
		release func(ctx context.Context) error
		last    func() error // the error of the last event; nil if there is no event, or it cannot be had here
	}
	// member joins, and owns all shards. It gives what is revoked.
	member := func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
		m := check.Have(shard.Join(s, "/r", 2, nil))(w)
		left := make(chan error, 1)
		go func() {
			for ev := range m.Events() {
				switch ev := ev.(type) {
				case shard.Revoke:
					m.Give(ev.Shard)
				case shard.Left:
					left <- ev.Err
				default:
				}
			}
		}()
		<-time.After(time.Minute)
		close(held)
		return tenant{m.Leave, func() error { return <-left }}
	}
	type row struct {
		dirs []string // in which nothing may be deleted
		hold func(w kit.World, s *session.Session, held chan<- struct{}, over <-chan struct{}) tenant
	}
	none := func() error { return session.ErrNoAuth }
	released := func(events <-chan lock.Event) func() error {
		return func() (last error) {
			for ev := range events {
				if r, is := ev.(lock.Released); is {
					last = r.Err
				}
			}
			return last
		}
	}
	held := func(opts *lock.Options) row {
		return row{[]string{"/r"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			l := check.Have(lock.Acquire(w.Context(), s, "/r", opts))(w)
			close(held)
			return tenant{l.Release, released(l.Events())}
		}}
	}
	for name, row := range map[string]row{
		"lock":       held(nil),
		"kazoo":      held(&lock.Options{Layout: lock.Kazoo}),
		"priorities": held(&lock.Options{Layout: lock.Prioritized}),
		"delayed":    held(&lock.Options{Delay: time.Minute}),
		"all": {[]string{"/r/a", "/r/b"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			all := check.Have(lock.AcquireAll(w.Context(), s, []lock.Want{{Path: "/r/a"}, {Path: "/r/b"}}, nil))(w)
			close(held)
			return tenant{all.Release, released(all.Events())}
		}},
		"mutex": {[]string{"/r"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			m := check.Have(lock.NewMutex(s, "/r", nil))(w)
			check.Must(w, m.Lock(w.Context()))
			close(held)
			return tenant{m.Unlock, none}
		}},
		"Do": {[]string{"/r"}, func(w kit.World, s *session.Session, held chan<- struct{}, over <-chan struct{}) tenant {
			done := kit.Begin(func() error {
				return lock.Do(w.Context(), s, "/r", nil, func(context.Context, int64) error { close(held); <-over; return nil })
			})
			return tenant{func(context.Context) error { return <-done }, none}
		}},
		"Once": {[]string{"/r/runners"}, func(w kit.World, s *session.Session, held chan<- struct{}, over <-chan struct{}) tenant {
			done := kit.Begin(func() error {
				outcome, err := lock.Once(w.Context(), s, "/r", nil, func(context.Context, int64) ([]byte, error) { close(held); <-over; return []byte("done"), nil })
				check.Equal(w, string(outcome), "done")
				return err
			})
			return tenant{func(context.Context) error { return <-done }, none}
		}},
		"Once that fails": {[]string{"/r/runners"}, func(w kit.World, s *session.Session, held chan<- struct{}, over <-chan struct{}) tenant {
			done := kit.Begin(func() error {
				_, err := lock.Once(w.Context(), s, "/r", nil, func(context.Context, int64) ([]byte, error) { close(held); <-over; return nil, errWork })
				check.Is(w, err, errWork)
				return err
			})
			return tenant{func(context.Context) error { return <-done }, none}
		}},
		"group": {[]string{"/r"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			m := check.Have(group.Enroll(w.Context(), s, "/r", "m", nil, nil))(w)
			close(held)
			return tenant{m.Leave, func() error { return zktest.Await(w, m.Events(), is[group.Left, group.Event]).(group.Left).Err }}
		}},
		"naming": {[]string{"/r"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			k := check.Have(naming.Keep(s, "/r", "n", nil, nil))(w)
			zktest.Await(w, k.Events(), is[naming.Registered, naming.Event])
			close(held)
			var last error
			return tenant{func(context.Context) error {
				k.Close()
				last = zktest.Await(w, k.Events(), is[naming.Unregistered, naming.Event]).(naming.Unregistered).Err
				return last
			}, func() error { return last }}
		}},
		"discovery": {[]string{"/r/web"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			k := check.Have(discovery.Announce(w.Context(), s, "/r", discovery.Instance{Service: "web", ID: "a", Address: "h"}, nil))(w)
			close(held)
			return tenant{k.Unregister, func() error {
				return zktest.Await(w, k.Events(), is[discovery.Unregistered, discovery.Event]).(discovery.Unregistered).Err
			}}
		}},
		"shards, the member": {[]string{"/r/members"}, member},
		"semaphore": {[]string{"/r/leases"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			l := check.Have(semaphore.Acquire(w.Context(), s, "/r", 1, nil))(w)
			close(held)
			return tenant{l.Release, func() (last error) {
				for ev := range l.Events() {
					if r, is := ev.(semaphore.Released); is {
						last = r.Err
					}
				}
				return last
			}}
		}},
		"election": {[]string{"/r/candidates"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			c := check.Open(election.New(s, "/r", nil))(w.T)
			zktest.Await(w, c.Events(), is[election.Elected, election.Event])
			close(held)
			return tenant{c.Resign, none}
		}},
		"Lead": {[]string{"/r/candidates"}, func(w kit.World, s *session.Session, held chan<- struct{}, over <-chan struct{}) tenant {
			c := check.Open(election.New(s, "/r", nil))(w.T)
			done := kit.Begin(func() error {
				return c.Lead(w.Context(), func(context.Context, int64) error { close(held); <-over; return errWork })
			})
			return tenant{func(context.Context) error {
				err := <-done
				check.Is(w, err, errWork)
				return err
			}, none}
		}},
		"queue": {[]string{"/r/receipts"}, func(w kit.World, s *session.Session, held chan<- struct{}, _ <-chan struct{}) tenant {
			q := check.Have(queue.New(s, "/r", nil))(w)
			check.Have(q.Put(w.Context(), []byte("a")))(w)
			close(held)
			return tenant{q.Close, none}
		}},
		"shard": {[]string{"/r/shards/0", "/r/shards/1"}, member},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.Run(t, zktest.Config{}, func(w kit.World) {
				s := w.Open(session.Options{Timeout: 10 * time.Second})
				o := w.Open(session.Options{Auth: []session.Auth{{Scheme: "digest", Secret: []byte("op:secret")}}})
				held, over := make(chan struct{}), make(chan struct{})
				who := row.hold(w, s, held, over)
				<-held
				mine := len(owned(w, o, s.ID()))
				all := session.CreatorAll()
				permit := func(perms session.Perms) {
					for _, dir := range row.dirs {
						check.Have(o.SetACL(w.Context(), dir, append(all, session.ACL{Perms: perms, Scheme: "world", ID: "anyone"}), session.AnyVersion))(w)
					}
				}
				permit(session.PermRead | session.PermWrite | session.PermCreate)
				began := time.Now()
				close(over)
				err := who.release(w.Context())
				check.Is(t, err, session.ErrNoAuth)
				check.True(t, err != nil && strings.Contains(err.Error(), " /r/"), "%v names no node", err)
				check.True(t, time.Since(began) < 20*time.Second, "after %v", time.Since(began))
				check.Is(t, who.last(), session.ErrNoAuth)
				check.True(t, len(owned(w, o, s.ID())) > 0, "none of %d nodes stands", mine)
				permit(session.PermRead | session.PermWrite | session.PermCreate | session.PermDelete)
				<-time.After(10 * time.Minute)
				if name != "election" && name != "Lead" { // the candidate stands again
					check.Equal(t, len(owned(w, o, s.ID())), 0)
				}
			})
		})
	}
}

// failures counts the reports of losses and failures.
type failures struct {
	session.NopObserver

	n atomic.Int32
}

func (f *failures) Lost(string, string, error)   { f.n.Add(1) }
func (f *failures) Failed(string, string, error) { f.n.Add(1) }

// TestRefusedCloseIsNoFailure: a candidate that was closed has neither lost nor failed, although
// the server refuses to delete its node: its last event says so.
func TestRefusedCloseIsNoFailure(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		var observed failures
		s, o := w.Open(session.Options{Observer: &observed}), w.Open(session.Options{Auth: []session.Auth{{Scheme: "digest", Secret: []byte("op:secret")}}})
		c := check.Have(election.New(s, "/r", nil))(w)
		zktest.Await(w, c.Events(), is[election.Elected, election.Event])
		acl := append(session.CreatorAll(), session.ACL{Perms: session.PermRead | session.PermWrite | session.PermCreate, Scheme: "world", ID: "anyone"})
		check.Have(o.SetACL(w.Context(), "/r/candidates", acl, session.AnyVersion))(w)
		c.Close()
		check.Is(w, zktest.Await(w, c.Events(), is[election.Left, election.Event]).(election.Left).Err, session.ErrNoAuth)
		check.Equal(w, observed.n.Load(), 0)
	})
}

var errWork = errors.New("the work has failed")

// owned returns the ephemeral nodes of a session.
func owned(w kit.World, o *session.Session, id int64) (all []string) {
	for _, path := range w.Paths() {
		if stat, err := o.Exists(w.Context(), path); err == nil && stat != nil && stat.EphemeralOwner == id {
			all = append(all, path)
		}
	}
	return all
}
