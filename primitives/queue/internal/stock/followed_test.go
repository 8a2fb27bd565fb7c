package stock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFollowedAtOnce: calls that follow a directory at the same time all have an answer, as have
// those that come before it is followed no more.
func TestFollowedAtOnce(t *testing.T) {
	kit.Sessions(t, zktest.Config{Latency: time.Millisecond}, 1, session.Options{}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		check.Must(t, s[0].EnsurePath(t.Context(), "/d"))
		f := new(Followed)
		answers := 0
		follow := func() {
			f.follow(client.Of(s[0]).Async(0), "/d", func(_ []string, _ *session.Stat, err error) {
				if err == nil {
					answers++
				}
			})
		}
		for _, end := range []func(){func() {}, func() { f.forget("/d") }, f.ForgetAll} {
			answers = 0
			follow()
			follow()
			end()
			kit.Pass(time.Second)
			_, _, ok := f.get("/d")
			check.True(t, answers == 2 && ok == (len(f.dirs) > 0), "%d answers, want 2; followed: %t", answers, ok)
		}
	})
}

// TestNoViewStands: before the first list, a directory without buckets is followed already, because
// a consumer waits for items. The call that has no list makes one.
func TestNoViewStands(t *testing.T) {
	kit.Sessions(t, zktest.Config{}, 1, session.Options{}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		st := &Store{Session: client.Of(s[0]), Path: "/queue"}
		items := st.Dir(layout.ItemsDir)
		check.Must(t, s[0].EnsurePath(t.Context(), items))
		f := new(Followed)
		f.follow(st.Session.Async(0), items, func([]string, *session.Stat, error) {})
		synctest.Wait()
		_, _, ok := f.get(items)
		check.Require(t, ok, "the directory is not followed")
		check.False(t, st.Stands(f, &View{}), "a view that was never made stands")
		f.ForgetAll()
	})
}
