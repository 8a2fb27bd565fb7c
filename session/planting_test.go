package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFollowCreated: a node that is watched without a read is told of as others are, also if
// it was changed or deleted before the watch stood.
func TestFollowCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.NewServer(zktest.Config{InProcess: true, Latency: time.Millisecond})
		check.Must(t, err)
		defer srv.Close()
		var all [2]*session.Session
		for i := range all {
			if all[i], err = session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext}); err != nil {
				t.Fatal(err)
			}
			defer all[i].Close()
		}
		s, other := all[0], all[1]
		const n = 20
		const changed, deleted = 10, 11 // both are created together with others
		var told [n][]string
		stats := map[string]session.Stat{}
		for i := range n {
			check.Must(t, s.EnsurePath(t.Context(), fmt.Sprintf("/dir-%d", i)))
		}
		for i := range n {
			dir := fmt.Sprintf("/dir-%d", i)
			requests := s.Async(1).In(new(session.Lane))
			requests.Share([]session.Op{
				session.CreateOp(dir+"/n-", []byte("own"), session.EphemeralSequential),
				session.SetOp(dir, nil, session.AnyVersion),
			}, func(results []session.OpResult, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				requests.FollowCreated(results[0].Path, []byte("own"), results[0], results[1], func(r session.Reading, err error) {
					switch {
					case errors.Is(err, session.ErrNoNode):
						told[i] = append(told[i], "gone")
					case err != nil:
						t.Error(err)
					default:
						told[i] = append(told[i], string(r.Data))
						stats[results[0].Path] = *r.Stat
					}
				})
			})
		}
		srv.Delay(zktest.Match{Op: zktest.OpSetWatches}, 100*time.Millisecond)
		srv.Delay(zktest.Match{Op: zktest.OpSetWatches}, 100*time.Millisecond)
		<-time.After(50 * time.Millisecond)
		for _, i := range []int{changed, deleted} {
			node := fmt.Sprintf("/dir-%d/n-0000000000", i)
			if i == changed {
				_, err = other.Set(t.Context(), node, []byte("new"), session.AnyVersion)
			} else {
				err = other.Delete(t.Context(), node, session.AnyVersion)
			}
			check.Must(t, err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		for path, as := range stats {
			if stat, err := other.Exists(t.Context(), path); err != nil || *stat != as {
				t.Errorf("told %+v, there is %+v, %v", as, stat, err)
			}
		}
		check.Must(t, other.Delete(t.Context(), "/dir-19/n-0000000000", session.AnyVersion))
		<-time.After(time.Second)
		synctest.Wait()
		for i := range n {
			want := "[own]"
			switch i {
			case changed:
				want = "[new]"
			case deleted:
				want = "[gone]"
			case n - 1:
				want = "[own gone]"
			}
			check.Equal(t, fmt.Sprint(told[i]), want, i, "told")
		}
		if requests := srv.Requests(); requests[zktest.OpSetWatches] == 0 {
			t.Errorf("no watch was planted: %v", requests)
		}
	})
}

// TestPlantingInStorms: whatever happens, who follows a node that was created together with others
// is told, in the end, what has become of it, and of the node that is watched with it.
func TestPlantingInStorms(t *testing.T) {
	const parents = 12
	type place struct {
		mu    sync.Mutex
		sub   *session.Subscription
		path  string
		told  string
		lane  session.Lane
		epoch int

		ahead, toldAhead string // another node, which is watched with it and not read
	}
	inStorms(t, func(t *testing.T, w *weather, s, calm *session.Session) {
		for i := range parents {
			check.Must(t, calm.EnsurePath(t.Context(), fmt.Sprint(target, "/p", i)))
		}
		var epoch atomic.Int64
		defer s.Subscribe(func(ev session.Event) <-chan struct{} {
			if c, ok := ev.(session.Connected); ok {
				epoch.Store(int64(c.Epoch))
			}
			return nil
		})()
		synctest.Wait()
		var all []*place
		enter := func(i int) {
			p := &place{epoch: int(epoch.Load())}
			if len(all) >= parents {
				before := all[len(all)-parents]
				before.mu.Lock()
				p.ahead = before.path
				before.mu.Unlock()
			}
			all = append(all, p)
			requests := s.Async(p.epoch).In(&p.lane)
			dir, data := fmt.Sprint(target, "/p", i), []byte("own")
			requests.Share([]session.Op{
				session.CreateOp(dir+"/n-", data, session.EphemeralSequential), session.SetOp(dir, nil, session.AnyVersion),
			}, func(results []session.OpResult, err error) {
				if err != nil {
					return
				}
				hear := func(told *string) func(session.Reading, error) {
					return func(r session.Reading, err error) {
						p.mu.Lock()
						defer p.mu.Unlock()
						switch *told = describe(session.AspectData, r, err); {
						case errors.Is(err, session.ErrNoNode):
							*told = "no node"
						case err == nil && r.Stat.Czxid == 0:
							*told = "unread"
						}
					}
				}
				var sub *session.Subscription
				if p.ahead == "" {
					sub = requests.FollowCreated(results[0].Path, data, results[0], results[1], hear(&p.told))
				} else {
					sub, _ = requests.FollowTogether(results[0].Path, data, results[1], hear(&p.told),
						[]session.Other{{Path: p.ahead, Tell: hear(&p.toldAhead)}})
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				p.path, p.sub = results[0].Path, sub
			})
		}
		change := func(p *place) (err error) {
			p.mu.Lock()
			path := p.path
			p.mu.Unlock()
			switch kind := w.dice.IntN(4); {
			case path == "":
			case kind == 0:
				_, err = calm.Set(t.Context(), path, fmt.Append(nil, w.dice.IntN(1000)), session.AnyVersion)
			case kind == 1:
				err = calm.Delete(t.Context(), path, session.AnyVersion)
			case kind == 2:
				s.Async(p.epoch).In(&p.lane).Withdraw(path, func(error) {})
			default:
				s.Async(p.epoch).Follow(path, session.AspectChildren, false, func(session.Reading, error) {})
			}
			if errors.Is(err, session.ErrNoNode) {
				err = nil
			}
			return err
		}
		for range 12 {
			if w.dice.IntN(3) > 0 {
				w.worsens()
			}
			for i := range parents {
				enter(i)
			}
			for range w.dice.IntN(10) {
				if w.dice.IntN(3) > 0 {
					pass(time.Duration(w.dice.IntN(3)) * time.Millisecond)
				}
				check.Must(t, change(all[len(all)-1-w.dice.IntN(min(len(all), 2*parents))]))
			}
			pass(time.Duration(w.dice.IntN(2000)) * time.Millisecond)
		}
		w.clears(t)
		for _, p := range all {
			p.mu.Lock()
			switch {
			case p.sub == nil || p.told == "over":
			case p.told == "":
				t.Errorf("%s: told nothing", p.path)
			default:
				if want := describe(session.AspectData, readNow(t, calm, p.path, session.AspectData), nil); p.told != want {
					t.Errorf("%s: told %s, want %s", p.path, p.told, want)
				}
				if p.ahead == "" || p.toldAhead == "over" {
					break
				}
				now := readNow(t, calm, p.ahead, session.AspectData)
				if want := describe(session.AspectData, now, nil); p.toldAhead != want && (p.toldAhead != "unread" || now.Stat == nil || now.Stat.Version > 0) {
					t.Errorf("%s, beside %s: told %s, want %s", p.ahead, p.path, p.toldAhead, want)
				}
			}
			p.mu.Unlock()
		}
	})
}

// TestPlantingIsLost: a node was changed before its watch was to be planted, the request for that
// is lost with its connection, and what the session has seen since is newer.
func TestPlantingIsLost(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s, other := mustOpen(t, srv.Addrs(), opts), mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		const n = 8
		for i := range n {
			check.Must(t, other.EnsurePath(t.Context(), fmt.Sprint("/p", i)))
		}
		srv.Delay(zktest.Match{Op: zktest.OpSetData, Path: "/p0"}, 100*time.Millisecond)
		srv.Delay(zktest.Match{Op: zktest.OpSetWatches}, time.Second)
		var told [n]string
		var nodes [n]string
		for i := range n {
			requests := s.Async(1).In(new(session.Lane))
			dir := fmt.Sprint("/p", i)
			requests.Share([]session.Op{
				session.CreateOp(dir+"/n-", []byte("own"), session.EphemeralSequential), session.SetOp(dir, nil, session.AnyVersion),
			}, func(results []session.OpResult, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				nodes[i] = results[0].Path
				requests.FollowCreated(nodes[i], []byte("own"), results[0], results[1], func(r session.Reading, err error) {
					told[i] = fmt.Sprintf("%s %v", r.Data, err)
				})
			})
		}
		pass(2500 * time.Microsecond)                                                 // what is created together is on its way
		s.Async(1).Set("/p0", nil, session.AnyVersion, func(*session.Stat, error) {}) // what plants comes later
		pass(20 * time.Millisecond)
		synctest.Wait()
		for _, node := range nodes {
			check.Have(other.Set(t.Context(), node, []byte("new"), session.AnyVersion))(t)
		}
		pass(500 * time.Millisecond)
		check.Equal(t, srv.RequestsOf(s.ID())[zktest.OpSetWatches], 1, "requests have planted watches")
		srv.Disconnect(s.ID())
		pass(time.Second)
		synctest.Wait()
		for i := range n {
			check.Equal(t, told[i], "new <nil>", nodes[i], "told")
		}
	})
}

// TestFollowTogether: nodes of others that are watched without being read, by the request that
// watches an own one.
func TestFollowTogether(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s, other := mustOpen(t, srv.Addrs(), opts), mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		secret := mustOpen(t, srv.Addrs(), &session.Options{
			Dialer: srv.DialContext, ACL: session.CreatorAll(), Auth: []session.Auth{{Scheme: "digest", Secret: []byte("u:p")}},
		})
		defer secret.Close()
		set := func(path string) func() error {
			return func() error {
				_, err := other.Set(t.Context(), path, []byte("new"), session.AnyVersion)
				return err
			}
		}
		remove := func(path string) func() error {
			return func() error { return other.Delete(t.Context(), path, session.AnyVersion) }
		}
		nothing := func() error { return nil }
		told, followed := map[string][]string{}, map[string][]string{}
		hear := func(told map[string][]string, name string) func(session.Reading, error) {
			return func(r session.Reading, err error) {
				switch {
				case errors.Is(err, session.ErrNoNode):
					told[name] = append(told[name], "gone")
				case err != nil:
					told[name] = append(told[name], err.Error())
				case r.Stat.Czxid == 0:
					told[name] = append(told[name], "watched")
				default:
					told[name] = append(told[name], string(r.Data))
				}
			}
		}
		tooLong := "long" + strings.Repeat("x", 128<<10) // for the request that sets the watches: it is read
		rows := []struct {
			name          string
			before, after func() error // the watch is planted
			want, follows string       // who follows it between the two is told
		}{
			{"stands", nothing, nothing, "watched old", "old"},
			{"goes", nothing, remove("/l/goes"), "watched old gone", "old gone"},
			{"went", remove("/l/went"), nothing, "gone", "gone"},
			{"changes", nothing, set("/l/changes"), "watched old new", "old new"},
			{"changed", set("/l/changed"), nothing, "new", "new"},
			{"alone", nothing, remove("/l/alone"), "watched gone", ""},
			{"restless", nothing, set("/l/restless"), "watched new", ""},
			{"secret", nothing, remove("/l/secret"), "watched", ""},
			{"known", nothing, remove("/l/known"), "old gone", "old gone"},
			{tooLong, nothing, remove("/l/" + tooLong), "old gone", ""},
		}
		check.Must(t, other.EnsurePath(t.Context(), "/l"))
		var beside []session.Other
		for _, row := range rows {
			owner := other
			if row.name == "secret" {
				owner = secret
			}
			check.Have(owner.Create(t.Context(), "/l/"+row.name, []byte("old"), session.Ephemeral))(t)
			beside = append(beside, session.Other{Path: "/l/" + row.name, Tell: hear(told, row.name)})
		}
		beside = append(beside, session.Other{Path: "nonsense", Tell: func(_ session.Reading, err error) {
			check.Is(t, err, session.ErrInvalidPath)
		}})
		follow := func(name string) { s.Async(1).Follow("/l/"+name, session.AspectData, false, hear(followed, name)) }
		follow("known")
		synctest.Wait()
		pass(time.Second)
		srv.Delay(zktest.Match{Op: zktest.OpSetWatches}, 100*time.Millisecond)
		srv.ResetRequests()
		own := ""
		requests := s.Async(1).In(new(session.Lane))
		requests.Share([]session.Op{
			session.CreateOp("/l/own-", []byte("own"), session.EphemeralSequential), session.SetOp("/l", nil, session.AnyVersion),
		}, func(results []session.OpResult, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			own = results[0].Path
			requests.FollowTogether(own, []byte("own"), results[1], hear(told, "own"), beside)
		})
		pass(50 * time.Millisecond)
		for _, row := range rows {
			check.Must(t, row.before())
		}
		pass(time.Second)
		if got := srv.RequestsOf(s.ID()); got[zktest.OpSetWatches] != 1 || got[zktest.OpGetData] != 3 { // of what has changed, and of what is too long
			t.Errorf("planted by %v", got)
		}
		for _, row := range rows {
			if row.follows != "" && row.name != "known" {
				follow(row.name)
			}
		}
		pass(time.Second)
		for _, row := range rows {
			check.Must(t, row.after())
		}
		check.Must(t, remove(own)())
		pass(time.Second)
		synctest.Wait() // for the race detector
		for _, row := range rows {
			check.Equal(t, fmt.Sprint(told[row.name]), "["+row.want+"]", row.name, "told")
			check.Equal(t, fmt.Sprint(followed[row.name]), "["+row.follows+"]", row.name, "who follows is told")
		}
		check.Equal(t, fmt.Sprint(told["own"]), "[own gone]", "own: told")
	})
}
