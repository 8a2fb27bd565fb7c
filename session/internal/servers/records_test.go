package servers

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// TestRecords: the newest failure of each server is kept while the server is in the list. The last
// one since its last success is its trouble, the end of a connection of use is none.
func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warnings := 0
		l := New(nil, Options{Warn: func(string, ...any) { warnings++ }})
		want := func(troubles, failures string) {
			t.Helper()
			check.Equal(t, l.Troubles(), troubles, "troubles")
			got := ""
			for _, f := range l.Failures() {
				got += fmt.Sprintf("%s %v;", f.Server, f.Err)
			}
			check.Equal(t, got, failures, "failures")
		}
		replace := func(servers ...string) { l.Replace(servers, "", func() float64 { return 0 }) }
		fails := func(note func(string, error), server, why string) {
			note(server, errors.New(why))
			<-time.After(time.Second)
		}
		want("Options.Resolve: no answer yet", "")
		l.Unresolved(errors.New("no such host"))
		check.Equal(t, warnings, 1, "warnings")
		want("Options.Resolve: no such host", "Options.Resolve no such host;")
		replace("a", "b")
		want("a: no answer yet; b: no answer yet", "")
		l.Unresolved(errors.New("no such host"))
		replace("b", "a") // the same
		want("a: no answer yet; b: no answer yet", "")
		useless := func(server string, why error) { l.Failed(server, why, false) }
		warnings = 0
		fails(useless, "a", "refused")
		fails(useless, "a", "refused again")
		check.Equal(t, warnings, 1, "warnings within seconds")
		fails(useless, "b", "silent")
		fails(l.Note, "a", "reset")
		want("a: refused again; b: silent", "a reset;b silent;")
		l.Succeeded("a")
		want("a: no answer yet; b: silent", "a reset;b silent;")
		replace("b", "c")
		want("b: silent; c: no answer yet", "b silent;")
		fails(l.Note, "a", "left")
		want("b: silent; c: no answer yet", "b silent;")
		replace("a", "b")
		want("a: no answer yet; b: silent", "a left;b silent;")
		replace("a", "c")
		replace("a", "b")
		want("a: no answer yet; b: no answer yet", "a left;")
	})
}

// TestNewestFailureFirst: failures are in the order of their times, and then of the servers' names.
func TestNewestFailureFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		l := New(all, Options{Warn: quiet})
		for i, server := range all {
			l.Note(server, errors.New("reset"))
			if i%2 == 1 {
				<-time.After(time.Second)
			}
		}
		got := ""
		for _, f := range l.Failures() {
			got += f.Server
		}
		check.Equal(t, got, "ghefcdab")
	})
}

// TestWarnings: a failure of a server is logged, but not again within ten seconds. The first early
// end of a connection that had opened is none.
func TestWarnings(t *testing.T) {
	const second = time.Second
	type failure struct {
		after           time.Duration // since the failure before
		reached, opened bool
		warns           bool
	}
	down, useless, broke := failure{}, failure{reached: true}, failure{reached: true, opened: true}
	at := func(after time.Duration, f failure, warns bool) failure {
		f.after, f.warns = after, warns
		return f
	}
	for name, row := range map[string][]failure{
		"down":       {at(0, down, true), at(second, down, false), at(9*second-1, down, false), at(1, down, true), at(1, down, false)},
		"useless":    {at(0, useless, true), at(9*second, useless, false), at(second, useless, true)},
		"broke":      {at(0, broke, false), at(second, broke, true), at(second, broke, false), at(9*second, broke, true)},
		"broke late": {at(0, down, true), at(10*second, broke, true)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var warned []any
				l := New([]string{"a"}, Options{Warn: func(_ string, args ...any) { warned = args }})
				for i, f := range row {
					<-time.After(f.after)
					why := errors.New("failure")
					warned = nil
					l.failed("a", why, f.reached, f.opened)
					want := []any{}
					if f.warns {
						want = []any{"server", "a", "reason", why}
					}
					check.EqualSlices(t, warned, want, "failure", i)
				}
				warned = nil
				l.Succeeded("a")
				l.failed("a", errors.New("broke"), true, true)
				check.Len(t, warned, 0, "the first end of a connection after a success")
			})
		})
	}
}
