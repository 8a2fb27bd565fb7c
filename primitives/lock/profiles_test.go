package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func onProfile(t *testing.T, profile zktest.Profile, play func(w kit.World, open func() *session.Session)) {
	t.Helper()
	kit.Run(t, zktest.Config{Profile: profile}, func(w kit.World) {
		play(w, func() *session.Session { return w.Open(session.Options{Timeout: 10 * time.Second}) })
	})
}

// held returns a lock that has been acquired.
func held(w kit.World, s *session.Session, path string) *lock.Lock {
	w.Helper()
	return check.Have(lock.Acquire(w.Context(), s, path, nil))(w)
}

// TestRequestsOnProfiles: a lock costs the same requests on servers of any version. There is no
// probe among them.
func TestRequestsOnProfiles(t *testing.T) {
	var first, next zktest.Counts
	for _, profile := range append([]zktest.Profile{zktest.ZooKeeper380}, zktest.Profiles()...) {
		onProfile(t, profile, func(w kit.World, open func() *session.Session) {
			s := open()
			count := func() zktest.Counts {
				synctest.Wait()
				w.ResetRequests()
				held(w, s, "/locks/a").Close()
				synctest.Wait()
				counts := w.Requests()
				counts[zktest.OpCreate] += counts[zktest.OpCreateContainer] // one replaces the other
				delete(counts, zktest.OpCreateContainer)
				return counts
			}
			one, two := count(), count()
			if first == nil {
				first, next = one, two
			}
			check.EqualMaps(w, one, first, profile, "the first")
			check.EqualMaps(w, two, next, profile, "the second")
		})
	}
}

// TestParentsGoWithTheLast: where the server has no containers, the last to leave deletes the
// parents: within a minute, or at the end of its session.
func TestParentsGoWithTheLast(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.Keeper, zktest.Keeper267} {
		onProfile(t, profile, func(w kit.World, open func() *session.Session) {
			s, other := open(), open()
			mine := held(w, s, "/locks/a")
			waits := check.Have(lock.New(other, "/locks/a", nil))(w)
			synctest.Wait()
			mine.Close()
			kit.Pass(10 * time.Hour)
			check.Len(w, w.Paths(), 3, "with a holder: ", w.Paths()) // two parents, and its node
			waits.Close()
			kit.Pass(time.Hour + 2*time.Minute)
			check.Len(w, w.Paths(), 0, "after the last: ", w.Paths())

			held(w, s, "/locks/b/c").Close()
			check.Len(w, w.Paths(), 3, "parents: ", w.Paths()) // not at once: another may come
			s.Close()
			check.Len(w, w.Paths(), 0, "after Close: ", w.Paths())
		})
	}
}

// TestLeftOversGoWithTheNext: what a session that was lost has left behind is deleted by the next
// to leave.
func TestLeftOversGoWithTheNext(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, open func() *session.Session) {
		killed := open()
		held(w, killed, "/locks/a")
		w.Freeze(killed.ID(), zktest.Both)
		<-time.After(30 * time.Second)
		check.EqualSlices(w, w.Paths(), []string{"/locks", "/locks/a"})
		s := open()
		held(w, s, "/locks/a").Close()
		s.Close()
		check.EqualSlices(w, w.Paths(), []string{"/locks"}) // which its own session would delete
	})
}

// TestParentsOfOthersStay: no session deletes a parent that has data or another ACL, or that
// another client uses.
func TestParentsOfOthersStay(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		onProfile(t, profile, func(w kit.World, _ func() *session.Session) {
			auth := []session.Auth{{Scheme: "digest", Secret: []byte("user:secret")}}
			owner, s := w.Open(session.Options{Timeout: 10 * time.Second, Auth: auth}), w.Open(session.Options{Timeout: 10 * time.Second, Auth: auth})
			ctx := w.Context()
			check.Have(owner.Create(ctx, "/data", []byte("x"), session.Persistent))(w)
			check.Have(owner.Multi(ctx, session.CreateOp("/acl", nil, session.Persistent).WithACL(session.CreatorAll())))(w)
			check.Have(owner.Create(ctx, "/own", nil, session.Persistent))(w)
			check.Have(owner.Create(ctx, "/own/n", nil, session.Ephemeral))(w)
			for _, path := range []string{"/acl", "/data", "/own"} {
				held(w, s, path).Close()
			}
			kit.Pass(10 * time.Minute)
			s.Close()
			check.EqualSlices(w, w.Paths(), []string{"/acl", "/data", "/own", "/own/n"}, profile)
		})
	}
}
