package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// This file has the rules of a list one by one.

func never() float64  { return 1 }
func surely() float64 { return 0 }

// order returns the servers in the order in which they are tried next.
func order(l *List) (all []string) {
	for range l.All() {
		server, _ := l.choose()
		all = append(all, server)
	}
	return all
}

// TestReplace: who leaves, where the session belongs, and which servers it tries first.
func TestReplace(t *testing.T) {
	exactly := func(chance float64) func() float64 { return func() float64 { return chance } }
	for _, row := range []struct {
		name     string
		was, is  string
		current  string
		chance   func() float64
		leaves   bool
		first    string // those that are tried first, in any order
		last     string // and last; "" for any
		currents bool   // the session belongs where it is
	}{
		{"not connected", "ab", "bcd", "", surely, false, "bcd", "", false},
		{"the server stays, and one goes", "abc", "ab", "a", surely, false, "ab", "", true},
		{"the server stays, and one is another", "abc", "abd", "a", surely, false, "abd", "", true},
		{"one more, by chance", "ab", "abc", "a", surely, true, "c", "a", false},
		{"one more, not by chance", "ab", "abc", "a", never, false, "abc", "", true},
		{"twice as many, just not by chance", "ab", "abcd", "a", exactly(0.5), false, "abcd", "", true},
		{"twice as many, just by chance", "ab", "abcd", "a", exactly(0.49), true, "cd", "a", false},
		{"the server goes", "abc", "bc", "a", surely, true, "bc", "", false},
		{"the server is replaced", "abc", "bcd", "a", surely, true, "d", "", false},
		{"two are replaced by one, by chance", "abcd", "cde", "a", exactly(0.3), true, "cd", "e", false},
		{"two are replaced by one, just not by chance", "abcd", "cde", "a", exactly(2 * 1 / (3 * 2.0)), true, "e", "", false},
		{"one is replaced by three", "ab", "bcde", "a", surely, true, "cde", "b", false},
		{"all are replaced", "ab", "cd", "a", surely, true, "cd", "", false},
		{"it is on a server that had left", "ab", "abc", "x", surely, true, "c", "", false},
	} {
		split := func(names string) []string { return strings.Split(names, "") }
		for range 20 { // the order is random
			l := New(split(row.was), Options{})
			check.Equal(t, l.Replace(split(row.is), row.current, row.chance), row.leaves, row.name, "leaves")
			check.EqualSlices(t, l.All(), split(row.is), row.name)
			tried := order(l)
			check.EqualSlices(t, slices.Sorted(slices.Values(tried[:len(row.first)])), split(row.first), row.name, "tried first")
			if row.last != "" {
				check.Equal(t, tried[len(tried)-1], row.last, row.name, "tried last")
			}
			home := tried[0]
			if row.currents {
				home = row.current
			}
			check.Equal(t, l.Home(), home, row.name, "home")
			for _, server := range split("abcdex") {
				check.Equal(t, l.Has(server), strings.Contains(row.is, server), row.name, "has", server)
			}
		}
	}
}

// TestReplaceShuffles: sessions that move have no common second choice, either.
func TestReplaceShuffles(t *testing.T) {
	seen := make(map[string]int)
	for range 200 {
		l := New([]string{"a", "b", "c"}, Options{})
		l.Replace([]string{"a", "b", "c", "d", "e"}, "a", surely)
		seen[strings.Join(order(l), "")]++
	}
	for _, one := range []string{"debca", "decba", "edbca", "edcba"} {
		check.AtLeast(t, seen[one], 10, one)
	}
	check.Equal(t, len(seen), 4, "orders")
}

// TestReplaceByTheSame: a list that is resolved to the same servers again changes nothing.
func TestReplaceByTheSame(t *testing.T) {
	l := New([]string{"a", "b", "c"}, Options{Log: quiet})
	before, home := order(l), l.Home()
	l.Failed(before[0], errors.New("no leader"), false)
	check.False(t, l.Replace([]string{"c", "a", "b", "a"}, "a", surely), "leaves")
	check.Equal(t, l.Home(), home)
	check.EqualSlices(t, order(l), []string{before[1], before[2], before[1]}, "the first has failed")
}

// TestReplaceForgets: servers of a new list are tried at once, whatever has failed before.
func TestReplaceForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New([]string{"a"}, Options{Timeout: 10 * time.Second, Log: quiet})
		for range 5 {
			l.begin()
			l.Failed("a", errors.New("no leader"), false)
		}
		_, pause := l.choose()
		check.True(t, pause > 0, "no pause before")
		l.Replace([]string{"a", "b"}, "", never)
		_, pause = l.choose()
		check.Equal(t, pause, 0, "pause")
		check.Equal(t, l.Patience(), 1250*time.Millisecond)
	})
}

// TestPrefer: the server is the next, also after it has failed. The others follow.
func TestPrefer(t *testing.T) {
	for _, server := range []string{"a", "b", "c"} {
		for failures := range 3 {
			for turns := range 3 {
				l := New([]string{"a", "b", "c"}, Options{Log: quiet})
				for range turns {
					l.choose()
				}
				for range failures {
					l.Failed(server, errors.New("no leader"), false)
				}
				l.Prefer("x") // which is not there
				l.Prefer(server)
				tried := order(l)
				check.Equal(t, tried[0], server, "after", failures, "failures and", turns, "turns")
				slices.Sort(tried)
				check.EqualSlices(t, tried, []string{"a", "b", "c"})
			}
		}
	}
}

// TestPauses: there is a pause after a server was reached in vain, and when each server has failed.
// Then a round is over. After a success all is as in the beginning.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"a", "b", "c"}
		l := New(all, Options{Timeout: 10 * time.Second, Log: quiet})
		exhausted := func() bool {
			select {
			case <-l.Exhausted():
				return true
			default:
				return false
			}
		}
		for range 40 { // the lengths are random
			for i := range 7 {
				server, pause := l.choose()
				check.Equal(t, pause > 0, i >= len(all), i, "failures: pause", pause)
				check.Equal(t, exhausted(), i > 0 && i%len(all) == 0, i, "failures: a round is over")
				l.begin()
				l.failed(server, errors.New("refused"), false, false)
			}
			l.Succeeded("a")
			server, pause := l.choose()
			check.Equal(t, pause, 0, "after a success")
			l.begin()
			l.Failed(server, errors.New("no leader"), false)
			next, pause := l.choose()
			check.True(t, next != server && pause > 0, "%s after %s: a pause of %v", next, server, pause)
			check.AtMost(t, pause, 602*time.Millisecond, "the first pause after a success")
			l.begin()
			l.failed(next, errors.New("refused"), false, false)
			_, pause = l.choose()
			check.Equal(t, pause, 0, "after a server that was not reached")
			l.Succeeded("a")
		}
	})
}

// TestPatience: how long a server may take follows from the timeout, from what took so long before,
// and from the rounds without success.
func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		timeout, took          time.Duration
		failures               int // two are a round
		patience, dialPatience time.Duration
	}{
		{10 * time.Second, 0, 0, 1250 * ms, 1000 * ms},
		{4 * time.Second, 0, 1, 500 * ms, 4 * time.Second / 6},
		{4 * time.Second, 0, 2, 1000 * ms, 4 * time.Second / 6 * 2},
		{4 * time.Second, 0, 4, 2000 * ms, 2000 * ms},
		{100 * ms, 0, 0, 50 * ms, 50 * ms},
		{time.Minute, 0, 0, 1500 * ms, 1000 * ms},
		{time.Minute, 2 * time.Second, 0, 4000 * ms, 4000 * ms},
		{time.Minute, time.Minute, 0, 30 * time.Second, 30 * time.Second},
		{time.Minute, 0, 100, 30 * time.Second, 30 * time.Second},
	} {
		l := New([]string{"a", "b"}, Options{Timeout: row.timeout, Log: quiet})
		for range row.failures {
			l.Failed("a", errors.New("no leader"), false)
		}
		l.Took(row.took)
		check.Equal(t, l.Patience(), row.patience, row, "of a handshake")
		l.made(row.took)
		check.Equal(t, l.dialPatience(), row.dialPatience, row, "of a dial")
	}
}

// TestDialsAreMeasured: a server that takes long, and one that was waited for in vain, give the
// next ones more time.
func TestDialsAreMeasured(t *testing.T) {
	const far = 700 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		refuses := true
		l := New([]string{"127.0.0.1:1"}, Options{
			Timeout: 10 * time.Second, Log: quiet,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				<-time.After(far)
				if refuses {
					return nil, errors.New("refused")
				}
				near, _ := net.Pipe()
				return near, nil
			},
		})
		const rest = 2 * time.Second
		check.False(t, l.Accepts(t.Context(), "127.0.0.1:1"), "accepted")
		check.Equal(t, l.acceptPatience(rest), rest/5, "after a refusal")
		refuses = false
		reach(t, l, noLease, false)
		check.Equal(t, l.dialPatience(), 2*far, "of a dial")
		check.Equal(t, l.acceptPatience(rest), 2*far, "with a lease")
		check.Equal(t, l.acceptPatience(0), 2*far, "without a lease")
	})
}

// TestNoLease: without a lease a server has all the time of a dial to accept.
func TestNoLease(t *testing.T) {
	l := New([]string{"a"}, Options{Timeout: 10 * time.Second})
	for rest, want := range map[time.Duration]time.Duration{
		-1: time.Second, 0: time.Second, 1: 100 * time.Millisecond,
		2 * time.Second: 400 * time.Millisecond, 8 * time.Second: time.Second,
	} {
		check.Equal(t, l.acceptPatience(rest), want, "with a rest of", rest)
	}
}

// TestGuess: a server that expects no TLS is told from one that refuses.
func TestGuess(t *testing.T) {
	for _, row := range []struct {
		err     error
		guessed bool
	}{
		{io.EOF, true},
		{syscall.ECONNRESET, true},
		{tls.RecordHeaderError{Msg: "first record"}, true},
		{errors.New("bad certificate"), false},
		{context.DeadlineExceeded, false},
	} {
		got := withGuess(row.err)
		check.Is(t, got, row.err)
		check.Equal(t, strings.Contains(got.Error(), "is the port for TLS?"), row.guessed, row.err)
	}
}

// answers returns a dialer of a server that reads so many times, and writes its answer. Then it
// waits until the client closes the connection; without an answer it closes the connection itself.
func answers(open *atomic.Int32, reads int, answer string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		open.Add(1)
		go func() {
			defer open.Add(-1)
			defer func() { _ = far.Close() }()
			for range reads {
				_, _ = far.Read(make([]byte, 1<<14))
			}
			if answer != "" {
				_, _ = io.WriteString(far, answer)
				_, _ = io.Copy(io.Discard, far)
			}
		}()
		return near, nil
	}
}

// TestLeads: a server that says "rw" has a quorum. The connection is closed.
func TestLeads(t *testing.T) {
	for _, row := range []struct {
		name   string
		reads  int
		answer string
		leads  bool
	}{
		{"it leads", 1, "rw", true},
		{"read-only", 1, "ro", false},
		{"silent", 2, "rw", false},
		{"half an answer", 1, "r", false},
		{"hangs up", 1, "", false},
		{"hangs up at once", 0, "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var open atomic.Int32
			l := New([]string{"a"}, Options{Timeout: 10 * time.Second, Dialer: answers(&open, row.reads, row.answer)})
			check.Equal(t, l.Leads(t.Context(), "a"), row.leads, row.name)
			synctest.Wait()
			check.Equal(t, open.Load(), 0, row.name, "connections")
		})
	}
}

// TestAccepts: a server accepts, whatever it says then. The connection is closed.
func TestAccepts(t *testing.T) {
	refuses := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		l := New([]string{"a"}, Options{Timeout: 10 * time.Second, Dialer: answers(&open, 1, "rw")})
		check.True(t, l.Accepts(t.Context(), "a"), "refused")
		synctest.Wait()
		check.Equal(t, open.Load(), 0, "connections")
		l.opts.Dialer = refuses
		check.False(t, l.Accepts(t.Context(), "a"), "accepts")
		check.False(t, l.Leads(t.Context(), "a"), "leads")
	})
}

// TestNoTLS: a server that does not expect TLS is of no use. The connection is closed.
func TestNoTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		l := New([]string{"a:1"}, Options{
			Timeout: 10 * time.Second, Dialer: answers(&open, 1, "not a record of TLS"), TLS: &tls.Config{MinVersion: tls.VersionTLS13},
		})
		_, err := l.connect(t.Context(), "a:1", "a:1", time.Second, time.Second)
		check.True(t, err != nil && strings.Contains(err.Error(), "is the port for TLS?"), "%v", err)
		synctest.Wait()
		check.Equal(t, open.Load(), 0, "connections")
	})
}

// TestRefusalIsLogged: a server that cannot be dialled is named in the log at once.
func TestRefusalIsLogged(t *testing.T) {
	var open atomic.Int32
	var warned []string
	accepts := answers(&open, 0, "")
	l := New([]string{"a", "b"}, Options{
		Timeout: 10 * time.Second,
		Dialer: func(ctx context.Context, network, server string) (net.Conn, error) {
			if server == "a" {
				return nil, errors.New("refused")
			}
			return accepts(ctx, network, server)
		},
		Log: func(_ slog.Level, _ string, args ...any) { warned = append(warned, args[1].(string)) },
	})
	l.Prefer("a")
	server := reach(t, l, noLease, false)
	check.Equal(t, server, "b")
	check.EqualSlices(t, warned, []string{"a"})
}
