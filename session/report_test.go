package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A journal is a handler that keeps its records, as text without the time.
type journal struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func newJournal(level slog.Level) *journal {
	j := &journal{}
	j.Handler = slog.NewTextHandler(j, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return j
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, strings.TrimSpace(string(p)))
	return len(p), nil
}

// count returns how many records have the text.
func (j *journal) count(text string) (n int) {
	for _, line := range j.kept() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (j *journal) kept() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// TestLog: what becomes of a session is logged once, with its name and its id. What is lost is a
// warning.
func TestLog(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		j := newJournal(slog.LevelInfo)
		opts.Logger, opts.Name = slog.New(j), "billing"
		s := mustOpen(t, srv.Addrs(), opts)
		first := s.ID()
		defer s.Hold()()
		srv.Disconnect(0)
		pass(time.Minute)
		srv.Refuse(true)
		srv.Disconnect(0)
		pass(time.Minute)
		srv.Refuse(false)
		pass(time.Minute)
		second := s.ID()
		s.Close()

		server := srv.Addrs()[0]
		of := func(id int64) string { return fmt.Sprintf("session=billing id=%#x", id) }
		want := []string{
			"level=INFO msg=\"session connected\" epoch=1 timeout=12s server=" + server + " " + of(first),
			"level=INFO msg=\"session suspended\" deadline=… " + of(first),
			"level=INFO msg=\"connection lost\" server=" + server + " epoch=1 reason=… " + of(first),
			"level=INFO msg=\"session resumed\" server=" + server + " " + of(first),
			"level=INFO msg=\"session suspended\" deadline=… " + of(first),
			"level=INFO msg=\"connection lost\" server=" + server + " epoch=1 reason=… " + of(first),
			"level=INFO msg=\"connection lost\" server=" + server + " epoch=1 reason=… " + of(first), // the server knows it no more
			"level=WARN msg=\"server cannot be used\" server=" + server + " reason=… " + of(first),
			"level=WARN msg=\"session lapsed: what was held is lost\" " + of(first),
			"level=WARN msg=\"session expired\" epoch=1 " + of(first),
			"level=INFO msg=\"server can be used again\" times=… " + of(second),
			"level=INFO msg=\"session connected\" epoch=2 timeout=12s server=" + server + " " + of(second),
			"level=INFO msg=\"session closed\" " + of(second),
		}
		var got []string
		for _, line := range j.kept() {
			for _, key := range []string{"deadline=", "reason=", "times="} {
				if before, after, ok := strings.Cut(line, key); ok {
					_, rest, _ := strings.Cut(after, " session=")
					line = before + key + "… session=" + rest
				}
			}
			got = append(got, line)
		}
		slices.Sort(got) // two goroutines report a connection that is lost
		slices.Sort(want)
		check.True(t, slices.Equal(got, want), "logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	})
}

// TestNormalLifeIsQuiet: a session that is closed, whatever it was doing, warns of nothing, and
// says of no connection that it was lost.
func TestNormalLifeIsQuiet(t *testing.T) {
	for wait := range 40 {
		inBubble(t, zktest.Config{Latency: 5 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			j := newJournal(slog.LevelInfo)
			opts.Logger = slog.New(j)
			s, err := session.Start(srv.Addrs(), opts)
			check.Must(t, err)
			<-time.After(time.Duration(wait) * time.Millisecond)
			if wait%2 == 0 {
				go func() { _, _ = s.Exists(t.Context(), "/") }()
			}
			s.Close()
			for _, line := range j.kept() {
				check.True(t, !strings.Contains(line, "WARN") && !strings.Contains(line, "connection lost"), "closed after %d ms: %s", wait, line)
			}
		})
	}
}

// TestExpiryBlamesNoServer: a server that ends a session, and with it the connection, is no server
// that cannot be used; one that does so again and again is.
func TestExpiryBlamesNoServer(t *testing.T) {
	for _, row := range []struct {
		times int
		warns bool
	}{{1, false}, {3, true}} {
		inBubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			j := newJournal(slog.LevelInfo)
			opts.Logger = slog.New(j)
			s := mustOpen(t, srv.Addrs(), opts)
			defer s.Close()
			events := s.Events(t.Context())
			for range row.times {
				srv.Expire(s.ID())
				zktest.Await(t, events, func(ev session.Event) bool { _, is := ev.(session.Expired); return is })
				zktest.Await(t, events, func(ev session.Event) bool { _, is := ev.(session.Connected); return is })
			}
			warned := slices.ContainsFunc(j.kept(), func(line string) bool { return strings.Contains(line, "cannot be used") })
			check.Equal(t, warned, row.warns, strings.Join(j.kept(), "\n"))
		})
	}
}

// A clerk is an observer that notes the reports of recipes.
type clerk struct {
	session.NopObserver
	said []string
}

func (c *clerk) note(text ...any) { c.said = append(c.said, fmt.Sprintln(text...)) }

func (c *clerk) Waiting(recipe, path string)                    { c.note(recipe, path) }
func (c *clerk) Waited(recipe, path string, took time.Duration) { c.note(recipe, path, took) }
func (c *clerk) GaveUp(recipe, path string, took time.Duration) { c.note(recipe, path, took) }
func (c *clerk) Held(recipe, path string, took time.Duration)   { c.note(recipe, path, took) }
func (c *clerk) Lost(recipe, path string, err error)            { c.note(recipe, path, err) }
func (c *clerk) Failed(recipe, path string, err error)          { c.note(recipe, path, err) }
func (c *clerk) Revoked(recipe, path string)                    { c.note(recipe, path) }
func (c *clerk) Leader(path, node string, data []byte, at int64) {
	c.note(path, node, string(data), at)
}
func (c *clerk) Members(path string, n int) { c.note(path, n) }

func (c *clerk) Put(path string, items int, took time.Duration, err error) {
	c.note(path, items, took, err)
}

func (c *clerk) Delivered(path string, age time.Duration, attempt int) { c.note(path, age, attempt) }
func (c *clerk) Settled(path, end string, worked time.Duration)        { c.note(path, end, worked) }
func (c *clerk) Buried(path string)                                    { c.note(path) }

// TestRecipesAreLogged: each report of a recipe reaches the observer and the log. A record has a
// level that fits, and no data.
func TestRecipesAreLogged(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		j, c := newJournal(slog.LevelDebug), &clerk{}
		opts.Logger, opts.Name, opts.Observer = slog.New(j), "billing", c
		s := mustOpen(t, srv.Addrs(), opts)
		synctest.Wait() // until it is logged that the session is connected
		id := fmt.Sprintf(" session=billing id=%#x", s.ID())
		o := s.Observer()
		for _, row := range []struct {
			report     func()
			said, line string
		}{
			{func() { o.Waiting("lock", "/l") }, "lock /l", "level=DEBUG msg=waiting recipe=lock path=/l"},
			{func() { o.Waited("lock", "/l", time.Second) }, "lock /l 1s", "level=DEBUG msg=granted recipe=lock path=/l waited=1s"},
			{func() { o.Waited("election", "/e", time.Second) }, "election /e 1s", "level=INFO msg=granted recipe=election path=/e waited=1s"},
			{func() { o.GaveUp("lock", "/l", time.Second) }, "lock /l 1s", "level=DEBUG msg=\"gave up\" recipe=lock path=/l waited=1s"},
			{func() { o.Held("semaphore", "/s", time.Second) }, "semaphore /s 1s", "level=DEBUG msg=\"not held any more\" recipe=semaphore path=/s held=1s"},
			{func() { o.Held("group", "/g", time.Second) }, "group /g 1s", "level=INFO msg=\"not held any more\" recipe=group path=/g held=1s"},
			{func() { o.Lost("lock", "/l", session.ErrExpired) }, "lock /l session expired", "level=WARN msg=lost recipe=lock path=/l reason=\"session expired\""},
			{func() { o.Failed("lock", "/l", session.ErrNoAuth) }, "lock /l not authorized", "level=WARN msg=failed recipe=lock path=/l reason=\"not authorized\""},
			{func() { o.Lost("lock", "/l", session.ErrClosed) }, "lock /l session closed", "level=INFO msg=lost recipe=lock path=/l reason=\"session closed\""},
			{func() { o.Revoked("lock", "/l") }, "lock /l", "level=INFO msg=\"revocation requested\" recipe=lock path=/l"},
			{func() { o.Leader("/e", "/e/n-1", []byte("secret"), 7) }, "/e /e/n-1 secret 7", "level=INFO msg=\"leader changed\" recipe=election path=/e leader=/e/n-1 term=7"},
			{func() { o.Members("/g", 3) }, "/g 3", "level=DEBUG msg=\"members changed\" recipe=group path=/g members=3"},
		} {
			before := len(j.kept())
			row.report()
			if all := j.kept(); len(all) != before+1 || all[before] != row.line+id {
				t.Errorf("logged %q, want %q", all[before:], row.line+id)
			}
			check.Equal(t, c.said[len(c.said)-1], row.said+"\n", "observed")
		}

		// There are as many of these as requests.
		before := len(j.kept())
		c.said = nil
		o.Put("/q", 2, time.Second, session.ErrTooLarge)
		o.Delivered("/q", time.Second, 3)
		o.Settled("/q", "rejected", time.Second)
		o.Buried("/q")
		check.EqualSlices(t, c.said, []string{"/q 2 1s " + session.ErrTooLarge.Error() + "\n", "/q 1s 3\n", "/q rejected 1s\n", "/q\n"}, "observed")
		check.EqualSlices(t, j.kept()[before:], nil, "logged")
	})
}

// TestObserved: only a session with an observer is observed.
func TestObserved(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		check.False(t, mustOpen(t, srv.Addrs(), opts).Observed(), "no observer")
		opts.Observer = &clerk{}
		check.True(t, mustOpen(t, srv.Addrs(), opts).Observed(), "an observer")
	})
}

// TestLogOfSibling: the records of a sibling carry its own id, and the name once. Attributes and
// groups of the owner's logger are kept.
func TestLogOfSibling(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		j := newJournal(slog.LevelInfo)
		opts.Logger, opts.Name = slog.New(j).With("app", "x"), "billing"
		s := mustOpen(t, srv.Addrs(), opts)
		sibling := check.Have(s.Sibling())(t)
		defer sibling.Close()
		check.Must(t, sibling.Await(t.Context()))
		synctest.Wait()
		sibling.Logger().With("a", 1).WithGroup("g").Warn("text", "b", 2)
		all := j.kept()
		want := fmt.Sprintf("level=WARN msg=text app=x a=1 g.b=2 g.session=billing g.id=%#x", sibling.ID())
		if last := all[len(all)-1]; last != want || s.ID() == sibling.ID() {
			t.Errorf("logged %q, want %q", last, want)
		}
	})
}

// TestNoLogger: a session without a logger discards every record.
func TestNoLogger(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		check.False(t, s.Logger().Enabled(context.Background(), slog.LevelError), "the logger is enabled")
		s.Observer().Lost("lock", "/l", errors.New("x"))
	})
}

// TestSlowLogger: a logger that blocks delays neither the news of a loss nor the end of a
// request whose context has ended.
func TestSlowLogger(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Logger = slog.New(slowHandler{slog.DiscardHandler, func(r slog.Record) {
			if r.Level == slog.LevelWarn { // and so is the record of the loss
				pass(time.Hour)
			}
		}})
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Hold()()
		events := s.Events(t.Context())
		begun := time.Now()
		srv.Refuse(true)
		srv.Disconnect(0)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Fails(s.Exists(ctx, "/"))(t, context.DeadlineExceeded)
		await[session.Lapsed](t, events)
		check.AtMost(t, time.Since(begun), opts.Timeout, "the loss was told after")
		srv.Refuse(false)
	})
}
