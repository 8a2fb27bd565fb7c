package commit_test

import (
	"context"
	"errors"
	"math"
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

// undecided reports an error if the only transaction has an outcome, or a site decides it.
func undecided(t *testing.T, s *session.Session, when string) {
	t.Helper()
	if all, err := commit.List(t.Context(), s, parent); err != nil || len(all) != 1 || all[0].Outcome != nil {
		t.Errorf("%s: %v, %v", when, all, err)
	}
}

// A site takes over after two looks without a coordinator, TakeoverAfter apart, and not before. A
// look after a lost reply is no such look.
func TestTakeoverNotBefore(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a := join(t, s[0], "a", always(0))
		kit.Pass(time.Second)
		tx := begin(t, s[1], "t", commit.Options{Sites: []string{"a"}, TakeoverAfter: 10 * time.Second, Deadline: time.Hour})
		kit.Pass(5 * time.Second)
		tx.Close()
		srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: s[0].ID()})
		check.OK(t, a.p.Vote(t.Context(), tx.Tx(), commit.Yes))
		kit.Pass(time.Second)
		undecided(t, s[0], "after the look at the vote")
		kit.Pass(10 * time.Second)
		undecided(t, s[0], "after the first look for a coordinator")
		kit.Pass(10 * time.Second)
		nothingLeft(t, srv)
		a.close(t)
		if got := strings.Join(a.got["t"], "; "); got != "prepare ; committed" {
			t.Error(got)
		}
	})
}

// Times without an end are allowed: no site takes over, and no vote is late.
func TestNoEnd(t *testing.T) {
	for name, o := range map[string]commit.Options{
		"no takeover": {TakeoverAfter: math.MaxInt64, Deadline: time.Hour}, "no deadline": {Deadline: math.MaxInt64}, "neither": {TakeoverAfter: math.MaxInt64, Deadline: math.MaxInt64},
	} {
		for _, o.Mode = range []commit.Mode{commit.Coordinated, commit.Peer} {
			t.Run(name+"/"+o.Mode.String(), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					a := join(t, s[0], "a", always(0))
					o.Sites = []string{"a"}
					tx := begin(t, s[1], "t", o)
					defer tx.Close()
					kit.Pass(50 * time.Minute)
					undecided(t, s[1], "before the deadline")
					check.OK(t, a.p.Vote(t.Context(), tx.Tx(), commit.Yes))
					if outcome, err := tx.Wait(t.Context()); err != nil || !outcome.Committed {
						t.Error(outcome, err)
					}
					kit.Pass(time.Second)
					nothingLeft(t, srv)
					a.close(t)
				})
			})
		}
	}
}

// A coordinator that is there decides, however slow it is; so does one that resumes between two
// looks.
func TestNoTakeover(t *testing.T) {
	for name, resumed := range map[string]bool{"begun": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				a := join(t, s[0], "a", always(0))
				kit.Pass(time.Second)
				tx := begin(t, s[1], "t", commit.Options{Sites: []string{"a"}, TakeoverAfter: 10 * time.Second, Deadline: time.Hour})
				if resumed {
					tx.Close()
					kit.Pass(15 * time.Second)
					all, err := commit.Resume(t.Context(), s[1], parent)
					if err != nil || len(all) != 1 {
						t.Fatal(all, err)
					}
					tx = all[0]
				}
				defer tx.Close()
				kit.Pass(time.Minute)
				srv.Delay(zktest.Match{Op: zktest.OpMulti, Path: parent + "/t", Session: s[1].ID()}, 2*time.Second)
				check.OK(t, a.p.Vote(t.Context(), tx.Tx(), commit.Yes))
				kit.Pass(time.Second)
				undecided(t, s[0], "while the coordinator is slow")
				if outcome, err := tx.Wait(t.Context()); err != nil || outcome.By != "coordinator" {
					t.Error(outcome, err)
				}
				<-tx.Done()
				kit.Pass(time.Second)
				nothingLeft(t, srv)
				a.close(t)
			})
		})
	}
}

// An id is used again while two sites do not hear of it: one has finished the earlier transaction,
// the other was not named in it. They were cut off, or their sessions have expired, or their
// requests are slow. Both are asked.
func TestIDAgain(t *testing.T) {
	for _, why := range []string{"cut", "expired", "slow"} {
		t.Run(why, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) { idAgain(t, srv, s, why) })
		})
	}
}

func idAgain(t *testing.T, srv *zktest.Server, s []*session.Session, why string) {
	t.Helper()
	ctx := t.Context()
	first, firstAway := openAway(t, srv)
	defer first.Close()
	second, secondAway := openAway(t, srv)
	defer second.Close()
	finished, unnamed := join(t, first, "finished", always(commit.Yes)), join(t, second, "unnamed", always(commit.Yes))
	last := check.Have(commit.Join(s[1], parent, "last", nil))(t)
	defer last.Close()
	tx := begin(t, s[0], "t", commit.Options{Sites: []string{"finished", "last"}})
	defer tx.Close()
	<-last.Events()
	kit.Pass(time.Second)
	if why == "slow" {
		srv.Delay(zktest.Match{Op: zktest.OpGetChildren2, Path: parent, Session: second.ID()}, 2*time.Second)
		other := begin(t, s[0], "u", commit.Options{Sites: []string{"last"}})
		defer other.Close()
		<-last.Events()
	}
	check.Must(t, last.Vote(ctx, tx.Tx(), commit.Yes))
	<-tx.Done()
	if why != "slow" {
		kit.Pass(time.Second)
		firstAway.Store(true)
		secondAway.Store(true)
		for _, s := range []*session.Session{first, second} {
			if srv.Disconnect(s.ID()); why == "expired" {
				srv.Expire(s.ID())
			}
		}
	}
	<-last.Events()
	check.Must(t, last.Finish(ctx, tx.Tx()))
	kit.Pass(time.Second)
	again := begin(t, s[0], "t", commit.Options{Sites: []string{"finished", "unnamed"}, Payload: []byte("again")})
	defer again.Close()
	firstAway.Store(false)
	secondAway.Store(false)
	if outcome, err := again.Wait(ctx); err != nil || !outcome.Committed {
		t.Error(outcome, err)
	}
	<-again.Done()
	for want, a := range map[string]*site{"prepare ; committed; prepare again; committed": finished, "prepare again; committed": unnamed} {
		kit.Pass(time.Second)
		a.close(t)
		if got := strings.Join(a.got["t"], "; "); got != want {
			t.Errorf("%s: %s", a.p.Site(), got)
		}
	}
}

// TestEndedContext: Vote and Finish do nothing with a context that has ended, and say so: the
// outcome is known.
func TestEndedContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		ended, end := context.WithCancel(ctx)
		end()
		p := check.Have(commit.Join(s[0], parent, "a", nil))(t)
		defer p.Close()
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}})
		defer tx.Close()
		refused := func(call func(context.Context, commit.Tx) error) {
			t.Helper()
			synctest.Wait() // The coordinator's own: after its decision it gives up its node.
			srv.ResetRequests()
			err := call(ended, tx.Tx())
			check.True(t, errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrUnknownOutcome), "%v", err)
			synctest.Wait()
			check.Equal(t, srv.Requests()[zktest.OpMulti], 0, "transactions")
			check.OK(t, call(ctx, tx.Tx()))
		}
		<-p.Events()
		refused(func(ctx context.Context, tx commit.Tx) error { return p.Vote(ctx, tx, commit.Yes) })
		<-p.Events()
		refused(p.Finish)
	})
}

// To finish again, as after the end of a context, does not return before the first has been
// recorded: what makes applying idempotent is forgotten then.
func TestFinishAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		far, away := openAway(t, srv)
		defer far.Close()
		p := check.Have(commit.Join(far, parent, "a", nil))(t)
		defer p.Close()
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}})
		defer tx.Close()
		<-p.Events()
		check.Must(t, p.Vote(ctx, tx.Tx(), commit.Yes))
		<-p.Events()
		away.Store(true)
		srv.Disconnect(far.ID())
		for range 2 {
			soon, cancel := context.WithTimeout(ctx, time.Second)
			if err := p.Finish(soon, tx.Tx()); !errors.Is(err, session.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		away.Store(false)
		check.OK(t, p.Finish(ctx, tx.Tx()))
		kit.Pass(time.Second)
		nothingLeft(t, srv)
	})
}
