package servers

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
		l := New(nil, Options{Log: func(slog.Level, string, ...any) { warnings++ }})
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
		l := New(all, Options{Log: quiet})
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

// TestWarnings: a server that cannot be used is said when that begins, ever more rarely while it
// lasts, and when it ends. The first early end of a connection that had opened is no failure.
func TestWarnings(t *testing.T) {
	const second = time.Second
	type failure struct {
		after           time.Duration // since the failure before
		reached, opened bool
		says            string
	}
	down, useless, broke := failure{}, failure{reached: true}, failure{reached: true, opened: true}
	at := func(after time.Duration, f failure, says string) failure {
		f.after, f.says = after, says
		return f
	}
	const first = "server cannot be used"
	for name, row := range map[string][]failure{
		"down":       {at(0, down, first), at(second, down, ""), at(59*second-1, down, ""), at(1, down, first+" times=4 for=1m0s"), at(119*second, down, ""), at(second, down, first+" times=6 for=3m0s")},
		"useless":    {at(0, useless, first), at(59*second, useless, ""), at(second, useless, first+" times=3 for=1m0s")},
		"broke":      {at(0, broke, ""), at(second, broke, first), at(second, broke, "")},
		"broke late": {at(0, down, first), at(60*second, broke, first+" times=2 for=1m0s")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := ""
				says := func(_ slog.Level, message string, args ...any) {
					said = message
					for _, arg := range args {
						if a, is := arg.(slog.Attr); is {
							said += " " + a.String()
						}
					}
				}
				l := New([]string{"a"}, Options{Log: says})
				for i, f := range row {
					<-time.After(f.after)
					said = ""
					l.failed("a", errors.New("failure"), f.reached, f.opened)
					check.Equal(t, said, f.says, "failure", i)
				}
				l.Succeeded("a")()
				check.True(t, strings.HasPrefix(said, "server can be used again"), "%q", said)
				said = ""
				check.True(t, l.Succeeded("a") == nil, "the second success is said")
				l.failed("a", errors.New("broke"), true, true)
				check.Equal(t, said, "", "the first end of a connection after it")
			})
		})
	}
}
