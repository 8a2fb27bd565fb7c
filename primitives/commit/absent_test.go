package commit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// asked returns how many requests came, but for those of the sessions themselves.
func asked(srv *zktest.Server) (n int) {
	for op, count := range srv.Requests() {
		if op != zktest.OpPing && op != zktest.OpSync {
			n += count
		}
	}
	return n
}

// A site that does not come back keeps its transactions from being removed. The others have
// finished, and ask for nothing more, however many are left. When the site comes after all, nothing
// is left.
func TestAbsentSite(t *testing.T) {
	for _, record := range []bool{false, true} {
		t.Run(fmt.Sprint("record ", record), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				names := named(3)
				var sites []*site
				for i, name := range names {
					sites = append(sites, join(t, s[i+1], name, always(commit.Yes)))
				}
				kit.Pass(time.Second)
				leave := func(from, to int) {
					for i := from; i < to; i++ {
						tx := begin(t, s[0], fmt.Sprintf("t%03d", i), commit.Options{Sites: append([]string{"gone"}, names...), Deadline: time.Second, Record: record})
						check.Have(tx.Wait(t.Context()))(t)
						tx.Close()
					}
				}
				most := hasten.Sized(200, 20)
				for _, many := range []int{2, most} {
					leave(len(sites[0].got), many)
					kit.Pass(10 * time.Minute)
					srv.ResetRequests()
					kit.Pass(time.Hour)
					check.Equal(t, asked(srv), 0, fmt.Sprint("requests in an hour with ", many, " transactions left"))
				}

				// One that restarts reads each of them, and asks for nothing more after that.
				sites[0].close(t)
				srv.ResetRequests()
				sites[0] = join(t, s[1], names[0], always(commit.Yes))
				kit.Pass(10 * time.Minute)
				n := asked(srv)
				check.True(t, n <= 3*most+8, "%d requests of a site that joins with %d transactions left", n, most)
				srv.ResetRequests()
				kit.Pass(time.Hour)
				check.Equal(t, asked(srv), 0, "requests in an hour after a restart")

				back := join(t, s[4], "gone", always(commit.Yes))
				kit.Pass(time.Minute)
				nothingLeft(t, srv)
				srv.ResetRequests()
				kit.Pass(time.Hour)
				check.Equal(t, asked(srv), 0, "requests in an hour with no transactions left")
				back.close(t)
				check.Equal(t, len(back.got), most, "transactions of the site that was absent")
				for i, a := range sites {
					a.close(t)
					if i > 0 && len(a.got) != most || i == 0 && len(a.got) > 0 {
						t.Errorf("%s: %d transactions", names[i], len(a.got))
					}
				}
			})
		})
	}
}

// So many transactions are left that their list is larger than any other reply may be. Sites,
// Resume and List go on.
func TestLongList(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		small := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{
			Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext, MaxReply: 4 << 10,
		}))(t)
		defer small.Close()
		const many = 200
		for i := range many {
			begin(t, s[0], fmt.Sprintf("%s-%d", strings.Repeat("t", 40), i), commit.Options{Sites: []string{"gone"}}).Close()
		}
		check.Fails(names(t, small))(t, session.ErrTooLarge)
		a := join(t, small, "a", always(commit.Yes))
		for range 2 {
			tx := begin(t, small, "t", commit.Options{Sites: []string{"a"}})
			if outcome, err := tx.Wait(t.Context()); err != nil || !outcome.Committed {
				t.Error(outcome, err)
			}
			<-tx.Done()
			tx.Close()
			kit.Pass(time.Second)
			srv.Disconnect(small.ID())
			kit.Pass(time.Second)
		}
		check.OK(t, a.p.Err())
		all, err := commit.List(t.Context(), small, parent)
		if err != nil || len(all) != many {
			t.Errorf("%d listed, %v", len(all), err)
		}
		resumed, err := commit.Resume(t.Context(), small, parent)
		if err != nil || len(resumed) != many {
			t.Errorf("%d resumed, %v", len(resumed), err)
		}
		for _, tx := range resumed {
			tx.Close()
		}
		a.close(t)
	})
}

func names(t *testing.T, s *session.Session) ([]string, error) {
	t.Helper()
	names, _, err := s.Children(t.Context(), parent)
	return names, err
}

// The party that is to remove a transaction crashes before it does. A site that has finished long
// before removes the rest.
func TestAbandoned(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a := join(t, s[1], "a", always(commit.Yes))
		kit.Pass(time.Second)
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a", "b"}, Deadline: time.Second})
		check.Have(tx.Wait(t.Context()))(t)
		tx.Close()
		kit.Pass(10 * time.Minute)
		var dir string
		for _, path := range left(srv) {
			if name, ok := strings.CutSuffix(path, "/s-b"); ok {
				dir = name
				check.Must(t, s[2].Delete(t.Context(), path, session.AnyVersion))
			}
		}
		check.True(t, dir != "", "there is no ballot of the site b: %q", left(srv))
		kit.Pass(10 * time.Minute)
		nothingLeft(t, srv)

		// The id is used again, and the site hears of it.
		again := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}})
		defer again.Close()
		if outcome, err := again.Wait(t.Context()); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		kit.Pass(time.Second)
		a.close(t)
	})
}
