package inspect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// newest waits until nothing happens any more, and returns the newest survey: the one before if
// there is no other.
func newest(t *testing.T, w *inspect.Watcher, before *inspect.Survey) *inspect.Survey {
	t.Helper()
	return within(t, 10*time.Second, w, before)
}

// within is newest after a wait.
func within(t *testing.T, wait time.Duration, w *inspect.Watcher, before *inspect.Survey) *inspect.Survey {
	t.Helper()
	<-time.After(wait)
	synctest.Wait()
	select {
	case survey, ok := <-w.Surveys():
		if !ok {
			t.Fatal(w.Err())
		}
		return survey
	default:
		return before
	}
}

// asText returns what two surveys of the same nodes have in common.
func asText(survey *inspect.Survey) string {
	if survey == nil {
		return "none"
	}
	same := *survey
	same.Taken = time.Time{}
	text, _ := json.MarshalIndent(same, "", " ")
	return string(text)
}

func watchAll(t *testing.T, s *session.Session, path string, opts *inspect.Options) *inspect.Watcher {
	t.Helper()
	w := check.Open(inspect.Watch(s, path, opts))(t)
	_ = w.Surveys()
	return w
}

// After whatever happens, what is watched is what a look finds. If all can be watched, nothing
// waits for the time to poll.
func TestWatchConverges(t *testing.T) {
	for seed := range hasten.Sized[uint64](20, 3) {
		for _, opts := range []*inspect.Options{nil, {MaxWatched: 5, Window: 2}} {
			wait := 2 * time.Second
			if opts != nil {
				wait = 10 * time.Second
			}
			t.Run(fmt.Sprint(seed, " ", opts != nil), func(t *testing.T) {
				inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
					random := rand.New(rand.NewPCG(seed, 1))
					w := watchAll(t, all[0], "/a", opts)
					var last *inspect.Survey
					for range 12 {
						for range 1 + random.IntN(8) {
							change(t, random, srv, all)
						}
						last = within(t, wait, w, last)
						seen := check.Have(inspect.Look(t.Context(), all[1], "/a", nil))(t)
						if got, want := asText(last), asText(seen); got != want {
							t.Fatalf("watched %s\nlooked %s", got, want)
						}
					}
				})
			})
		}
	}
}

// change changes something below /a.
func change(t *testing.T, random *rand.Rand, srv *zktest.Server, all []*session.Session) {
	s := all[1]
	pick := func(names ...string) string { return names[random.IntN(len(names))] }
	dir := "/a/" + pick("x", "y", "y/z")
	number := fmt.Sprintf("%010d", random.IntN(5))
	node := dir + "/" + pick("_c_1-lock-"+number, "_c_2-read-"+number, "_c_3-__WRIT__"+number, "_c_4-latch-"+number, "queue-"+number, "plain", "leases", "candidates", "leader", "claims")
	switch random.IntN(12) {
	case 0:
		srv.Disconnect(all[0].ID())
	case 1:
		srv.Expire(all[0].ID())
		synctest.Wait()
	case 2, 3, 4:
		_ = s.Delete(t.Context(), node, session.AnyVersion)
	case 5:
		_, _ = s.Set(t.Context(), dir, []byte(pick("", "3 unit", "priority 1", "double-barrier-1 1 2\n", "x")), session.AnyVersion)
	case 6:
		_ = s.Delete(t.Context(), dir, session.AnyVersion)
	case 7, 8:
		_, _ = s.Create(t.Context(), node, []byte("data"), session.Ephemeral)
	default:
		if err := s.EnsurePath(t.Context(), dir); err == nil {
			_, _ = s.Create(t.Context(), node, []byte(pick("data", "")), session.Persistent)
		}
	}
}

// A hand-over is seen after the pause.
func TestHandover(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		w := watchAll(t, all[0], "/l", nil)
		first := check.Have(lock.Acquire(t.Context(), all[1], "/l", opts("a", lock.Standard)))(t)
		check.Open(lock.New(all[2], "/l", opts("b", lock.Standard)))(t)
		if got := brief(the(t, newest(t, w, nil))); got != "a exclusive holds; b exclusive" {
			t.Error(got)
		}
		begun := time.Now()
		first.Close()
		if got := brief(the(t, <-w.Surveys())); got != "b exclusive holds" || time.Since(begun) > time.Second {
			t.Error(got, time.Since(begun))
		}
		check.Must(t, lock.Revoke(t.Context(), all[2], "/l", nil))
		if got := brief(the(t, <-w.Surveys())); got != "b exclusive holds revoked" {
			t.Error(got)
		}
	})
}

// A long line that moves costs two lists in a pause, and a read of each contender that is new.
func TestLongLineIsNoStorm(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		waiters, changes := hasten.Sized(10_000, 1000), hasten.Sized(500, 100)
		names := make([]string, waiters)
		for i := range names {
			names[i] = fmt.Sprintf("/l/_c_%d-lock-%010d", i, i)
		}
		create := func(name string, answer func()) {
			all[1].Async(0).Create(name, []byte("host:1"), session.Persistent, func(_ string, err error) {
				check.OK(t, err)
				answer()
			})
		}
		check.Must(t, all[1].EnsurePath(t.Context(), "/l"))
		for _, name := range names {
			create(name, func() {})
		}
		synctest.Wait()
		w := watchAll(t, all[0], "/l", nil)
		last := newest(t, w, nil)
		if n := len(the(t, last).Contenders); n != waiters {
			t.Fatal(n, "contenders")
		}
		before := srv.RequestsOf(all[0].ID())
		begun := time.Now()
		for i := range changes { // the first leaves, and another comes, each 10 ms
			check.Must(t, all[1].Delete(t.Context(), names[i], session.AnyVersion))
			create(fmt.Sprintf("/l/_c_%d-lock-%010d", waiters+i, waiters+i), func() {})
			<-time.After(10 * time.Millisecond)
		}
		last = newest(t, w, last)
		contenders := the(t, last).Contenders
		if len(contenders) != waiters || contenders[0].Node != names[changes] || !contenders[0].Holds {
			t.Errorf("%d contenders, %+v", len(contenders), contenders[0])
		}
		after := srv.RequestsOf(all[0].ID())
		lists := after[zktest.OpGetChildren2] - before[zktest.OpGetChildren2]
		reads := after[zktest.OpGetData] - before[zktest.OpGetData]
		pauses := int(time.Since(begun)/(750*time.Millisecond)) + 1
		if lists > 2*pauses || reads > changes+4*pauses {
			t.Errorf("%d lists and %d reads for %d changes in %d pauses", lists, reads, changes, pauses)
		}
	})
}

// A change among many locks costs as many requests as one among few: only what has changed is read.
func TestOneChangeAmongMany(t *testing.T) {
	costs := make(map[int]map[zktest.Op]int)
	for _, locks := range []int{20, 2000} {
		inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			contender := func(i, number int) string {
				return fmt.Sprintf("/l/%d/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-%010d", i, number)
			}
			create := func(node string, data []byte) {
				all[1].Async(0).Create(node, data, session.Persistent, func(_ string, err error) { check.OK(t, err) })
			}
			check.Must(t, all[1].EnsurePath(t.Context(), "/l"))
			for i := range locks {
				create(fmt.Sprint("/l/", i), nil)
				create(contender(i, 0), []byte("first"))
				create(contender(i, 1), []byte("second"))
			}
			w := watchAll(t, all[0], "/l", &inspect.Options{MaxWatched: 10_000})
			survey := newest(t, w, nil)
			before := srv.RequestsOf(all[0].ID())
			check.Must(t, all[1].Delete(t.Context(), contender(7, 0), session.AnyVersion)) // handed over
			check.Have(all[1].Set(t.Context(), contender(8, 0), []byte("other"), session.AnyVersion))(t)
			next := newest(t, w, survey)
			got := map[string]string{}
			for i, thing := range next.Things {
				if was := brief(survey.Things[i]); was != brief(thing) {
					got[thing.Path] = brief(thing)
				}
			}
			if len(next.Things) != locks || fmt.Sprint(got) != "map[/l/7:second exclusive holds /l/8:other exclusive holds; second exclusive]" {
				t.Errorf("%d things, changed: %v", len(next.Things), got)
			}
			costs[locks] = srv.RequestsOf(all[0].ID())
			maps.DeleteFunc(costs[locks], func(op zktest.Op, _ int) bool { return op == zktest.OpPing })
			for op := range costs[locks] {
				costs[locks][op] -= before[op]
			}
			maps.DeleteFunc(costs[locks], func(_ zktest.Op, n int) bool { return n == 0 })
		})
	}
	// The line that has changed, its new holder, and the data that was written.
	if want := (map[zktest.Op]int{zktest.OpGetChildren2: 1, zktest.OpGetData: 2}); !maps.Equal(costs[20], want) || !maps.Equal(costs[2000], want) {
		t.Errorf("%v, want %v", costs, want)
	}
}

// Nodes that are not watched are read at intervals, not after each change elsewhere.
func TestChangesDoNotPoll(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		for i := range 200 {
			check.Must(t, all[1].EnsurePath(t.Context(), fmt.Sprint("/l/", i, "/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-0000000000")))
		}
		w := watchAll(t, all[0], "/l", &inspect.Options{MaxWatched: 10}) // the directory, and the first locks
		last := newest(t, w, nil)
		minute := func(change func(i int)) (reads int) {
			before := srv.RequestsOf(all[0].ID())
			for i := range 20 {
				change(i)
				last = within(t, 3*time.Second, w, last)
			}
			after := srv.RequestsOf(all[0].ID())
			return after[zktest.OpGetData] + after[zktest.OpGetChildren2] - before[zktest.OpGetData] - before[zktest.OpGetChildren2]
		}
		quiet := minute(func(int) {})
		busy := minute(func(i int) { check.Have(all[1].Set(t.Context(), "/l", []byte{byte(i)}, session.AnyVersion))(t) })
		if quiet < 10*600 || busy > quiet+600+20 { // six hundred for each time, which may be one more
			t.Errorf("%d reads in a quiet minute, %d in a busy one", quiet, busy)
		}
	})
}

// Two changes of a long line in one pause are both seen, without waiting for the time to poll.
func TestLongLineTwice(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		contender := func(i int) string { return fmt.Sprintf("/l/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-%010d", i) }
		for i := range 100 {
			check.Must(t, all[1].EnsurePath(t.Context(), contender(i)))
		}
		w := watchAll(t, all[0], "/l", nil)
		last := newest(t, w, nil)
		for i := range 2 {
			check.Must(t, all[1].Delete(t.Context(), contender(i), session.AnyVersion))
			<-time.After(100 * time.Millisecond)
		}
		if got := the(t, within(t, time.Second, w, last)); got.Line != 98 || len(got.Contenders) != 98 || got.Contenders[0].Node != contender(2) {
			t.Errorf("%d in line, %d contenders, the first is %s", got.Line, len(got.Contenders), got.Contenders[0].Node)
		}
	})
}

// A path that is deleted and stands again, at once or between two surveys, is seen within a second.
func TestStandsAgain(t *testing.T) {
	for _, away := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond} {
		for _, below := range []string{"/l", "/"} {
			t.Run(fmt.Sprint(away, below), func(t *testing.T) {
				inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
					node := "/l/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-0000000000"
					stand := func(data string) {
						check.Must(t, all[1].EnsurePath(t.Context(), "/l"))
						check.Have(all[1].Create(t.Context(), node, []byte(data), session.Persistent))(t)
					}
					stand("first")
					w := watchAll(t, all[0], below, nil)
					last := newest(t, w, nil)
					check.Must(t, all[1].Delete(t.Context(), node, session.AnyVersion))
					check.Must(t, all[1].Delete(t.Context(), "/l", session.AnyVersion))
					<-time.After(away)
					stand("second")
					if got := brief(the(t, within(t, time.Second, w, last))); got != "second exclusive holds" {
						t.Error(got)
					}
				})
			})
		}
	}
}

// TestEmptiedIsNoBarrier: the persistent node of a lock whose contenders have come and gone while
// it was watched is no barrier, which never has children.
func TestEmptiedIsNoBarrier(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		const contender = "/l/5cb19f58083143a3bc2323d3a988390d__lock__0000000000" // kazoo's, which writes no data to /l
		check.Have(all[1].Create(t.Context(), "/l", nil, session.Persistent))(t)
		w := watchAll(t, all[0], "/l", nil)
		last := newest(t, w, nil)
		check.Equal(t, the(t, last).Kind, inspect.Barrier)
		check.Have(all[1].Create(t.Context(), contender, nil, session.Ephemeral))(t)
		last = within(t, time.Second, w, last)
		check.Equal(t, the(t, last).Kind, inspect.Lock)
		check.Must(t, all[1].Delete(t.Context(), contender, session.AnyVersion))
		check.Len(t, within(t, time.Second, w, last).Things, 0)
	})
}

// Children that are not watched are read again when their directory has changed: the claims of a
// queue, of which a consumer may make the same again.
func TestClaimedAgain(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		check.Must(t, all[1].EnsurePath(t.Context(), "/q/items"))
		check.Must(t, all[1].EnsurePath(t.Context(), "/q/claims"))
		claim := func(by string) {
			check.Have(all[1].Create(t.Context(), "/q/claims/213d2ea8-d7d0-4ee5-acda-8c4b1f67c01f", []byte(by), session.Persistent))(t)
		}
		claim("first")
		w := watchAll(t, all[0], "/q", nil)
		last := newest(t, w, nil)
		check.Must(t, all[1].Delete(t.Context(), "/q/claims/213d2ea8-d7d0-4ee5-acda-8c4b1f67c01f", session.AnyVersion))
		claim("second")
		last = within(t, time.Second, w, last)
		if claims := the(t, last).Queue.Claims; len(claims) != 1 || claims[0].Consumer != "second" {
			t.Errorf("%+v", claims)
		}
	})
}

// What may not be read is in the survey as such.
func TestForbidden(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		first := check.Open(lock.Acquire(t.Context(), all[1], "/p/open", opts("a", lock.Standard)))(t)
		nobody := []session.ACL{{Perms: session.PermRead, Scheme: "digest", ID: "nobody:xxxxxxxxxxxxxxxxxxxxxxxxxxx="}}
		check.Must(t, all[1].EnsurePath(t.Context(), "/p/closed"))
		for _, node := range []string{"/p/closed", first.Guard().Path()} {
			check.Have(all[1].SetACL(t.Context(), node, nobody, session.AnyVersion))(t)
		}
		survey := look(t, all[0], "/p")
		if len(survey.Things) != 2 || !survey.Things[0].Forbidden || survey.Things[0].Path != "/p/closed" {
			t.Fatalf("%+v", survey)
		}
		if c := survey.Things[1].Contenders[0]; !c.Forbidden || !c.Holds || c.Session == "" || c.Since.IsZero() || c.Identity != "" {
			t.Errorf("%+v", c)
		}
		w := watchAll(t, all[0], "/p", nil)
		if got := asText(newest(t, w, nil)); got != asText(survey) {
			t.Errorf("watched %s\nlooked %s", got, asText(survey))
		}
	})
}

func TestWatchEnds(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		w := watchAll(t, all[0], "/l", nil)
		if s := <-w.Surveys(); s.Exists {
			t.Errorf("%+v", s)
		}
		all[0].Close()
		<-w.Done()
		check.Is(t, w.Err(), session.ErrClosed)
		check.Fails(inspect.Watch(all[0], "/l", nil))(t, session.ErrClosed)
	})
}

func TestTruncated(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for i := range 10 {
			check.Must(t, all[0].EnsurePath(t.Context(), fmt.Sprint("/a/", i)))
		}
		survey, err := inspect.Look(t.Context(), all[0], "/a", &inspect.Options{MaxNodes: 5})
		if err != nil || !survey.Truncated {
			t.Errorf("%+v, %v", survey, err)
		}
		w := watchAll(t, all[0], "/a", &inspect.Options{MaxNodes: 5})
		if s := <-w.Surveys(); !s.Truncated {
			t.Errorf("%+v", s)
		}
	})
}

// Whatever is kept from the last survey counts for the limit.
func TestGrowsBeyondLimit(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		stand := func(name string) {
			check.Must(t, all[1].EnsurePath(t.Context(), "/l/"+name+"/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-0000000000"))
		}
		for i := range 5 {
			stand(fmt.Sprint("lock-", i))
		}
		limit := &inspect.Options{MaxNodes: 19} // two for the directory, and three for each lock: one too few for six locks
		w := watchAll(t, all[0], "/l", limit)
		last := newest(t, w, nil)
		check.False(t, last.Truncated, "five locks are truncated")
		stand("a-lock")
		seen := check.Have(inspect.Look(t.Context(), all[1], "/l", limit))(t)
		if got, want := asText(newest(t, w, last)), asText(seen); got != want || !seen.Truncated {
			t.Errorf("watched %s\nlooked %s", got, want)
		}
	})
}

// A change in a recipe within another is seen in both.
func TestWithinAnother(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		bucket := "/q/dead/items/2147483648-0000000000"
		for _, node := range []string{"/q/items", "/q/claims", bucket + "/item-1"} {
			check.Must(t, all[1].EnsurePath(t.Context(), node))
		}
		w := watchAll(t, all[0], "/q", nil)
		last := newest(t, w, nil)
		for dead := 1; dead <= 3; dead++ {
			if len(last.Things) != 2 || last.Things[0].Queue.Dead != dead || last.Things[1].Queue.Items != dead {
				t.Fatalf("%d dead letters: %s", dead, asText(last))
			}
			check.Must(t, all[1].EnsurePath(t.Context(), fmt.Sprint(bucket, "/item-", dead+1)))
			last = newest(t, w, last)
		}
	})
}

// TestWatchAfterARestore: the servers come back with older data, and another contender gets the
// name of one that was there, before the watcher has a session again.
func TestWatchAfterARestore(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		check.Have(all[1].Create(t.Context(), "/a", nil, session.Persistent))(t)
		check.Have(all[1].Create(t.Context(), "/a/b", nil, session.Persistent))(t)
		backup := srv.Backup()
		w := watchAll(t, all[0], "/a", nil)
		var last *inspect.Survey
		stand := func(s *session.Session, data string) {
			t.Helper()
			check.Have(s.Create(t.Context(), "/a/b/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-0000000000", []byte("first-3:3"), session.Ephemeral))(t)
			name := check.Have(s.Create(t.Context(), "/a/b/_c_6cb19f58-0831-43a3-bc23-23d3a988390d-lock-0000000001", []byte(data), session.Ephemeral))(t)
			last = newest(t, w, newest(t, w, last))
			seen := check.Have(inspect.Look(t.Context(), s, "/a", nil))(t)
			check.True(t, asText(last) == asText(seen) && len(last.Things) == 1 && last.Things[0].Contenders[1].Identity == data, "%s: watched %s\nlooked %s", name, asText(last), asText(seen))
		}
		for i := range 20 {
			check.Have(all[1].Set(t.Context(), "/a/b", nil, int32(i)))(t)
		}
		stand(all[1], "before-1:1")
		srv.Restore(backup)
		other := check.Open(session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext}))(t)
		stand(other, "after-2:2")
	})
}
