package shard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A journal counts the warnings of a session.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) warnings(of string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, of) {
			n++
		}
	}
	return n
}

func (w *world) openLogged(opts session.Options) (*session.Session, *journal) {
	j := new(journal)
	opts.Timeout, opts.ServerTick, opts.Logger = 12*time.Second, time.Second, slog.New(slog.NewTextHandler(j, nil))
	return w.Open(opts), j
}

// TestBlindNeighbour: a neighbour whose node cannot be read is found to be gone all the same.
func TestBlindNeighbour(t *testing.T) {
	inBubble(t, func(w *world) {
		b := w.join(w.open(), "b", 4, shard.Options{})
		w.settle()
		_, err := b.session.SetACL(w.Context(), orders+"/members/b", []session.ACL{{Perms: session.PermWrite, Scheme: "world", ID: "anyone"}}, session.AnyVersion)
		check.OK(t, err)
		s, log := w.openLogged(session.Options{})
		w.join(s, "a", 4, shard.Options{})
		w.settle()
		check.Equal(t, w.counts(), "[a:2 b:2]")
		kit.Pass(time.Hour)
		check.Equal(t, log.warnings("cannot be watched"), 1)
		b.stops()
		b.session.Close()
		kit.Pass(20 * time.Second)
		check.Equal(t, w.counts(), "[a:4]")
	})
}

// TestOneWarning: what is refused again and again is warned of once, and is no loss: shards after a
// restored backup, and one that an ACL keeps from all, while others move.
func TestOneWarning(t *testing.T) {
	t.Run("restored", func(t *testing.T) {
		inBubble(t, func(w *world) {
			s, log := w.openLogged(session.Options{})
			w.join(s, "a", 4, shard.Options{})
			w.settle()
			backup, other := w.Backup(), w.open()
			for range 300 {
				_, err := other.Create(w.Context(), "/other", nil, session.PersistentSequential)
				check.OK(t, err)
			}
			check.OK(t, s.Sync(w.Context(), "/"))
			w.Restore(backup)
			kit.Pass(5 * time.Minute)
			check.Equal(t, log.warnings("lost history"), 1)
		})
	})
	t.Run("forbidden", func(t *testing.T) {
		inBubble(t, func(w *world) {
			check.OK(t, w.open().EnsurePath(w.Context(), orders+"/shards/3"))
			_, err := w.open().SetACL(w.Context(), orders+"/shards/3", []session.ACL{{Perms: session.PermRead, Scheme: "world", ID: "anyone"}}, session.AnyVersion)
			check.OK(t, err)
			s, log := w.openLogged(session.Options{})
			w.join(s, "a", 4, shard.Options{})
			for range 5 { // others come and go
				kit.Pass(20 * time.Second)
				b := w.join(w.open(), "b", 4, shard.Options{})
				w.settle()
				check.OK(t, b.Leave(w.Context()))
				w.settle()
			}
			check.Equal(t, log.warnings("shards may be without an owner"), 1)
			check.Equal(t, w.counts(), "[a:3]")
		})
	})
}

// TestRefusedByMany: of many shards that are refused a few are tried again. When one is granted, so
// are all.
func TestRefusedByMany(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 500
		admin := w.open()
		allow := func(perms session.Perms) {
			for i := range n {
				_, err := admin.SetACL(w.Context(), fmt.Sprintf("%s/shards/%d", orders, i), []session.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}, session.AnyVersion)
				check.OK(t, err)
			}
		}
		for i := range n {
			check.OK(t, admin.EnsurePath(w.Context(), fmt.Sprintf("%s/shards/%d", orders, i)))
		}
		allow(session.PermRead | session.PermAdmin)
		w.join(w.open(), "a", n, shard.Options{})
		w.settle()
		w.ResetRequests()
		kit.Pass(time.Minute)
		check.True(t, w.Requests().Total() < n, "in a minute: %v", w.Requests())
		allow(session.PermAll)
		kit.Pass(20 * time.Second)
		check.Equal(t, w.counts(), fmt.Sprintf("[a:%d]", n))
	})
}

// TestRoom: a member gets no more shards than its session has room for. What nobody can have waits
// for another member.
func TestRoom(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 3000
		path := "/" + strings.Repeat("long", 100)
		join := func(id string) (*shard.Member, *journal) {
			s, log := w.openLogged(session.Options{})
			m := check.Open(shard.Join(s, path, n, &shard.Options{ID: id}))(w)
			go func() {
				for ev := range m.Events() {
					if r, is := ev.(shard.Revoke); is {
						m.Give(r.Shard)
					}
				}
			}()
			return m, log
		}
		a, log := join("a")
		kit.Pass(time.Minute)
		has := len(a.Owned())
		check.True(t, has > 1000 && has < n, "it has %d", has)
		check.Equal(t, log.warnings("no room"), 1)
		w.ResetRequests()
		kit.Pass(time.Minute)
		check.True(t, w.Requests().Total() < 100, "in an idle minute: %v", w.Requests())
		b, _ := join("b")
		kit.Pass(time.Minute)
		check.Equal(t, len(a.Owned()), n/2)
		check.Equal(t, len(b.Owned()), n/2)
	})
}

// TestForgets: a plan that is too large for a request forgets who had the shards before.
func TestForgets(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 1000
		join := func(id string) *user {
			s, _ := w.openLogged(session.Options{MaxRequest: 5000})
			return w.join(s, id, n, shard.Options{AtOnce: n})
		}
		join("a")
		w.settle()
		for i := range 5 {
			b := join(fmt.Sprint("b", i))
			w.settle()
			check.Equal(t, w.counts(), fmt.Sprintf("[a:%d b%d:%d]", n/2, i, n/2))
			b.stops()
			b.Close()
			w.settle()
			check.Equal(t, w.counts(), fmt.Sprintf("[a:%d]", n))
		}
	})
}

// TestNobody: a placement is not asked to choose among nobody.
func TestNobody(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 4, shard.Options{Placement: func(c shard.Cluster) (owners []int) {
			for i := range c.Owners {
				owners = append(owners, i%len(c.Peers))
			}
			return owners
		}})
		w.settle()
		check.OK(t, a.SetWeight(w.Context(), 0))
		w.settle()
		check.Equal(t, w.counts(), "[]")
		check.OK(t, a.Leave(w.Context()))
	})
}

// TestWeightsAtOnce: of several weights that are set at once, the node and the plan have the same.
func TestWeightsAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 12, shard.Options{})
		w.settle()
		read := func(dir string) (p shard.Peer) {
			data, _, err := a.session.Get(w.Context(), orders+dir+"/a")
			check.OK(t, err)
			check.OK(t, json.Unmarshal(data, &p))
			return p
		}
		for range 100 {
			var all sync.WaitGroup
			for k := range 4 {
				all.Go(func() { check.OK(t, a.SetWeight(w.Context(), 1+k)) })
			}
			all.Wait()
			w.settle()
			check.Equal(t, read("/members"), read("/plan/records"))
		}
	})
}

// erase deletes what is at path, and the node itself, as far as that goes.
func erase(ctx context.Context, s *session.Session, path string, between func()) {
	names, _, _ := s.Children(ctx, path)
	for _, name := range names {
		erase(ctx, s, path+"/"+name, between)
	}
	_ = s.Delete(ctx, path, session.AnyVersion)
	between()
}

// TestErased: an operator deletes everything, again and again, also while plans are written.
func TestErased(t *testing.T) {
	short := hasten.Sized(hasten.Usually(300, 30), 12)
	for seed := range short + 3 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		rounds, longest := 1+r.IntN(6), 20*time.Millisecond
		if seed >= short {
			rounds, longest = 60, time.Nanosecond
		}
		inBubbleWith(t, zktest.Config{Tick: time.Second, Latency: time.Duration(seed%3) * time.Millisecond}, func(w *world) {
			var all []*shard.Member
			for i := range 4 {
				all = append(all, check.Open(shard.Join(w.open(), orders, 4, &shard.Options{ID: fmt.Sprint(i)}))(w))
			}
			w.settle()
			s := w.open()
			for range rounds {
				for _, dir := range []string{"/members", "/plan", "/members"} {
					erase(w.Context(), s, orders+dir, func() {
						if r.IntN(4) == 0 {
							kit.Pass(time.Duration(r.Int64N(int64(longest))))
						}
					})
				}
				kit.Pass(time.Duration(r.IntN(2_000)) * time.Millisecond)
			}
			kit.Pass(time.Minute)
			for _, m := range all {
				check.Len(t, m.Owned(), 1, seed)
			}
		})
	}
}
