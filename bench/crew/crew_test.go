package crew

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func clients() map[string]func(Options) Opener {
	return map[string]func(Options) Opener{"ours": Ours, "plain": Plain}
}

// start opens a crew of n sessions on a server in memory.
func start(t *testing.T, srv *zktest.Server, open func(Options) Opener, n int, variant ...string) *Crew {
	t.Helper()
	c := &Crew{servers: srv.Addrs(), timeout: 10 * time.Second, open: open}
	t.Cleanup(func() {
		if err := c.Close(struct{}{}, nil); err != nil {
			t.Error(err)
		}
	})
	if err := c.Open(Opening{Sessions: n, Variant: variant}, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits until the report of c satisfies wanted.
func await(t *testing.T, c *Crew, wanted func(l Log) bool) (l Log) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		l = Log{}
		if err := c.Report(time.Time{}, &l); err != nil {
			t.Fatal(err)
		}
		if wanted(l) {
			break
		}
	}
	return l
}

// entries waits until the journal has n entries of a kind.
func entries(t *testing.T, c *Crew, kind Kind, n int) {
	t.Helper()
	await(t, c, func(l Log) bool {
		return len(slices.DeleteFunc(l.Entries, func(e Entry) bool { return e.Kind != kind })) >= n
	})
}

func report(t *testing.T, c *Crew) Log {
	t.Helper()
	return await(t, c, func(Log) bool { return true })
}

// TestRoles: sessions of either client play every role, and go on after all connections are cut.
func TestRoles(t *testing.T) {
	for name, open := range clients() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			admin, err := session.Open(t.Context(), srv.Addrs(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			for _, path := range []string{"/" + Config, "/group"} {
				if err := admin.EnsurePath(t.Context(), path); err != nil {
					t.Fatal(err)
				}
			}
			var parts []Part
			for i, role := range []string{Own, Line, Line, Lead, Lead, Config, Consume, Enroll} {
				path := "/" + role
				switch role {
				case Own:
					path += strconv.Itoa(i)
				case Enroll:
					path = "/group/" + strconv.Itoa(i)
				}
				parts = append(parts, Part{i, role, path})
			}
			c := start(t, srv, open, len(parts)+1) // the last one is idle
			if err := c.Play(parts, nil); err != nil {
				t.Fatal(err)
			}
			entries(t, c, Connected, len(parts)+1)
			entries(t, c, Granted, 4) // the holder of its own lock, one in the line, one of the candidates, and the member
			if name == "ours" {
				put(t, admin, "/"+Consume)
				entries(t, c, Took, 1)
			}
			if err := c.Cut(struct{}{}, nil); err != nil {
				t.Fatal(err)
			}
			entries(t, c, Resumed, len(parts)+1)
			l := report(t, c)
			if slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Kind == Expired || e.Kind == Deprived }) {
				t.Errorf("a session was lost: %v", l.Entries)
			}
			if open := l.Servers[srv.Addrs()[0]]; open != len(parts)+1 || len(l.Dials) < 2*open {
				t.Errorf("%d connections after %d dials", open, len(l.Dials))
			}
		})
	}
}

func put(t *testing.T, s *session.Session, path string) {
	t.Helper()
	q, err := queue.New(s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(t.Context()) //nolint:errcheck // the item is there
	if _, err := q.Put(t.Context(), []byte("17")); err != nil {
		t.Fatal(err)
	}
}

// TestLoss: a holder, or member, whose session ends learns of its loss, with the id of that
// session.
func TestLoss(t *testing.T) {
	for name, open := range clients() {
		for _, role := range []string{Own, Enroll} {
			t.Run(name+"/"+role, func(t *testing.T) {
				t.Parallel()
				srv := zktest.Start(t)
				admin, err := session.Open(t.Context(), srv.Addrs(), nil)
				if err != nil {
					t.Fatal(err)
				}
				err = admin.EnsurePath(t.Context(), "/group")
				admin.Close()
				if err != nil {
					t.Fatal(err)
				}
				c := start(t, srv, open, 2)
				if err := c.Play([]Part{{0, role, "/group/own"}}, nil); err != nil {
					t.Fatal(err)
				}
				ids := srv.Sessions()
				for _, id := range ids {
					srv.Expire(id)
				}
				entries(t, c, Expired, 2)
				entries(t, c, Deprived, 1)
				entries(t, c, Connected, 4)
				entries(t, c, Granted, 2) // one in each of two sessions
				for _, e := range report(t, c).Entries {
					if (e.Kind == Expired || e.Kind == Deprived) && !slices.Contains(ids, e.Session) || e.Kind == Deprived && e.Member != 0 {
						t.Errorf("%+v, want one of the sessions %x", e, ids)
					}
				}
			})
		}
	}
}

// TestRefuse: while servers refuse, dials fail, and are counted.
func TestRefuse(t *testing.T) {
	for name, open := range clients() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, zktest.Start(t), open, 3)
			if err := c.Refuse(time.Now().Add(time.Hour), nil); err != nil {
				t.Fatal(err)
			}
			if err := c.Cut(struct{}{}, nil); err != nil {
				t.Fatal(err)
			}
			await(t, c, func(l Log) bool { return slices.ContainsFunc(l.Dials, func(d Dial) bool { return d.Failed }) })
			if err := c.Refuse(time.Time{}, nil); err != nil {
				t.Fatal(err)
			}
			entries(t, c, Resumed, 3)
			l := report(t, c)
			failed := 0
			for _, d := range l.Dials {
				if d.Failed {
					failed++
				}
			}
			if failed == 0 || len(l.Dials)-failed != 6 {
				t.Errorf("%d of %d dials failed, want 6 that did not", failed, len(l.Dials))
			}
		})
	}
}

func TestUse(t *testing.T) {
	c := start(t, zktest.Start(t), Ours, 4, OursVariants()...)
	var u Usage
	if err := c.Use(true, &u); err != nil {
		t.Fatal(err)
	}
	if u.Memory.Goroutines < 4 {
		t.Errorf("4 sessions have %v", fmt.Sprint(u.Memory))
	}
}
