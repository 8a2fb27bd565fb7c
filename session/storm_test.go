package session_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var storms = flag.Int("session.storms", hasten.Usually(100, 25), "storms of each kind to go through")

// inStorms runs f in a bubble for every seed, with two sessions: one in the storm, and one
// that nothing is done to.
func inStorms(t *testing.T, f func(t *testing.T, w *weather, s, calm *session.Session)) {
	t.Helper()
	for seed := range hasten.Sized(*storms, 5) {
		ok := t.Run(fmt.Sprint("storm ", seed), func(t *testing.T) {
			tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
				plant(t, srv)
				calm := mustOpen(t, srv.Addrs(), &session.Options{Timeout: 20 * time.Second, Dialer: srv.DialContext})
				s := mustOpen(t, srv.Addrs(), opts)
				f(t, &weather{srv, tp, s, rand.New(rand.NewPCG(uint64(seed), 1))}, s, calm)
			})
		})
		if !ok {
			t.FailNow()
		}
	}
}

// A weather makes faults.
type weather struct {
	srv  *zktest.Server
	tp   *tap
	s    *session.Session
	dice *rand.Rand
}

// worsens makes one fault, of any kind but the loss of the session.
func (w *weather) worsens() {
	forgeries := []func([]byte) []byte{
		func(frame []byte) []byte { return frame[:len(frame)-1] },
		func(frame []byte) []byte { return append(frame, 0) },
		func(frame []byte) []byte { return withInt32(frame, 0, int32At(frame, 0)+1) },
	}
	switch id := w.s.ID(); w.dice.IntN(8) {
	case 0:
		w.srv.Disconnect(id)
	case 1:
		w.srv.Freeze(id, zktest.Direction(w.dice.IntN(3)))
	case 2:
		w.srv.DropReply(zktest.Match{Session: id, Skip: w.dice.IntN(3)})
	case 3:
		w.srv.DropRequest(zktest.Match{Session: id, Skip: w.dice.IntN(3)})
	case 4:
		w.srv.Delay(zktest.Match{Session: id}, time.Duration(w.dice.IntN(3000))*time.Millisecond)
	case 5:
		w.srv.DelayEvent(zktest.Match{Session: id}, time.Duration(w.dice.IntN(3000))*time.Millisecond)
	case 6:
		w.tp.strikeWith(forge(forgeries[w.dice.IntN(len(forgeries))]))
	case 7:
		w.srv.Thaw(0)
	}
}

// clears ends all faults, and waits until the session has got over them.
func (w *weather) clears(t *testing.T) {
	t.Helper()
	w.srv.ClearFaults()
	w.srv.Thaw(0)
	w.tp.strikeWith(strikeNothing)
	check.Must(t, exists(t, w.s))
	pass(time.Minute)
	synctest.Wait()
}

// A follower keeps what it was told last.
type follower struct {
	path   string
	aspect session.Aspect
	sub    *session.Subscription
	told   string
	zxid   int64
}

// TestFollowersInStorms: whatever happens, a follower is told of no older state after a
// newer one, and in the end of the newest, or that its epoch is over.
func TestFollowersInStorms(t *testing.T) {
	inStorms(t, func(t *testing.T, w *weather, s, calm *session.Session) {
		var mu sync.Mutex
		var all []*follower
		follow := func(a session.Async) {
			f := &follower{path: fmt.Sprint(target, "/", w.dice.IntN(4)), aspect: session.Aspect(w.dice.IntN(2))}
			all = append(all, f)
			f.sub = a.Follow(f.path, f.aspect, true, func(r session.Reading, err error) {
				mu.Lock()
				defer mu.Unlock()
				f.told = describe(f.aspect, r, err)
				check.False(t, r.Zxid != 0 && r.Zxid < f.zxid, "%s: told of %d after %d", f.path, r.Zxid, f.zxid)
				f.zxid = max(f.zxid, r.Zxid)
			})
		}
		for range 60 {
			path := fmt.Sprint(target, "/", w.dice.IntN(4))
			var err error
			switch w.dice.IntN(8) {
			case 0, 1:
				follow(s.Async(0))
			case 2:
				if len(all) > 0 {
					i := w.dice.IntN(len(all))
					all[i].sub.Cancel()
					all = slices.Delete(all, i, i+1)
				}
			case 3:
				_, err = calm.Create(t.Context(), path, nil, session.Persistent)
			case 4:
				_, err = calm.Set(t.Context(), path, []byte(fmt.Sprint(w.dice.IntN(1000))), session.AnyVersion)
			case 5:
				err = calm.Delete(t.Context(), path, session.AnyVersion)
			case 6:
				_, err = calm.Create(t.Context(), fmt.Sprint(path, "/", w.dice.IntN(1000)), nil, session.Persistent)
			case 7:
				w.worsens()
				pass(time.Duration(w.dice.IntN(2000)) * time.Millisecond)
			}
			for _, allowed := range []error{session.ErrNoNode, session.ErrNodeExists, session.ErrNotEmpty} {
				if errors.Is(err, allowed) {
					err = nil
				}
			}
			check.Must(t, err)
		}
		w.clears(t)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range all {
			if !f.sub.Over() {
				if want := describe(f.aspect, readNow(t, calm, f.path, f.aspect), nil); f.told != want {
					t.Errorf("%s: told %s, want %s", f.path, f.told, want)
				}
			} else if f.told != "over" {
				t.Errorf("%s: over, and told %s", f.path, f.told)
			}
		}
	})
}

func describe(aspect session.Aspect, r session.Reading, err error) string {
	switch {
	case errors.Is(err, session.ErrExpired):
		return "over"
	case err != nil:
		return err.Error()
	case r.Stat == nil:
		return "no node"
	case aspect == session.AspectData:
		return fmt.Sprintf("node %d: %q", r.Stat.Czxid, r.Data)
	}
	return fmt.Sprintf("node %d: %q", r.Stat.Czxid, slices.Sorted(slices.Values(r.Names)))
}

func readNow(t *testing.T, s *session.Session, path string, aspect session.Aspect) (r session.Reading) {
	t.Helper()
	var err error
	if aspect == session.AspectData {
		r.Data, r.Stat, err = s.Get(t.Context(), path)
	} else {
		r.Names, r.Stat, err = s.Children(t.Context(), path)
	}
	check.Require(t, err == nil || errors.Is(err, session.ErrNoNode), "%v", err)
	return r
}

// TestWritesInStorms: what requests say of their outcomes is true. Of callers who leave,
// nothing is left.
func TestWritesInStorms(t *testing.T) {
	inStorms(t, func(t *testing.T, w *weather, s, calm *session.Session) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		var made []string   // nodes whose creates have succeeded
		var set, doubts int // changes of the target that were made, and that may have been
		modes := []session.CreateMode{session.EphemeralSequential, session.PersistentSequential, session.Ephemeral}
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			if w.dice.IntN(2) == 0 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Duration(w.dice.IntN(3000))*time.Millisecond)
			}
			mode := modes[w.dice.IntN(len(modes))]
			wg.Go(func() {
				defer cancel()
				node, err := s.Create(ctx, fmt.Sprint(target, "/storm-", i), nil, mode)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					made = append(made, node)
				}
			})
			wg.Go(func() {
				_, err := s.Set(ctx, target, nil, session.AnyVersion)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					set++
				} else if errors.Is(err, session.ErrUnknownOutcome) {
					doubts++
				}
			})
			if w.dice.IntN(3) == 0 {
				w.worsens()
			}
			pass(time.Duration(w.dice.IntN(500)) * time.Millisecond)
		}
		id := s.ID()
		w.clears(t)
		wg.Wait()
		pass(time.Minute) // for requests without a caller
		synctest.Wait()
		_, stat, err := calm.Get(t.Context(), target)
		check.True(t, err == nil && int(stat.Version) >= set && int(stat.Version) <= set+doubts, "changed %d times, of which %d are known and %d in doubt: %v", stat.Version, set, doubts, err)
		names, _, err := calm.Children(t.Context(), target)
		check.Must(t, err)
		for _, name := range names {
			if path := target + "/" + name; name != "child" && !slices.Contains(made, path) {
				t.Errorf("nobody knows of %s", path)
			}
		}
		for _, path := range made {
			if slices.Contains(names, path[len(target)+1:]) {
				continue
			}
			if s.ID() == id { // and none has gone with its session
				t.Errorf("%s was created, and is not there", path)
			}
		}
	})
}
