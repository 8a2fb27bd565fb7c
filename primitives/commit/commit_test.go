package commit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const parent = "/app/tx"

// bubble runs f with n sessions on a server in memory, in a bubble whose clock is its own.
func bubble(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = open(w.T, w.Server)
			defer all[i].Close()
		}
		f(w.T, w.Server, all...)
	})
}

func open(t *testing.T, srv *zktest.Server) *session.Session {
	t.Helper()
	return check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext}))(t)
}

// openAway returns a session that finds no server while away is set.
func openAway(t *testing.T, srv *zktest.Server) (s *session.Session, away *atomic.Bool) {
	t.Helper()
	away = new(atomic.Bool)
	s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{
		Timeout: 12 * time.Second, ServerTick: time.Second,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if away.Load() {
				return nil, errors.New("away")
			}
			return srv.DialContext(ctx, network, address)
		},
	})
	check.Must(t, err)
	return s, away
}

// A site votes and finishes by itself.
type site struct {
	p    *commit.Participant
	vote func(tx string) commit.Vote // 0: does not vote
	got  map[string][]string         // events by transaction
	gone chan struct{}
	errs []error
}

// named returns the sites' names.
func named(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("site%d", i)
	}
	return names
}

func join(t *testing.T, s *session.Session, name string, vote func(tx string) commit.Vote) *site {
	t.Helper()
	p := check.Have(commit.Join(s, parent, name, nil))(t)
	a := &site{p: p, vote: vote, got: map[string][]string{}, gone: make(chan struct{})}
	go a.run(context.WithoutCancel(t.Context()))
	return a
}

func (a *site) run(ctx context.Context) {
	defer close(a.gone)
	for ev := range a.p.Events() {
		switch ev := ev.(type) {
		case commit.Prepare:
			a.note(ev.Tx.ID, "prepare "+string(ev.Payload), nil)
			if v := a.vote(ev.Tx.ID); v != 0 {
				a.note(ev.Tx.ID, "", a.p.Vote(ctx, ev.Tx, v))
			}
		case commit.Committed:
			a.note(ev.Tx.ID, "committed", a.p.Finish(ctx, ev.Tx))
		case commit.Aborted:
			a.note(ev.Tx.ID, "aborted: "+string(ev.Reason), a.p.Finish(ctx, ev.Tx))
		case commit.Forgotten:
			a.note(ev.Tx.ID, "forgotten", nil)
		case commit.Voted, commit.Left:
		}
	}
}

func (a *site) note(tx, what string, err error) {
	if what != "" {
		a.got[tx] = append(a.got[tx], what)
	}
	if err != nil && !errors.Is(err, commit.ErrDecided) && !errors.Is(err, commit.ErrClosed) {
		a.errs = append(a.errs, err)
	}
}

// close ends the site, and waits for its reader.
func (a *site) close(t *testing.T) {
	t.Helper()
	a.p.Close()
	<-a.gone
	for _, err := range a.errs {
		t.Error(err)
	}
}

func always(v commit.Vote) func(string) commit.Vote { return func(string) commit.Vote { return v } }

func begin(t *testing.T, s *session.Session, id string, o commit.Options) *commit.Transaction {
	t.Helper()
	tx := check.Have(commit.Begin(t.Context(), s, parent+"/"+id, &o))(t)
	return tx
}

// left returns the nodes of transactions.
func left(srv *zktest.Server) []string {
	var all []string
	for _, p := range srv.Paths() {
		if rest, ok := strings.CutPrefix(p, parent+"/"); ok && !strings.HasPrefix(rest, "_") {
			all = append(all, p)
		}
	}
	return all
}

func nothingLeft(t *testing.T, srv *zktest.Server) {
	t.Helper()
	if all := left(srv); len(all) > 0 {
		t.Errorf("left behind: %q", all)
	}
}

// events reads all events of a transaction that ends.
func events(tx *commit.Transaction) string {
	var all []string
	for ev := range tx.Events() {
		all = append(all, ev.String())
	}
	return strings.Join(all, "; ")
}

// TestNoOutcome: what is not decided is not called an abort.
func TestNoOutcome(t *testing.T) {
	check.Equal(t, commit.Outcome{}.String(), "undecided")
}

func TestOutcomes(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for _, c := range []struct {
			name  string
			votes []commit.Vote
			want  string // the outcome, as the sites receive it
			after time.Duration
		}{
			{"all yes", []commit.Vote{commit.Yes, commit.Yes, commit.Yes}, "committed", 0},
			{"one site", []commit.Vote{commit.Yes}, "committed", 0},
			{"one no", []commit.Vote{commit.Yes, commit.No, commit.Yes}, "aborted: a site voted no", 0},
			{"an early no", []commit.Vote{0, commit.No, 0}, "aborted: a site voted no", 0},
			{"one silent", []commit.Vote{commit.Yes, 0, commit.Yes}, "aborted: the deadline passed", time.Minute},
		} {
			t.Run(mode.String()+"/"+c.name, func(t *testing.T) {
				bubble(t, len(c.votes)+1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					names := named(len(c.votes))
					var sites []*site
					for i, v := range c.votes {
						sites = append(sites, join(t, s[i+1], names[i], always(v)))
					}
					tx := begin(t, s[0], "a", commit.Options{Sites: names, Payload: []byte("p\nq"), Mode: mode, Deadline: time.Minute})
					defer tx.Close()
					kit.Pass(c.after + time.Second)
					outcome, err := tx.Wait(t.Context())
					if err != nil || outcome.Committed != (c.want == "committed") {
						t.Errorf("%v, %v", outcome, err)
					}
					<-tx.Done()
					kit.Pass(time.Second)
					nothingLeft(t, srv)
					for i, a := range sites {
						a.close(t)
						got := strings.Join(a.got["a"], "; ")
						if got != "prepare p\nq; "+c.want && (got != c.want || got == "committed") {
							t.Errorf("%s: %s, want %s", names[i], got, c.want)
						}
					}
				})
			})
		}
	}
}
