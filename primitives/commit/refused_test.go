package commit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A site that decides asks the server again if it was refused: to record the outcome, or to list
// the ballots before that.
func TestRefusedSite(t *testing.T) {
	const noAuth, systemError = -102, -1
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for _, code := range []int32{noAuth, systemError} {
			for skip := range 6 { // requests after the coordinator has left
				t.Run(fmt.Sprint(mode, " ", code, " ", skip), func(t *testing.T) {
					bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
						a := join(t, s[1], "a", func(string) commit.Vote {
							<-time.After(time.Second)
							return commit.Yes
						})
						kit.Pass(time.Second)
						tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}, Mode: mode, TakeoverAfter: time.Minute})
						tx.Close()
						srv.AnswerError(zktest.Match{Session: s[1].ID(), Path: parent + "/t*", Skip: skip}, code)
						kit.Pass(time.Hour)
						srv.ClearFaults()
						if err := a.p.Err(); err != nil {
							t.Errorf("the site has ended: %v", err)
						}
						if len(a.got["t"]) < 2 && len(a.errs) > 0 { // the vote was refused, or Finish: its caller knows, and asks again
							a.errs = nil
							_ = a.p.Vote(t.Context(), tx.Tx(), commit.Yes)
							kit.Pass(time.Hour)
						}
						if got := strings.Join(a.got["t"], "; "); !strings.HasSuffix(got, "committed") {
							t.Errorf("%s: %v", got, check.Have(commit.List(t.Context(), s[0], parent))(t))
						}
						a.errs = nil
						a.close(t)
					})
				})
			}
		}
	}
}

// A node below the parent that may not be read is no reason to end: sites, Resume and List go on
// without it. A site reads it when it may.
func TestUnreadableNeighbour(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		a := join(t, s[1], "a", always(commit.Yes))
		kit.Pass(time.Second)
		tx := begin(t, s[0], "locked", commit.Options{Sites: []string{"a", "b"}})
		defer tx.Close()
		b := join(t, s[0], "b", always(0))
		kit.Pass(time.Second)
		secret := []session.ACL{
			{Perms: session.PermAll, Scheme: "digest", ID: "u:x"},
			{Perms: session.PermAdmin | session.PermCreate, Scheme: "world", ID: "anyone"},
		}
		check.Have(s[0].CreateWithACL(ctx, parent+"/notes", nil, session.Persistent, secret))(t)
		check.Have(s[0].SetACL(ctx, parent+"/locked", secret, session.AnyVersion))(t)
		votes := make(chan commit.Vote)
		again := join(t, s[0], "c", func(string) commit.Vote { return <-votes })
		kit.Pass(time.Second)
		for _, at := range []*site{a, b, again} {
			if err := at.p.Err(); err != nil {
				t.Errorf("%v has ended: %v", at.p, err)
			}
		}
		begin(t, s[0], "t", commit.Options{Sites: []string{"a", "c"}}).Close()
		all, err := commit.List(ctx, s[0], parent)
		if err != nil || len(all) != 1 || all[0].ID != "t" {
			t.Errorf("%v, %v", all, err)
		}
		resumed := check.Have(commit.Resume(ctx, s[0], parent))(t)
		check.Equal(t, len(resumed), 1, "resumed")
		votes <- commit.Yes
		if outcome, err := resumed[0].Wait(ctx); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		resumed[0].Close()

		// An operator mends the ACL.
		late := join(t, s[1], "d", always(commit.Yes))
		next := begin(t, s[0], "next", commit.Options{Sites: []string{"d"}})
		defer next.Close()
		kit.Pass(time.Minute)
		if outcome, err := next.Wait(ctx); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		check.Have(s[0].CreateWithACL(ctx, parent+"/mended", []byte(fmt.Sprintf(`{"guid":"g","mode":0,"sites":["d"],"deadline":%d,"takeoverAfter":%d}`, time.Hour, time.Hour)), session.Persistent, secret))(t)
		check.Must(t, s[0].EnsurePath(ctx, parent+"/mended/g/s-d"))
		kit.Pass(time.Minute)
		check.Have(s[0].SetACL(ctx, parent+"/mended", session.WorldAll(), session.AnyVersion))(t)
		kit.Pass(2 * time.Minute)
		for _, at := range []*site{a, b, again, late} {
			at.close(t)
		}
		if got := strings.Join(late.got["mended"], "; "); got != "prepare " {
			t.Errorf("mended: %q", got)
		}
	})
}
