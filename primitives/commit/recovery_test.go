package commit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// Every request's reply is lost in turn, or the request is: one outcome, and nothing is left.
func TestLostInTurn(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for what, lose := range map[string]func(*zktest.Server, zktest.Match){
			"reply": (*zktest.Server).DropReply, "request": (*zktest.Server).DropRequest,
		} {
			t.Run(mode.String()+"/"+what, func(t *testing.T) {
				bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					names := named(3)
					var sites []*site
					for i, name := range names {
						sites = append(sites, join(t, s[i+1], name, func(tx string) commit.Vote {
							if strings.HasSuffix(tx, "no") && i == 1 {
								return commit.No
							}
							return commit.Yes
						}))
					}
					kit.Pass(time.Second)
					for skip := 0; ; skip += hasten.Sized(hasten.Usually(1, 3), 11) {
						hit := true
						for _, want := range []string{"yes", "no"} {
							id := fmt.Sprintf("%d-%s", skip, want)
							lose(srv, zktest.Match{Skip: skip})
							tx := begin(t, s[0], id, commit.Options{Sites: names, Mode: mode, Record: true})
							outcome, err := tx.Wait(t.Context())
							if err != nil || outcome.Committed != (want == "yes") {
								t.Fatalf("%s: %v, %v", id, outcome, err)
							}
							<-tx.Done()
							kit.Pass(10 * time.Minute)
							hit = hit && srv.AwaitFault(0) == nil
							srv.ClearFaults()
							tx.Close()
							nothingLeft(t, srv)
							for i, a := range sites {
								last := a.got[id][len(a.got[id])-1]
								if (last == "committed") != (want == "yes") {
									t.Errorf("%s: %s: %q", id, names[i], a.got[id])
								}
							}
						}
						if !hit {
							check.True(t, skip >= 15, "only %d requests", skip)
							break
						}
					}
					for _, a := range sites {
						a.close(t)
					}
				})
			})
		}
	}
}

// What a transaction of n sites costs, when they vote one after the other. In Coordinated mode
// exactly 7n+5 requests: 6 of each site (the parent and the record, twice each; the vote; to
// finish), one list of the coordinator for each vote, and 5 for all: to begin, the first list, the
// outcome, the coordinator's ballot, and the removal. So a site makes 6 requests however many sites
// there are, and 7 if it removes the transaction. In Peer mode every site lists the ballots after
// each vote, and after each ballot that is deleted before it knows the outcome; it may try to
// record that itself.
func TestRequests(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for _, n := range []int{2, 5, 20} {
			t.Run(fmt.Sprint(mode, " ", n), func(t *testing.T) {
				bubble(t, n+1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					requests(t, srv, s, mode, n)
				})
			})
		}
	}
}

// TestRequestsOfOthers: a site that has joined below the parent, and that a transaction does not
// name, makes 4 requests: it lists the parent twice, and reads the record twice, with the payload.
// If it is slow, the record is gone when it reads again.
func TestRequestsOfOthers(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for _, others := range []int{0, 1, 7} {
			t.Run(fmt.Sprint(mode, " ", others), func(t *testing.T) { requestsOfOthers(t, mode, others, false) })
		}
		t.Run(fmt.Sprint(mode, " slow"), func(t *testing.T) { requestsOfOthers(t, mode, 1, true) })
	}
}

func requestsOfOthers(t *testing.T, mode commit.Mode, others int, slow bool) {
	t.Helper()
	bubble(t, others+3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		names := named(2)
		var sites []*site
		vote := func(string) commit.Vote {
			if slow {
				<-time.After(time.Second) // all others have read the record
			}
			return commit.Yes
		}
		for i, name := range append(names, named(others + 2)[2:]...) {
			sites = append(sites, join(t, s[i+1], name, vote))
		}
		for _, id := range []string{"warm", "t"} {
			kit.Pass(time.Minute)
			srv.ResetRequests()
			for i := range others {
				if slow {
					srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: s[i+3].ID(), Skip: 1}, time.Second)
				}
			}
			tx := begin(t, s[0], id, commit.Options{Sites: names, Mode: mode, Payload: []byte("p")})
			check.Have(tx.Wait(t.Context()))(t)
			<-tx.Done()
			tx.Close()
			if slow {
				kit.Pass(time.Minute)
				check.OK(t, srv.AwaitFault(0))
			}
			synctest.Wait()
		}
		for i := range others {
			of := srv.RequestsOf(s[i+3].ID())
			if slow {
				delete(of, zktest.OpSync) // by which the session knows that it lives
			}
			if of.Total() > 4 {
				t.Errorf("%d requests of a site that is not named: %v", of.Total(), of)
			}
		}
		nothingLeft(t, srv)
		for _, a := range sites {
			a.close(t)
		}
	})
}

// The coordinator's process ends between the phases; another one resumes.
func TestResume(t *testing.T) {
	bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		names := named(2)
		votes := make(chan commit.Vote)
		first := join(t, s[1], names[0], always(commit.Yes))
		second := join(t, s[2], names[1], func(string) commit.Vote { return <-votes })
		tx := begin(t, s[0], "a", commit.Options{Sites: names, TakeoverAfter: time.Hour})
		kit.Pass(time.Second)
		s[0].Close()
		if got := events(tx); !strings.HasSuffix(got, "left: session closed") || !strings.HasPrefix(got, "voted site0 yes") {
			t.Error(got)
		}
		if _, err := tx.Wait(t.Context()); !errors.Is(err, commit.ErrClosed) || !errors.Is(err, session.ErrClosed) || tx.Err() == nil {
			t.Error(err)
		}
		tx.Close()
		votes <- commit.Yes
		kit.Pass(time.Second)
		all, err := commit.List(t.Context(), s[3], parent)
		if err != nil || len(all) != 1 || all[0].String() != "a coordinated undecided: site0=yes site1=yes" || all[0].Coordinated || !all[0].Sites[0].Present {
			t.Errorf("%v, %v", all, err)
		}
		resumed, err := commit.Resume(t.Context(), s[3], parent)
		if err != nil || len(resumed) != 1 || resumed[0].ID() != "a" {
			t.Fatal(resumed, err)
		}
		if got, want := events(resumed[0]), "voted site0 yes; voted site1 yes; committed a"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		resumed[0].Close()
		kit.Pass(time.Second)
		nothingLeft(t, srv)
		if all, err := commit.List(t.Context(), s[3], parent); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
		first.close(t)
		second.close(t)
	})
}

// The coordinator does not come back: a site takes over, whatever the mode.
func TestTakeover(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				names := named(2)
				votes := make(chan commit.Vote)
				first := join(t, s[1], names[0], always(commit.Yes))
				second := join(t, s[2], names[1], func(string) commit.Vote { return <-votes })
				tx := begin(t, s[0], "a", commit.Options{Sites: names, Mode: mode, TakeoverAfter: 10 * time.Second, Deadline: time.Hour})
				kit.Pass(time.Second)
				s[0].Close()
				tx.Close()
				votes <- commit.Yes
				kit.Pass(40 * time.Second)
				nothingLeft(t, srv)
				for _, a := range []*site{first, second} {
					a.close(t)
					if got := strings.Join(a.got["a"], "; "); got != "prepare ; committed" {
						t.Error(got)
					}
				}
			})
		})
	}
}

// A coordinator that is frozen past its takeover reads the outcome that others recorded, or learns
// that it is gone. It does not decide otherwise, nor does it decide a later transaction with the
// same id.
func TestFrozenCoordinator(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		names := named(2)
		first := join(t, s[1], names[0], always(commit.Yes))
		second := join(t, s[2], names[1], always(0))
		frozen, away := openAway(t, srv)
		defer frozen.Close()
		tx := begin(t, frozen, "a", commit.Options{Sites: names, TakeoverAfter: 10 * time.Second, Deadline: 2 * time.Minute})
		defer tx.Close()
		kit.Pass(time.Second)
		away.Store(true)
		srv.Freeze(frozen.ID(), zktest.Both)
		kit.Pass(time.Minute)
		ctx := t.Context()
		check.OK(t, second.p.Vote(ctx, tx.Tx(), commit.Yes))
		kit.Pass(time.Minute)
		nothingLeft(t, srv)
		later := begin(t, s[0], "a", commit.Options{Sites: names, TakeoverAfter: time.Hour, Deadline: time.Hour})
		defer later.Close()
		away.Store(false)
		srv.Thaw(0)
		kit.Pass(5 * time.Minute)
		if outcome, err := tx.Wait(ctx); !errors.Is(err, commit.ErrForgotten) {
			t.Errorf("%v, %v", outcome, err)
		}
		if all, err := commit.List(ctx, s[0], parent); err != nil || len(all) != 1 || all[0].Outcome != nil {
			t.Errorf("%v, %v", all, err)
		}
		check.OK(t, second.p.Vote(ctx, later.Tx(), commit.Yes))
		if outcome, err := later.Wait(ctx); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		kit.Pass(time.Second)
		for _, a := range []*site{first, second} {
			a.close(t)
			if got := strings.Join(a.got["a"], "; "); got != "prepare ; committed; prepare ; committed" {
				t.Error(got)
			}
		}
	})
}

// A site whose session expires after its Yes is bound, and learns the outcome; so does one that
// restarts. One that restarts before its vote is asked again, or the transaction is aborted.
func TestSiteReturns(t *testing.T) {
	bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		names := named(2)
		ctx := t.Context()
		first := join(t, s[1], names[0], always(commit.Yes))
		second := join(t, s[2], names[1], always(0))
		tx := begin(t, s[0], "a", commit.Options{Sites: names, Payload: []byte("p"), Deadline: time.Hour})
		defer tx.Close()
		kit.Pass(time.Second)
		srv.Expire(s[1].ID())
		kit.Pass(time.Minute)
		s[1].Close() // and now its process ends
		first.close(t)
		if len(first.got["a"]) != 1 {
			t.Errorf("%q", first.got["a"])
		}
		check.OK(t, second.p.Vote(ctx, tx.Tx(), commit.Yes))
		if outcome, err := tx.Wait(ctx); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		back := join(t, s[3], names[0], always(commit.No))
		kit.Pass(time.Second)
		if got := strings.Join(back.got["a"], "; "); got != "committed" {
			t.Error(got)
		}
		nothingLeft(t, srv)
		back.close(t)

		// Before the vote: its presence is gone.
		tx = begin(t, s[0], "b", commit.Options{Sites: names, Deadline: time.Hour})
		defer tx.Close()
		again := join(t, s[3], names[0], always(0))
		kit.Pass(time.Second)
		again.close(t)
		if outcome, err := tx.Wait(ctx); err != nil || outcome.Reason != commit.SiteGone || outcome.Site != names[0] {
			t.Error(outcome, err)
		}
		second.close(t)
	})
}

// A site receives the outcome until it has finished, and the guards of Committed hold until then.
func TestGuards(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // no command waits for that long
		defer cancel()
		next := func(p *commit.Participant) commit.Event {
			select {
			case ev := <-p.Events():
				return ev
			case <-ctx.Done():
				t.Fatal("no event")
				return nil
			}
		}
		p := check.Have(commit.Join(s[1], parent, "a", nil))(t)
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}, Payload: []byte("p"), Record: true})
		defer tx.Close()
		if ev, ok := next(p).(commit.Prepare); !ok || string(ev.Payload) != "p" {
			t.Fatal(ev)
		}
		check.Is(t, p.Finish(ctx, tx.Tx()), commit.ErrUndecided)
		check.OK(t, p.VoteWith(ctx, tx.Tx(), commit.Yes, []byte("because")))
		for _, v := range []commit.Vote{commit.Yes, commit.No} {
			check.Is(t, p.Vote(ctx, tx.Tx(), v), commit.ErrVoted)
		}
		if ev, ok := (<-tx.Events()).(commit.Voted); !ok || string(ev.Data) != "because" || ev.Vote != commit.Yes {
			t.Error(ev)
		}
		next(p)
		p.Close()
		p = check.Have(commit.Join(s[1], parent, "a", nil))(t)
		defer p.Close()
		committed, ok := next(p).(commit.Committed)
		if !ok || string(committed.Payload) != "p" || committed.By != "coordinator" {
			t.Fatal(committed)
		}
		if _, err := s[1].Multi(ctx, committed.Guard(), session.CreateOp("/applied", nil, session.Persistent)); err != nil {
			t.Error(err)
		}
		if _, err := s[1].Multi(ctx, committed.Once(), session.CreateOp("/once", nil, session.Persistent)); err != nil {
			t.Error(err)
		}
		check.Fails(s[1].Multi(ctx, committed.Once(), session.CreateOp("/twice", nil, session.Persistent)))(t, session.ErrNoNode)
		check.Fails(s[1].Multi(ctx, committed.Guard(), session.CreateOp("/late", nil, session.Persistent)))(t, commit.ErrFinished)
		check.OK(t, p.Finish(ctx, tx.Tx()))
		kit.Pass(time.Second)
		nothingLeft(t, srv)
		if kept, _, err := s[0].Children(ctx, parent+"/_records"); err != nil || len(kept) != 1 || !strings.HasPrefix(kept[0], "t-") {
			t.Errorf("%q, %v", kept, err)
		} else if data, _, err := s[0].Get(ctx, parent+"/_records/"+kept[0]); err != nil || !strings.Contains(string(data), `"outcome":{"committed":true,"by":"coordinator"}`) {
			t.Errorf("%s, %v", data, err)
		}
	})
}

func TestBadInput(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, all ...*session.Session) {
		s, ctx := all[0], t.Context()
		synctest.Wait()
		srv.ResetRequests()
		sites := []string{"a"}
		for name, c := range map[string]struct {
			path string
			opts *commit.Options
			want error
			says string
		}{
			"no options":    {parent + "/t", nil, session.ErrInvalidArgument, "Options.Sites: there are none"},
			"no sites":      {parent + "/t", &commit.Options{}, session.ErrInvalidArgument, "Options.Sites: there are none"},
			"a site twice":  {parent + "/t", &commit.Options{Sites: []string{"a", "b", "a"}}, session.ErrInvalidArgument, `"a" is named twice`},
			"a slash":       {parent + "/t", &commit.Options{Sites: []string{"a/b"}}, session.ErrInvalidArgument, `Options.Sites: "a/b"`},
			"a dot":         {parent + "/t", &commit.Options{Sites: []string{"."}}, session.ErrInvalidPath, `Options.Sites: ".": `},
			"an empty site": {parent + "/t", &commit.Options{Sites: []string{""}}, session.ErrInvalidArgument, "Options.Sites: the name is empty"},
			"a path":        {"t", &commit.Options{Sites: sites}, session.ErrInvalidPath, "path"},
			"an id of ours": {parent + "/_t", &commit.Options{Sites: sites}, session.ErrInvalidPath, "the id"},
			"the root":      {"/", &commit.Options{Sites: sites}, session.ErrInvalidPath, "the id"},
			"a deadline":    {parent + "/t", &commit.Options{Sites: sites, Deadline: -1}, session.ErrInvalidArgument, "Options.Deadline"},
			"a takeover":    {parent + "/t", &commit.Options{Sites: sites, TakeoverAfter: -1}, session.ErrInvalidArgument, "Options.TakeoverAfter"},
			"a mode":        {parent + "/t", &commit.Options{Sites: sites, Mode: 7}, session.ErrInvalidArgument, "Options.Mode"},
			"too much":      {parent + "/t", &commit.Options{Sites: sites, Payload: make([]byte, 2<<20)}, session.ErrTooLarge, "Options.Payload"},
		} {
			if _, err := commit.Begin(ctx, s, c.path, c.opts); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, join := range map[string]func() (*commit.Participant, error){
			"a site":     func() (*commit.Participant, error) { return commit.Join(s, parent, "a/b", nil) },
			"no site":    func() (*commit.Participant, error) { return commit.Join(s, parent, "", nil) },
			"no parent":  func() (*commit.Participant, error) { return commit.Join(s, "", "a", nil) },
			"no session": func() (*commit.Participant, error) { return commit.Join(nil, parent, "a", nil) },
			"a conflict": func() (*commit.Participant, error) {
				return commit.Join(s, parent, "a", &commit.JoinOptions{ConflictAfter: -1})
			},
		} {
			if _, err := join(); !errors.Is(err, session.ErrInvalidArgument) && !errors.Is(err, session.ErrInvalidPath) {
				t.Errorf("%s: %v", name, err)
			}
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")
		p := check.Have(commit.Join(s, parent, "b", nil))(t)
		defer p.Close()
		if _, err := commit.Join(s, parent, "b", nil); err == nil {
			t.Error("joined twice")
		}
		tx := begin(t, s, "t", commit.Options{Sites: sites})
		defer tx.Close()
		check.Fails(commit.Begin(ctx, s, parent+"/t", &commit.Options{Sites: sites}))(t, commit.ErrExists)
		synctest.Wait()
		for _, err := range []error{p.Vote(ctx, tx.Tx(), commit.Yes), p.Finish(ctx, tx.Tx())} {
			if !errors.Is(err, commit.ErrNotNamed) || !strings.Contains(err.Error(), " "+parent+"/t as b: ") {
				t.Error(err)
			}
		}
		unknown := commit.Tx{ID: "u", GUID: tx.Tx().GUID}
		for _, err := range []error{p.Vote(ctx, unknown, commit.Yes), p.Finish(ctx, unknown)} {
			if !errors.Is(err, commit.ErrNoTransaction) || !strings.Contains(err.Error(), " "+parent+"/u as b: ") {
				t.Error(err)
			}
		}
		stale := commit.Tx{ID: "t", GUID: "of-an-earlier-one"}
		for _, err := range []error{p.Vote(ctx, stale, commit.Yes), p.Finish(ctx, stale)} {
			check.Is(t, err, commit.ErrStale)
		}
		check.Is(t, p.Vote(ctx, commit.Tx{ID: "t"}, commit.Yes), session.ErrInvalidArgument)
		check.Is(t, p.Vote(ctx, tx.Tx(), 7), session.ErrInvalidArgument)
		check.Is(t, p.VoteWith(ctx, tx.Tx(), commit.Yes, make([]byte, 2<<20)), session.ErrTooLarge)
	})
}

// What Begin accepts can be decided, finished and kept: the payload may be as large as a request
// allows.
func TestLargestPayload(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		names := named(2)
		sites := []*site{join(t, s[1], names[0], always(commit.Yes)), join(t, s[2], names[1], always(commit.No))}
		options := func(n int) *commit.Options {
			return &commit.Options{Sites: names, Payload: bytes.Repeat([]byte("p"), n), Record: true}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		most := sort.Search(2<<20, func(n int) bool {
			_, err := commit.Begin(ended, s[0], parent+"/t", options(n))
			if !errors.Is(err, session.ErrTooLarge) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return errors.Is(err, session.ErrTooLarge)
		}) - 1
		check.True(t, most >= 1<<20-2048, "at most %d bytes", most)
		tx := begin(t, s[0], "t", *options(most))
		defer tx.Close()
		if outcome, err := tx.Wait(t.Context()); err != nil || outcome.Reason != commit.VotedNo {
			t.Error(outcome, err)
		}
		kit.Pass(time.Minute)
		nothingLeft(t, srv)
		if kept, _, err := s[0].Children(t.Context(), parent+"/_records"); err != nil || len(kept) != 1 {
			t.Errorf("%q, %v", kept, err)
		}
		for _, a := range sites {
			a.close(t)
		}
	})
}

// Nodes that are not transactions do not matter.
func TestForeignNodes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		check.Must(t, s[0].EnsurePath(ctx, parent+"/_sites"))
		for path, data := range map[string]string{
			"/_sites/stranger": "x", "/_other": "", "/config": "yes", "/empty": "", "/json": "{}", "/z": `{"guid":"g","sites":[]}`,
		} {
			check.Have(s[0].Create(ctx, parent+path, []byte(data), session.Persistent))(t)
		}
		votes := make(chan commit.Vote)
		a := join(t, s[1], "a", func(string) commit.Vote { return <-votes })
		if _, err := commit.Begin(ctx, s[0], parent+"/json", &commit.Options{Sites: []string{"a"}}); !errors.Is(err, commit.ErrExists) ||
			!strings.HasPrefix(err.Error(), "commit: begin "+parent+"/json: the transaction exists: the path is of another recipe") {
			t.Error(err)
		}
		kit.Pass(time.Second)
		for _, tx := range []string{"json", "config", "_other"} {
			if err := a.p.Vote(ctx, commit.Tx{ID: tx, GUID: "g"}, commit.Yes); !errors.Is(err, commit.ErrNoTransaction) {
				t.Errorf("%s: %v", tx, err)
			}
		}
		tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}, TakeoverAfter: time.Hour, Deadline: time.Hour})
		tx.Close()
		votes <- commit.Yes
		if all, err := commit.List(ctx, s[0], parent); err != nil || len(all) != 1 || all[0].ID != "t" {
			t.Errorf("%v, %v", all, err)
		}
		resumed, err := commit.Resume(ctx, s[0], parent)
		if err != nil || len(resumed) != 1 {
			t.Fatal(resumed, err)
		}
		if outcome, err := resumed[0].Wait(ctx); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		<-resumed[0].Done()
		resumed[0].Close()
		kit.Pass(time.Second)
		if all := left(srv); len(all) != 4 {
			t.Errorf("left are %q", all)
		}
		a.close(t)
		if got := strings.Join(a.got["t"], "; "); got != "prepare ; committed" || len(a.got) != 1 {
			t.Errorf("%q", a.got)
		}
	})
}

// TestTouchedByHand: an operator deletes nodes of a transaction, or writes to its record, as no
// party does before the outcome. If it can be decided still, the deadline decides it: a vote that
// was deleted does not count. If not, all parties hear that. None of them sends more requests.
func TestTouchedByHand(t *testing.T) {
	const forgotten, late = "prepare ; forgotten", "prepare ; aborted: " + string(commit.TimedOut)
	type act func(ctx context.Context, s *session.Session, nodes []string) error // nodes: the record, the directory, the ballots
	for name, c := range map[string]struct {
		act  act
		got  string                      // by both sites
		fate error                       // of the coordinator
		then func(tx string) commit.Vote // of b; it does not vote if it is nil
	}{
		"ballots deleted": {func(ctx context.Context, s *session.Session, nodes []string) error {
			for i := len(nodes) - 1; i > 0; i-- { // children before their parent
				if err := s.Delete(ctx, nodes[i], session.AnyVersion); err != nil {
					return err
				}
			}
			return nil
		}, forgotten, commit.ErrForgotten, nil},
		"record written": {func(ctx context.Context, s *session.Session, nodes []string) error {
			data, _, err := s.Get(ctx, nodes[0])
			if err == nil {
				_, err = s.Set(ctx, nodes[0], data, session.AnyVersion)
			}
			return err
		}, forgotten, commit.ErrForgotten, nil},
		"record overwritten": {func(ctx context.Context, s *session.Session, nodes []string) error {
			_, err := s.Set(ctx, nodes[0], []byte("by hand"), session.AnyVersion)
			return err
		}, forgotten, commit.ErrForeign, nil},
		"a vote deleted": {func(ctx context.Context, s *session.Session, nodes []string) error {
			return s.Delete(ctx, nodes[len(nodes)-1], session.AnyVersion)
		}, late, nil, nil},
		"a vote deleted before the other": {func(ctx context.Context, s *session.Session, nodes []string) error {
			return s.Delete(ctx, nodes[len(nodes)-1], session.AnyVersion)
		}, late, nil, func(string) commit.Vote { kit.Pass(20 * time.Second); return commit.Yes }},
		"a ballot deleted": {func(ctx context.Context, s *session.Session, nodes []string) error {
			return s.Delete(ctx, nodes[len(nodes)-2], session.AnyVersion)
		}, late, nil, nil},
	} {
		for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					if c.then == nil {
						c.then = always(0)
					}
					a, b := join(t, s[1], "a", always(commit.Yes)), join(t, s[2], "b", c.then)
					kit.Pass(time.Second)
					tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a", "b"}, Mode: mode})
					kit.Pass(time.Second)
					nodes := left(srv)
					sort.Strings(nodes)
					srv.ResetRequests()
					check.Must(t, c.act(t.Context(), s[3], nodes))
					outcome, err := tx.Wait(t.Context())
					check.AtMost(t, kit.WithoutSyncs(srv.Requests()).Total(), 100, "requests until the end")
					if c.fate != nil {
						check.Is(t, err, c.fate)
					} else {
						check.True(t, err == nil && outcome.Reason == commit.TimedOut, "%v, %v", outcome, err)
					}
					tx.Close()
					kit.Pass(10 * time.Minute)
					srv.ResetRequests()
					kit.Pass(10 * time.Minute)
					for op, n := range srv.Requests() {
						if op != zktest.OpPing && op != zktest.OpSync { // of the sessions
							t.Errorf("%d requests: %v", n, op)
						}
					}
					for _, p := range []*site{a, b} {
						p.close(t)
						// The others remove a transaction that has no ballots any more: the site
						// whose ballot is gone may come too late.
						if got := strings.Join(p.got["t"], "; "); got != forgotten || !strings.HasPrefix(name, "a vote deleted") && p == a || name != "a ballot deleted" && p == b {
							check.Equal(t, got, c.got)
						}
					}
				})
			})
		}
	}
}

// TestBallotDeletedAway: an operator deletes the ballot of a site that is away. When the site is
// back, it receives the outcome, though the list of the ballots is that of a site which has
// finished.
func TestBallotDeletedAway(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			a, b := join(t, s[1], "a", always(commit.Yes)), join(t, s[2], "b", always(0))
			kit.Pass(time.Second)
			tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a", "b"}, Mode: mode})
			defer tx.Close()
			kit.Pass(time.Second)
			away := s[1].ID()
			srv.Freeze(away, zktest.Both)
			b.close(t) // its ballot keeps the transaction
			for _, node := range left(srv) {
				if strings.HasSuffix(node, "-a") {
					check.Must(t, s[3].Delete(t.Context(), node, session.AnyVersion))
				}
			}
			check.Have(tx.Wait(t.Context()))(t)
			srv.Thaw(away)
			srv.Expire(away)
			kit.Pass(time.Hour)
			a.close(t)
			check.Equal(t, strings.Join(a.got["t"], "; "), "prepare ; aborted: "+string(commit.SiteGone))
		})
	}
}

// TestOverwrittenOutcome: somebody overwrites the record of a transaction whose outcome the sites
// have. Finish says so, names the node, and returns; it succeeds when the record is repaired.
func TestOverwrittenOutcome(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p := check.Open(commit.Join(s[1], parent, "a", nil))(t)
		tx := check.Open(commit.Begin(t.Context(), s[0], parent+"/t", &commit.Options{Sites: []string{"a"}}))(t)
		check.Must(t, p.Vote(t.Context(), (<-p.Events()).(commit.Prepare).Tx, commit.Yes))
		check.True(t, check.Have(tx.Wait(t.Context()))(t).Committed, "aborted")
		outcome := (<-p.Events()).(commit.Committed)
		record, stat, err := s[0].Get(t.Context(), parent+"/t")
		check.Must(t, err)
		check.Have(s[0].Set(t.Context(), parent+"/t", []byte("by hand"), session.AnyVersion))(t)
		for range 2 {
			err = p.Finish(t.Context(), outcome.Tx)
			check.True(t, errors.Is(err, commit.ErrForeign) && strings.Contains(err.Error(), parent+"/t "), "%v", err)
		}
		check.Have(s[0].Set(t.Context(), parent+"/t", record, stat.Version+1))(t)
		synctest.Wait()
		check.Must(t, p.Finish(t.Context(), outcome.Tx))
	})
}

// Resume and List refuse bad arguments before any request, and name operation and path.
func TestBadSurveys(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, all ...*session.Session) {
		s := all[0]
		synctest.Wait()
		srv.ResetRequests()
		ended, end := context.WithCancel(t.Context())
		end()
		for name, survey := range map[string]func(context.Context, *session.Session, string) error{
			"resume": func(ctx context.Context, s *session.Session, parent string) error {
				_, err := commit.Resume(ctx, s, parent)
				return err
			},
			"list": func(ctx context.Context, s *session.Session, parent string) error {
				_, err := commit.List(ctx, s, parent)
				return err
			},
		} {
			if err := survey(t.Context(), s, "no/path"); !errors.Is(err, session.ErrInvalidPath) || !strings.HasPrefix(err.Error(), "commit: parent: ") {
				t.Errorf("%s: %v", name, err)
			}
			if err := survey(t.Context(), nil, parent); !errors.Is(err, session.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
			if err := survey(ended, s, parent); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "commit: "+name+" "+parent+": ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")
		if none, err := commit.Resume(t.Context(), s, "/nowhere"); err != nil || len(none) != 0 {
			t.Errorf("%v, %v", none, err)
		}
	})
}

// The caller of Begin leaves before the transaction is known to be there: it is aborted.
func TestBeginGivenUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a := join(t, s[1], "a", always(commit.Yes))
		kit.Pass(time.Second)
		srv.Freeze(s[0].ID(), zktest.ToClient)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := commit.Begin(ctx, s[0], parent+"/t", &commit.Options{Sites: []string{"a"}}); !errors.Is(err, session.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		srv.Thaw(s[0].ID())
		kit.Pass(10 * time.Minute)
		nothingLeft(t, srv)
		a.close(t)
		if got := strings.Join(a.got["t"], "; "); got != "prepare ; aborted: the caller of Begin gave up" && got != "aborted: the caller of Begin gave up" {
			t.Error(got)
		}
	})
}

// requests counts those of transactions in which the sites vote one after the other, as the
// costliest order is.
func requests(t *testing.T, srv *zktest.Server, s []*session.Session, mode commit.Mode, n int) {
	t.Helper()
	names := named(n)
	votes := make([]chan commit.Vote, n)
	var sites []*site
	for i, name := range names {
		votes[i] = make(chan commit.Vote)
		sites = append(sites, join(t, s[i+1], name, func(string) commit.Vote { return <-votes[i] }))
	}
	transact := func(id string) {
		tx := begin(t, s[0], id, commit.Options{Sites: names, Mode: mode})
		defer tx.Close()
		synctest.Wait()
		for i := range votes {
			if i == n-1 && id == "t" && srv.Proposals() != n { // and then the last vote and the outcome: n+2
				t.Errorf("%d proposals before the last vote, want %d", srv.Proposals(), n)
			}
			votes[i] <- commit.Yes
			synctest.Wait()
		}
		if outcome, err := tx.Wait(t.Context()); err != nil || !outcome.Committed {
			t.Error(outcome, err)
		}
		<-tx.Done()
		synctest.Wait()
	}
	transact("warm")
	synctest.Wait()
	srv.ResetRequests()
	transact("t")
	total, of, own := srv.Requests().Total(), srv.RequestsOf(s[0].ID()), 0
	for i := range sites {
		own = max(own, srv.RequestsOf(s[i+1].ID()).Total())
	}
	t.Logf("%d requests, at most %d of a site; of the coordinator %v; %d proposals", total, own, of, srv.Proposals())
	switch {
	case mode == commit.Coordinated && (total != 7*n+5 || own > 7):
		t.Errorf("want %d and 7: %v", 7*n+5, srv.Requests())
	case mode == commit.Coordinated && srv.Proposals() != 2*n+4:
		t.Errorf("%d proposals, want %d", srv.Proposals(), 2*n+4)
	case mode == commit.Peer && own > 2*n+9:
		t.Errorf("want at most %d of a site: %v", 2*n+9, srv.Requests())
	}
	for _, a := range sites {
		a.close(t)
	}
	nothingLeft(t, srv)
}
