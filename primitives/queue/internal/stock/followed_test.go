package stock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFollowedAtOnce: calls that follow a directory at the same time all have an answer, as have
// those that come before it is followed no more.
func TestFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess(), zktest.Latency(time.Millisecond))
		s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.EnsurePath(t.Context(), "/d"); err != nil {
			t.Fatal(err)
		}
		f := new(Followed)
		answers := 0
		follow := func() {
			f.follow(client.Of(s).Async(0), "/d", func(_ []string, _ *session.Stat, err error) {
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
			<-time.After(time.Second)
			synctest.Wait()
			if _, _, ok := f.get("/d"); answers != 2 || ok != (len(f.dirs) > 0) {
				t.Errorf("%d answers, want 2; followed: %t", answers, ok)
			}
		}
	})
}

// TestNoViewStands: before the first list, a directory without buckets is followed already, because
// a consumer waits for items. The call that has no list makes one.
func TestNoViewStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		st := &Store{Session: client.Of(s), Path: "/queue"}
		items := st.Dir(layout.ItemsDir)
		if err := s.EnsurePath(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		f := new(Followed)
		f.follow(client.Of(s).Async(0), items, func([]string, *session.Stat, error) {})
		synctest.Wait()
		if _, _, ok := f.get(items); !ok {
			t.Fatal("the directory is not followed")
		}
		if st.Stands(f, &View{}) {
			t.Error("a view that was never made stands")
		}
		f.ForgetAll()
	})
}
