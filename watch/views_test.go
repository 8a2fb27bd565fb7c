package watch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

func create(t *testing.T, s *session.Session, path, data string) {
	t.Helper()
	check.Have(s.Create(t.Context(), path, []byte(data), session.Persistent))(t)
}

func set(t *testing.T, s *session.Session, path, data string) {
	t.Helper()
	check.Have(s.Set(t.Context(), path, []byte(data), session.AnyVersion))(t)
}

func drop(t *testing.T, s *session.Session, path string) {
	t.Helper()
	check.Must(t, s.Delete(t.Context(), path, session.AnyVersion))
}

// settled returns the newest state once nothing moves any more.
func settled[S any](t *testing.T, w *watch.Watch[S]) S {
	t.Helper()
	synctest.Wait()
	var last S
	some := false
	for {
		select {
		case state, open := <-w.Changes():
			check.Require(t, open, "the watch has ended: %v", w.Err())
			last, some = state, true
		default:
			synctest.Wait() // the actor may have had one more
			if len(w.Changes()) > 0 {
				continue
			}
			check.Require(t, some, "there is no new state")
			return last
		}
	}
}

// quiet fails the test if there is a new state.
func quiet[S any](t *testing.T, w *watch.Watch[S]) {
	t.Helper()
	w.Changes()
	synctest.Wait()
	check.None(t, w.Changes(), "an unexpected state")
}

// trouble is what can happen to a session while a node changes.
var troubles = map[string]func(srv *zktest.Server, s *session.Session, meanwhile func()){
	"none": func(_ *zktest.Server, _ *session.Session, meanwhile func()) { meanwhile() },
	"disconnected": func(srv *zktest.Server, s *session.Session, meanwhile func()) {
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		meanwhile()
		srv.Refuse(false)
	},
	"expired": func(srv *zktest.Server, s *session.Session, meanwhile func()) {
		srv.Refuse(true)
		srv.Expire(s.ID())
		meanwhile()
		srv.Refuse(false)
	},
}

// calm lets everything that is under way in a bubble come to its end.
func calm() {
	<-time.After(5 * time.Second)
	synctest.Wait()
}

func TestNode(t *testing.T) {
	for name, trouble := range troubles {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			w := check.Open(watch.Node(s, "/b", nil))(t)
			expect := func(want string) watch.NodeState {
				t.Helper()
				calm()
				state := settled(t, w)
				got := string(state.Data)
				check.True(t, state.Exists == (want != "") && got == want && state.Exists == (state.Stat != nil), "%v, want %q", state, want)
				return state
			}
			expect("")
			trouble(srv, s, func() { create(t, other, "/b", "1") })
			first := expect("1")
			trouble(srv, s, func() { set(t, other, "/b", "2") })
			expect("2")
			trouble(srv, s, func() { drop(t, other, "/b"); create(t, other, "/b", "3") })
			again := expect("3")
			check.True(t, again.Stat.Czxid > first.Stat.Mzxid, "made again at %d, after %d", again.Stat.Czxid, first.Stat.Mzxid)
			trouble(srv, s, func() { drop(t, other, "/b") })
			expect("")
			trouble(srv, s, func() {})
			calm()
			quiet(t, w)
		})
	}
}

func TestChildren(t *testing.T) {
	for name, trouble := range troubles {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			w := check.Open(watch.Children(s, "/b", nil))(t)
			expect := func(names, added, removed string) watch.ChildrenState {
				t.Helper()
				calm()
				state := settled(t, w)
				got, want := fmt.Sprint(state.Names, state.Added, state.Removed), fmt.Sprintf("[%s] [%s] [%s]", names, added, removed)
				check.Equal(t, got, want)
				return state
			}
			if state := expect("", "", ""); state.Stat != nil {
				t.Error(state)
			}
			trouble(srv, s, func() { create(t, other, "/b", "") })
			if state := expect("", "", ""); state.Stat == nil {
				t.Error(state)
			}
			trouble(srv, s, func() { create(t, other, "/b/x", ""); create(t, other, "/b/y", "") })
			if name == "none" {
				settled(t, w)
			} else {
				expect("x y", "x y", "")
			}
			trouble(srv, s, func() { drop(t, other, "/b/x"); create(t, other, "/b/z", ""); drop(t, other, "/b/y") })
			expect("z", "z", "x y")
			trouble(srv, s, func() { drop(t, other, "/b/z"); drop(t, other, "/b"); create(t, other, "/b", "") })
			expect("", "", "z")
			trouble(srv, s, func() { create(t, other, "/b/u", "") })
			expect("u", "u", "")
			trouble(srv, s, func() { drop(t, other, "/b/u"); drop(t, other, "/b") })
			if state := expect("", "", "u"); state.Stat != nil {
				t.Error(state)
			}
			trouble(srv, s, func() {})
			calm()
			quiet(t, w)
		})
	}
}

type limits struct{ Max int }

func TestValue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		w := check.Open(watch.Value(s, "/b", watch.JSON[limits], nil))(t)
		expect := func(exists bool, limit int, version int32, ok bool) {
			t.Helper()
			got := settled(t, w)
			check.True(t, got.Exists == exists && got.Value.Max == limit && got.Version == version && (got.Err == nil) == ok, "%+v", got)
		}
		expect(false, 0, 0, true)
		create(t, other, "/b", `{"Max":3}`)
		expect(true, 3, 0, true)
		set(t, other, "/b", `{"Max":`)
		expect(true, 3, 1, false)
		set(t, other, "/b", `{"Max":"many"}`)
		expect(true, 3, 2, false)
		set(t, other, "/b", `{"Max":4}`)
		expect(true, 4, 3, true)
		drop(t, other, "/b")
		expect(false, 0, 0, true)
		create(t, other, "/b", `nonsense`)
		expect(true, 0, 0, false)
	})
}

// A touchy codec does what users' codecs do.
type touchy struct{}

func newTouchy() watch.Codec[int]               { return touchy{} }
func (touchy) Encode(value int) ([]byte, error) { return []byte(strconv.Itoa(value)), nil }
func (touchy) Decode(data []byte) (int, error) {
	switch string(data) {
	case "panic":
		panic("this codec cannot bear it")
	case "exit":
		runtime.Goexit()
	}
	return strconv.Atoi(string(data))
}

func TestCodecs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		w := check.Open(watch.Value(s, "/a", newTouchy, &watch.Options{Sync: true}))(t)
		check.Is(t, settled(t, w).Err, strconv.ErrSyntax)
		set(t, other, "/a", "7")
		settled(t, w)
		set(t, other, "/a", "panic")
		if state := settled(t, w); !errors.Is(state.Err, watch.ErrCodec) || state.Value != 7 || state.Version != 2 {
			t.Errorf("%+v", state)
		}
		set(t, other, "/a", "exit")
		if state := settled(t, w); !errors.Is(state.Err, watch.ErrCodec) || state.Value != 7 || state.Version != 3 {
			t.Errorf("%+v", state)
		}
		set(t, other, "/a", "8")
		if state := settled(t, w); state.Err != nil || state.Value != 8 {
			t.Errorf("%+v", state)
		}
		set(t, other, "/a", "panic")
		text, raw := check.Have(watch.Value(s, "/a", watch.Text, nil))(t), check.Have(watch.Value(s, "/a", watch.Bytes, nil))(t)
		defer text.Close()
		defer raw.Close()
		a, b := settled(t, text), settled(t, raw)
		check.True(t, a.Value == "panic" && string(b.Value) == "panic", "%v %v", a, b)
	})
	if data, err := watch.Encode(watch.JSON[limits](), limits{3}); string(data) != `{"Max":3}` || err != nil {
		t.Errorf("%s, %v", data, err)
	}
	if data, err := watch.Encode[int](nil, 3); !errors.Is(err, watch.ErrCodec) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		begin := func(s *session.Session, path string) []error {
			_, node := watch.Node(s, path, nil)
			_, children := watch.Children(s, path, nil)
			_, value := watch.Value(s, path, watch.Text, nil)
			return []error{node, children, value}
		}
		refused := func(s *session.Session, path string, want error) {
			t.Helper()
			for _, err := range begin(s, path) {
				check.Is(t, err, want, path)
			}
		}
		refused(nil, "/a", session.ErrInvalidArgument)
		for _, path := range []string{"", "a", "/a/", "/a//b", "/a/../b", "/\x00"} {
			refused(s, path, session.ErrInvalidPath)
		}
		for _, codec := range []func() watch.Codec[int]{nil, func() watch.Codec[int] { return nil }} {
			check.Fails(watch.Value(s, "/a", codec, nil))(t, session.ErrInvalidArgument)
		}
		for _, codec := range []func() watch.Codec[int]{
			func() watch.Codec[int] { panic("no") },
			func() watch.Codec[int] { runtime.Goexit(); return nil },
		} {
			check.Fails(watch.Value(s, "/a", codec, nil))(t, watch.ErrCodec)
		}
		s.Close()
		refused(s, "/a", session.ErrClosed)
	})
}

// TestWatchesEnd with their session, or alone.
func TestWatchesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		for range 2 {
			w := check.Have(watch.Node(s, "/a", nil))(t)
			settled(t, w)
			for range 3 {
				w.Close()
			}
			<-w.Done()
			if _, open := <-w.Changes(); open || w.Err() != nil {
				t.Errorf("open %v, %v", open, w.Err())
			}
		}
		read := check.Have(watch.Node(s, "/a", nil))(t)
		unread := check.Have(watch.Node(s, "/a", nil))(t)
		absent := check.Have(watch.Children(s, "/b", nil))(t)
		settled(t, read)
		settled(t, absent)
		srv.Refuse(true)
		srv.Disconnect(0)
		waiting := check.Have(watch.Node(s, "/c", &watch.Options{Sync: true}))(t)
		synctest.Wait()
		s.Close()
		for _, w := range []interface {
			Done() <-chan struct{}
			Err() error
		}{read, unread, absent, waiting} {
			<-w.Done()
			check.Is(t, w.Err(), session.ErrClosed)
		}
		if state, open := <-unread.Changes(); !open || !state.Exists {
			t.Errorf("the last state is %v", state)
		}
		for range unread.Changes() {
			t.Error("a state too many")
		}
		for range read.Changes() {
			t.Error("a state too many")
		}
		srv.Refuse(false)
	})
}

func TestUntilExists(t *testing.T) {
	for name, trouble := range troubles {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			check.Must(t, watch.UntilExists(t.Context(), s, "/a"))
			found := kit.Begin(func() error { return watch.UntilExists(t.Context(), s, "/b") })
			check.None(t, found, "too early")
			trouble(srv, s, func() { create(t, other, "/b", "") })
			check.OK(t, <-found)
		})
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Is(t, watch.UntilExists(ctx, s, "/never"), context.DeadlineExceeded)
	})
}

// TestManySubscribers share one watch and one read, and the slow ones cost the others
// nothing.
func TestManySubscribers(t *testing.T) {
	subscribers := hasten.Sized(10_000, 500)
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		nodes := make([]*watch.Watch[watch.NodeState], subscribers)
		srv.ResetRequests()
		for i := range nodes {
			nodes[i] = check.Open(watch.Node(s, "/a", nil))(t)
		}
		synctest.Wait()
		const changes = 5
		for i := range changes {
			set(t, other, "/a", strconv.Itoa(i))
			synctest.Wait()
		}
		for _, w := range nodes {
			state := <-w.Changes()
			check.Require(t, string(state.Data) == strconv.Itoa(changes-1), "%v", state)
		}
		counts := srv.Requests()
		check.True(t, counts[zktest.OpGetData] == changes+1 && counts[zktest.OpExists] == 0 && srv.Watches() == 1, "%v, %d watches", counts, srv.Watches())
	})
}

// TestNothingIsLeft: subscribing and closing leaves the server and the heap as they
// were, but for a bounded number of parked watches.
func TestNothingIsLeft(t *testing.T) {
	rounds := hasten.Sized(10_000, 100)
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		once := func() {
			n := check.Have(watch.Node(s, "/a", nil))(t)
			c := check.Have(watch.Children(s, "/a", nil))(t)
			v := check.Have(watch.Value(s, "/b", watch.Text, nil))(t)
			<-n.Changes()
			<-c.Changes()
			<-v.Changes()
			n.Close()
			c.Close()
			v.Close()
		}
		for range 100 {
			once()
		}
		watches, heap := srv.Watches(), heapInUse()
		for range rounds {
			once()
		}
		synctest.Wait()
		got := srv.Watches()
		check.True(t, got == watches && got <= 3, "%d watches, before %d", got, watches)
		grown := heapInUse() - heap
		check.False(t, grown > 1<<20 && !raceEnabled, "the heap has grown by %d bytes", grown)
	})
}

func TestParkedWatchesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		for i := range 2500 {
			path := fmt.Sprintf("/many-%d", i)
			w := check.Have(watch.Node(s, path, nil))(t)
			<-w.Changes()
			w.Close()
		}
		synctest.Wait()
		check.Equal(t, srv.Watches(), 1024, "watches are parked")
		srv.Disconnect(s.ID())
		calm()
		check.Equal(t, srv.Watches(), 1024, "watches are set again")
		// They work as before, and what was let go is not missed.
		for _, i := range []int{0, 2499, 1} {
			path := fmt.Sprintf("/many-%d", i)
			w := check.Have(watch.Node(s, path, nil))(t)
			settled(t, w)
			create(t, other, path, "x")
			state := settled(t, w)
			check.True(t, state.Exists, "%s: %v", path, state)
			w.Close()
		}
	})
}

// TestRestoringIsCutShort: what changed while the session was disconnected is told, also
// if the connection breaks again before all watches stand.
func TestRestoringIsCutShort(t *testing.T) {
	for name, cut := range map[string]func(*zktest.Server, zktest.Match){
		"request": (*zktest.Server).DropRequest,
		"reply":   (*zktest.Server).DropReply,
	} {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			w := check.Open(watch.Node(s, "/a", nil))(t)
			settled(t, w)
			srv.Refuse(true)
			srv.Disconnect(s.ID())
			set(t, other, "/a", "new")
			for range 3 {
				cut(srv, zktest.Match{Op: zktest.OpSetWatches})
			}
			srv.Refuse(false)
			calm()
			check.Equal(t, string(settled(t, w).Data), "new")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}
