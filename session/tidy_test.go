package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestAnothersDirectoryStays: a directory is not the one that a session has made, if it was deleted
// and another client has made one in its place.
func TestAnothersDirectoryStays(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		ctx := w.Context()
		s, operator := w.Open(opts), w.Open(opts)
		check.Must(w, s.EnsurePath(ctx, "/a"))
		check.Must(w, operator.Delete(ctx, "/a", session.AnyVersion))
		check.Have(operator.Create(ctx, "/a", []byte("configuration"), session.Persistent))(w)
		child := check.Have(operator.Create(ctx, "/a/b", nil, session.Persistent))(w)
		check.Must(w, operator.Delete(ctx, child, session.AnyVersion))
		kit.Pass(2 * time.Hour)
		check.EqualSlices(w, w.Paths(), []string{"/a"})
		s.Close()
		check.EqualSlices(w, w.Paths(), []string{"/a"})
	})
}

// TestSharedParentsGo: a parent that was made in a transaction of several callers is deleted as any
// other.
func TestSharedParentsGo(t *testing.T) {
	kit.Run(t, zktest.Config{Profile: zktest.Keeper, Latency: time.Millisecond}, func(w kit.World) {
		s := w.Open(session.Options{Timeout: 10 * time.Second})
		const callers = 20
		var above []string
		for i := range callers {
			above = append(above, check.Have(s.Create(w.Context(), fmt.Sprintf("/%02d", i), nil, session.Persistent))(w))
		}
		answers := make(chan error, callers)
		for _, dir := range above {
			s.Async(1).In(new(session.Lane)).Share([]session.Op{
				session.CreateOp(dir+"/a", nil, session.Container), session.CreateOp(dir+"/a/b", nil, session.Persistent),
				session.DeleteOp(dir+"/a/b", session.AnyVersion),
			}, func(_ []session.OpResult, err error) { answers <- err })
		}
		for range callers {
			check.Must(w, <-answers)
		}
		check.True(w, w.Requests()[zktest.OpMulti] < callers, "no transaction was shared")
		kit.Pass(2 * time.Minute)
		check.EqualSlices(w, w.Paths(), above)
	})
}

// leaver calls its function when the first look at a directory is answered.
type leaver struct {
	session.Observer
	look func()
}

func (l *leaver) Request(op string, _ time.Duration, _ error) {
	if look := l.look; op == "tidy" && look != nil {
		l.look = nil
		look()
	}
}

// TestLeftDuringALook: a recipe may leave a directory after a look has found its node, and before
// the session forgets what others are in. The directory is deleted then.
func TestLeftDuringALook(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		ctx := w.Context()
		other := w.Open(opts)
		check.Have(other.Create(ctx, "/a", nil, session.Persistent))(w)
		node := check.Have(other.Create(ctx, "/a/b", nil, session.Persistent))(w)
		var s *session.Session
		opts.Observer = &leaver{session.NopObserver{}, func() { s.Left("/a/b") }}
		s = w.Open(opts)
		s.Left("/a/b")
		kit.Pass(90 * time.Second)
		check.Must(w, other.Delete(ctx, node, session.AnyVersion))
		kit.Pass(2 * time.Minute)
		check.Len(w, w.Paths(), 0, "parents are left")
	})
}

// TestNothingBeginsAfterTheEnd: what recipes leave when the session is closed starts no goroutine,
// which Close would not wait for.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		s := w.Open(opts)
		s.Left("/a/b")
		check.True(w, s.Tidies(), "nothing looks after a parent")
		over := w.Open(opts)
		over.Close()
		over.Left("/a/b")
		check.False(w, over.Tidies(), "a closed session looks after a parent")
	})
}

// TestManyParentsGoAtTheEnd: Close deletes more parents than there is time for one after the other,
// and the session's ephemeral nodes need not wait long for that.
func TestManyParentsGoAtTheEnd(t *testing.T) {
	kit.Run(t, zktest.Config{Profile: zktest.Keeper, Latency: 5 * time.Millisecond}, func(w kit.World) {
		s := w.Open(session.Options{Timeout: 10 * time.Second})
		const parents = 500
		answers := make(chan error, parents)
		for i := range parents {
			dir := fmt.Sprintf("/%03d", i)
			s.Async(0).Multi([]session.Op{
				session.CreateOp(dir, nil, session.Container), session.CreateOp(dir+"/a", nil, session.Container),
				session.CreateOp(dir+"/a/b", nil, session.Persistent), session.DeleteOp(dir+"/a/b", session.AnyVersion),
			}, func(_ []session.OpResult, err error) { answers <- err })
		}
		for range parents {
			check.Must(w, <-answers)
		}
		begun := time.Now()
		s.Close()
		check.Len(w, w.Paths(), 0, "parents are left")
		check.AtMost(w, time.Since(begun), time.Second, "Close takes")
	})
}
