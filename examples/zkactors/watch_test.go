package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session/zktest"
)

// A screen is the output of a running command.
type screen struct {
	mu   sync.Mutex
	text string
	more chan struct{} // closed, and replaced, at each write
}

func newScreen() *screen { return &screen{more: make(chan struct{})} }

// Write implements [io.Writer].
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(text)
	close(s.more)
	s.more = make(chan struct{})
	return len(text), nil
}

// last returns the text since the screen was last cleared, and a channel that is closed with the
// next write.
func (s *screen) last() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text[strings.LastIndex(s.text, clearScreen)+1:], s.more
}

// await waits until the screen satisfies the condition, and returns it.
func (s *screen) await(t *testing.T, name string, ok func(text string) bool) string {
	t.Helper()
	late := time.After(patience)
	for {
		text, more := s.last()
		if ok(text) {
			return text
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%s: the screen is %s", name, text)
		}
	}
}

// watched runs watch of /locks, and returns its output.
func watched(t *testing.T, srv *zktest.Server, terminal bool, flags ...string) *screen {
	t.Helper()
	out := newScreen()
	p := &program{stdin: strings.NewReader(""), stdout: out, stderr: out, terminal: func(any) bool { return terminal }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- p.run(ctx, append([]string{"watch", "/locks", "--timeout", "2s", "--servers", srv.Addrs()[0]}, flags...))
	}()
	t.Cleanup(func() {
		cancel()
		check.Equal(t, <-done, 130, "status of watch")
	})
	return out
}

// TestWatchDisconnected: while no server answers, watch says since when, and after the timeout of
// its session no holder is shown as one. When the server is back, the state is shown again.
func TestWatchDisconnected(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	acquired(t, open(t, srv), "host-1:42")
	holds := func(text string) bool {
		i := strings.LastIndex(text, "nothing is known")
		return strings.Contains(text[i+1:], "  holds  host-1:42")
	}
	screens := map[string]*screen{"terminal": watched(t, srv, true), "pipe": watched(t, srv, false)}
	lines := watched(t, srv, false, "--json")
	for name, s := range screens {
		s.await(t, name, holds)
	}
	lines.await(t, "json", func(text string) bool { return strings.Contains(text, `"holds":true`) })
	srv.Refuse(true)
	srv.Disconnect(0)
	for name, s := range screens {
		s.await(t, name, func(text string) bool {
			return strings.Contains(text, "disconnected since ") && strings.Contains(text, ": this is the last known state")
		})
	}
	lines.await(t, "json", func(text string) bool { return strings.Contains(text, `"disconnectedSince":"`) })
	unknown := screens["terminal"].await(t, "terminal", func(text string) bool { return strings.Contains(text, ": nothing is known since then") })
	if !strings.Contains(unknown, "disconnected since ") || !strings.Contains(unknown, "lock: was held") || !strings.Contains(unknown, "  held  host-1:42") || holds(unknown) {
		t.Errorf("nothing is known, and the screen is %s", unknown)
	}
	screens["pipe"].await(t, "pipe", func(text string) bool { return strings.HasSuffix(text, ": nothing is known since then\n\n") })
	text := lines.await(t, "json", func(text string) bool { return strings.Contains(text, `"unknownSince"`) })
	last := strings.Split(strings.TrimSpace(text), "\n")
	var none struct {
		Path         string
		UnknownSince time.Time
		Things       []inspect.Thing
	}
	check.Must(t, json.Unmarshal([]byte(last[len(last)-1]), &none))
	if none.Path != "/locks" || none.UnknownSince.IsZero() || none.Things != nil {
		t.Errorf("%+v", none)
	}
	srv.Refuse(false)
	for name, s := range screens {
		s.await(t, name, holds)
	}
	lines.await(t, "json", func(text string) bool {
		return strings.Contains(text[strings.LastIndex(text, `"unknownSince"`):], `"holds":true`)
	})
}

// TestWatchGrants: watch shows the time since a grant that it has seen, and a bound for an older
// one. ls shows none.
func TestWatchGrants(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	held := acquired(t, open(t, srv), "host-1:42")
	next, err := lock.New(open(t, srv), path, &lock.Options{Data: []byte("host-2:43")})
	check.Must(t, err)
	t.Cleanup(next.Close)
	line(t, open(t, srv), 2)
	runWith(t, srv, "ls /locks").want(t, 0, "holds  host-1:42  exclusive  ?   0x", "")
	text, lines := watched(t, srv, false), watched(t, srv, false, "--json")
	text.await(t, "text", func(text string) bool { return strings.Contains(text, "holds  host-1:42  exclusive  >0s  0x") })
	first := lines.await(t, "json", func(text string) bool { return strings.HasSuffix(text, "\n") })
	if strings.Contains(first, `"granted"`) {
		t.Error(first)
	}
	check.Must(t, held.Release(t.Context()))
	text.await(t, "text", func(text string) bool { return strings.Contains(text, "holds  host-2:43  exclusive  0s  0x") })
	lines.await(t, "json", func(text string) bool { return strings.Contains(text, `"granted":{"/locks/backup/_c_`) })
}

// TestViews: what is shown depends on the time, the order and the limits, not on the servers.
func TestViews(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	waits := func(path string, waits time.Duration) inspect.Thing {
		return inspect.Thing{Path: path, Kind: inspect.Lock, Line: 2, Contenders: []inspect.Contender{
			{Node: path + "/1", Identity: "a", Wants: "exclusive", Since: ago(time.Hour), Holds: true},
			{Node: path + "/2", Identity: `b\x1b[2J`, Wants: "exclusive", Since: ago(waits)},
		}}
	}
	survey := &inspect.Survey{Path: "/", Exists: true, Taken: now, Things: []inspect.Thing{
		waits("/a", 10*time.Second), waits("/b", 2*time.Minute), waits("/c", 20*time.Minute),
		{Path: "/d", Kind: inspect.Lock},
		{Path: "/e", Kind: inspect.Semaphore, Limit: 2, Held: 2},
		{Path: "/f", Kind: inspect.Queue, Queue: &inspect.QueueState{Paused: true, Dead: 1}},
		{Path: "/g", Kind: inspect.Transactions, Transactions: []inspect.Transaction{{ID: "x", InDoubt: true, Since: ago(time.Hour)}}},
		{Path: "/h", Kind: inspect.Unreadable, Problem: "x"},
	}}
	v := view{now: now, sort: byWait, slow: time.Minute, stuck: 10 * time.Minute, color: true}
	check.Must(t, v.validate())
	out := render(v.order(survey), v)
	first, _, _ := strings.Cut(out, "\n")
	check.Equal(t, first, "8 recipes, 3 held, 1 free, 1 full, 1 paused, 1 with dead letters, 1 with undecided transactions, 1 unreadable; "+
		"3 waiting, the longest for 20m0s at /c")
	for _, order := range []string{"/g  trans", "/c  lock", "/b  lock", "/a  lock", "/d  lock"} {
		i := strings.Index(out, order)
		if i < 0 {
			t.Fatalf("%q does not follow in %s", order, out)
		}
		out = out[i:]
	}
	out = render(v.order(survey), v)
	for _, want := range []string{
		red + `  waits  b\x1b[2J  exclusive  20m0s` + plain + "\n", yellow + `  waits  b\x1b[2J  exclusive  2m0s` + plain + "\n", "\n" + `  waits  b\x1b[2J  exclusive  10s` + "\n",
		"\n  holds  a         exclusive  ?\n", red + "  x    undecided, no coordinator  1h0m" + plain,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	check.Equal(t, survey.Things[0].Path, "/a", "the survey's own order")
	v.sort = byPath
	check.Equal(t, v.order(survey), survey)
	v.past = true
	if out = render(survey, v); strings.Contains(out, "holds") || strings.Contains(out, "waits") || strings.Contains(out, red) || !strings.Contains(out, "lock: was held, 1 waiting") {
		t.Error(out)
	}
}
