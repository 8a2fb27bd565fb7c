package commit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRetireOne: of two transactions one is finished. The other one stays, and a process that comes
// back as the site does its part in it.
func TestRetireOne(t *testing.T) {
	bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		a := join(t, s[1], "a", always(commit.Yes))
		old := check.Have(commit.Join(s[2], parent, "old", nil))(t)
		both := []string{"a", "old"}
		var all []*commit.Transaction
		for _, id := range []string{"one", "two"} {
			tx := begin(t, s[0], id, commit.Options{Sites: both, Deadline: time.Hour})
			prepare := zktest.Await(t, old.Events(), func(ev commit.Event) bool { _, is := ev.(commit.Prepare); return is })
			check.OK(t, old.Vote(ctx, prepare.(commit.Prepare).Tx, commit.Yes))
			check.True(t, check.Have(tx.Wait(ctx))(t).Committed, "%s", id)
			all = append(all, tx)
		}
		old.Close()
		kit.Pass(time.Minute)
		done, err := commit.Retire(ctx, s[3], parent, "old", all[0].Tx())
		check.OK(t, err)
		check.True(t, len(done) == 1 && done[0].Tx == all[0].Tx() && done[0].Committed, "%v", done)
		<-all[0].Done()
		left := check.Have(commit.List(ctx, s[3], parent))(t)
		check.True(t, len(left) == 1 && left[0].Tx() == all[1].Tx(), "%v", left)
		back := join(t, s[2], "old", always(commit.Yes))
		<-all[1].Done()
		kit.Pass(time.Minute)
		nothingLeft(t, srv)
		back.close(t)
		a.close(t)
		check.Equal(t, len(back.got), 1, "transactions of a process that comes back")
		for _, tx := range all {
			tx.Close()
		}
	})
}

// A site that will not come back is retired: what it has not voted on is aborted, and nothing is
// left. The committed transactions that it has not finished are named. A process that comes back
// hears of none.
func TestRetire(t *testing.T) {
	bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		a := join(t, s[1], "a", always(commit.Yes))
		old := check.Have(commit.Join(s[2], parent, "old", nil))(t)
		both := []string{"a", "old"}
		committed := begin(t, s[0], "committed", commit.Options{Sites: both, Payload: []byte("committed"), Deadline: time.Hour})
		check.OK(t, old.Vote(ctx, (<-old.Events()).(commit.Prepare).Tx, commit.Yes))
		check.Have(committed.Wait(ctx))(t)
		<-committed.Done()
		done, err := commit.Retire(ctx, s[3], parent, "old")
		check.Is(t, err, commit.ErrPresent)
		check.Equal(t, len(done), 0, "retired")
		check.True(t, strings.HasPrefix(err.Error(), "commit: retire old of "+parent+": "), "%v", err)
		old.Close()
		kit.Pass(time.Minute)
		aborted := begin(t, s[0], "aborted", commit.Options{Sites: both, Deadline: time.Second})
		check.Have(aborted.Wait(ctx))(t)
		undecided := begin(t, s[0], "undecided", commit.Options{Sites: both, Deadline: time.Hour})

		done, err = commit.Retire(ctx, s[3], parent, "old")
		check.OK(t, err)
		got := map[string]string{}
		for _, r := range done {
			got[r.String()] = string(r.Payload)
		}
		if payload, ok := got["committed committed"]; len(got) != 3 || !ok || payload != "committed" {
			t.Errorf("retired %q", got)
		}
		if outcome, err := undecided.Wait(ctx); err != nil || outcome.Reason != commit.VotedNo || outcome.Site != "old" {
			t.Error(outcome, err)
		}
		kit.Pass(time.Minute)
		nothingLeft(t, srv)
		if done, err := commit.Retire(ctx, s[3], parent, "old"); err != nil || len(done) > 0 {
			t.Error(done, err)
		}
		back := join(t, s[2], "old", always(commit.Yes))
		kit.Pass(time.Minute)
		back.close(t)
		check.Equal(t, len(back.got), 0, "transactions of a process that comes back")
		for _, tx := range []*commit.Transaction{committed, aborted, undecided} {
			tx.Close()
		}
		a.close(t)
	})
}

// A Yes of the retired site stays. The transaction is decided as if the site were there, whoever is
// left.
func TestRetireAfterYes(t *testing.T) {
	for _, other := range []commit.Vote{commit.Yes, 0} {
		t.Run(other.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				ctx := t.Context()
				a := join(t, s[1], "a", always(other))
				old := check.Have(commit.Join(s[2], parent, "old", nil))(t)
				tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a", "old"}, Deadline: time.Minute, TakeoverAfter: time.Hour})
				check.OK(t, old.Vote(ctx, (<-old.Events()).(commit.Prepare).Tx, commit.Yes))
				old.Close()
				tx.Close()
				soon, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if done, err := commit.Retire(soon, s[0], parent, "old"); other == 0 && (!errors.Is(err, context.DeadlineExceeded) || len(done) > 0) {
					t.Error(done, err)
				}
				if _, err := commit.Retire(ctx, s[0], parent, "old"); err != nil {
					t.Error(err)
				}
				kit.Pass(time.Minute)
				nothingLeft(t, srv)
				a.close(t)
			})
		})
	}
}
