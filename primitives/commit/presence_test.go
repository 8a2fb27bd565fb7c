package commit_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A second process that acts for a site receives nothing, and does nothing, while the first one is
// there. It ends.
func TestSecondProcess(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		first := check.Have(commit.Join(s[1], parent, "a", nil))(t)
		defer first.Close()
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}})
		defer tx.Close()
		<-first.Events()
		second := check.Have(commit.Join(s[2], parent, "a", nil))(t)
		defer second.Close()
		kit.Pass(time.Second)
		check.Is(t, second.Vote(ctx, tx.Tx(), commit.No), commit.ErrNoTransaction)
		check.OK(t, first.Vote(ctx, tx.Tx(), commit.Yes))
		committed := (<-first.Events()).(commit.Committed)
		kit.Pass(time.Second)
		check.Is(t, second.Finish(ctx, tx.Tx()), commit.ErrNoTransaction)
		if _, err := s[1].Multi(ctx, committed.Once()); err != nil {
			t.Error(err)
		}
		check.OK(t, first.Finish(ctx, tx.Tx()))
		if ev, ok := (<-second.Events()).(commit.Left); !ok || ev.Err == nil {
			t.Errorf("the second process receives %v", ev)
		}
	})
}

// A process whose session has expired, and whose site another process acts for meanwhile, does not
// act for it any more.
func TestSuccession(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		cut, away := openAway(t, srv)
		defer cut.Close()
		old := join(t, cut, "a", always(commit.No))
		kit.Pass(time.Second)
		away.Store(true)
		srv.Expire(cut.ID())
		kit.Pass(time.Minute)
		fresh := join(t, s[1], "a", always(commit.Yes))
		kit.Pass(time.Second)
		away.Store(false)
		kit.Pass(2 * time.Second)
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}})
		defer tx.Close()
		if outcome, err := tx.Wait(t.Context()); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		kit.Pass(time.Minute)
		fresh.close(t)
		old.close(t)
		if len(old.got) > 0 || strings.Join(fresh.got["t"], "; ") != "prepare ; committed" {
			t.Errorf("%q, %q", old.got, fresh.got)
		}
	})
}

// Two processes of a site overlap, as in a rolling restart. The new one goes on when the old one
// has closed, and hears nothing of what the old one did.
func TestOverlap(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		votes := make(chan commit.Vote)
		old := join(t, s[1], "a", func(string) commit.Vote { return <-votes })
		kit.Pass(time.Minute)
		fresh := join(t, s[2], "a", always(commit.Yes))
		first := begin(t, s[0], "first", commit.Options{Sites: []string{"a"}})
		defer first.Close()
		second := begin(t, s[0], "second", commit.Options{Sites: []string{"a", "b"}, Deadline: time.Hour})
		defer second.Close()
		kit.Pass(time.Second)
		votes <- commit.Yes
		votes <- commit.Yes
		if outcome, err := first.Wait(t.Context()); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		<-first.Done()
		kit.Pass(time.Second)
		old.close(t)
		kit.Pass(time.Second)
		b := join(t, s[0], "b", always(commit.Yes))
		if outcome, err := second.Wait(t.Context()); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		kit.Pass(time.Second)
		fresh.close(t)
		b.close(t)
		nothingLeft(t, srv)
		if got := strings.Join(fresh.got["second"], "; "); len(fresh.got["first"]) > 0 || got != "committed" {
			t.Errorf("%q, %q", old.got, fresh.got)
		}
	})
}

// A process of a site dies, and the next one is there before its node goes. Transactions go on,
// also those that begin while the node of the dead process stands, and whose votes take longer than
// that.
func TestRestartAtOnce(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
			t.Run(fmt.Sprint(mode, " ", latency), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := check.Have(zktest.NewServer(zktest.Config{InProcess: true, Tick: time.Second, Latency: latency}))(t)
					defer srv.Close()
					coordinator, other, next := open(t, srv), open(t, srv), open(t, srv)
					defer coordinator.Close()
					defer other.Close()
					defer next.Close()
					dead, away := openAway(t, srv)
					defer dead.Close()
					first := join(t, dead, "a", always(0))
					b := join(t, other, "b", always(commit.Yes))
					kit.Pass(time.Minute)
					before := begin(t, coordinator, "before", commit.Options{Sites: []string{"a", "b"}, Mode: mode, Deadline: 2 * time.Minute})
					defer before.Close()
					kit.Pass(time.Second)
					away.Store(true)
					srv.Freeze(dead.ID(), zktest.Both)
					a := join(t, next, "a", func(string) commit.Vote {
						<-time.After(20 * time.Second)
						return commit.Yes
					})
					kit.Pass(time.Second)
					after := begin(t, coordinator, "after", commit.Options{Sites: []string{"a", "b"}, Mode: mode, Deadline: 2 * time.Minute})
					defer after.Close()
					for _, tx := range []*commit.Transaction{before, after} {
						if outcome, err := tx.Wait(t.Context()); err != nil || !outcome.Committed {
							t.Error(tx, outcome, err)
						}
					}
					kit.Pass(time.Minute)
					nothingLeft(t, srv)
					for _, at := range []*site{a, b, first} {
						at.close(t)
					}
				})
			})
		}
	}
}

// An operator deletes the ballots of a transaction, and not its record. Its sites are told once,
// and not again with each later transaction.
func TestHalfDeleted(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a := join(t, s[1], "a", func(tx string) commit.Vote {
			if tx == "half" {
				return 0
			}
			return commit.Yes
		})
		kit.Pass(time.Second)
		half := begin(t, s[0], "half", commit.Options{Sites: []string{"a"}, Deadline: time.Hour})
		half.Close()
		kit.Pass(time.Second)
		deleteBallots(t, srv, s[0], "half")
		for _, id := range []string{"t", "u", "v"} {
			tx := begin(t, s[0], id, commit.Options{Sites: []string{"a"}})
			check.Have(tx.Wait(t.Context()))(t)
			tx.Close()
			kit.Pass(time.Hour)
		}
		a.close(t)
		again := join(t, s[1], "a", always(commit.Yes))
		kit.Pass(time.Hour)
		check.Must(t, s[0].Delete(t.Context(), parent+"/half", session.AnyVersion))
		kit.Pass(time.Second)
		tx := begin(t, s[0], "half", commit.Options{Sites: []string{"a"}, Deadline: time.Hour})
		defer tx.Close()
		kit.Pass(time.Second)
		again.close(t)
		if got := strings.Join(a.got["half"], "; "); got != "prepare ; forgotten" {
			t.Error(got)
		}
		if got := strings.Join(again.got["half"], "; "); got != "prepare ; committed" {
			t.Error("after a restart:", got)
		}
	})
}

// deleteBallots deletes the ballots of a transaction, as an operator would.
func deleteBallots(t *testing.T, srv *zktest.Server, s *session.Session, id string) {
	t.Helper()
	var dir string
	for _, path := range srv.Paths() {
		if rest, ok := strings.CutPrefix(path, parent+"/"+id+"/"); ok && !strings.Contains(rest, "/") {
			dir = path
		}
	}
	for _, path := range srv.Paths() {
		if strings.HasPrefix(path, dir+"/") {
			check.Must(t, s.Delete(t.Context(), path, session.AnyVersion))
		}
	}
	check.Must(t, s.Delete(t.Context(), dir, session.AnyVersion))
}
