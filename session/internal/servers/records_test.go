package servers

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecords: the newest failure of each server is kept while the server is in the list. The last
// one since its last success is its trouble, the end of a connection of use is none.
func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warnings := 0
		l := New(nil, Options{Warn: func(string, ...any) { warnings++ }})
		want := func(troubles, failures string) {
			t.Helper()
			if got := l.Troubles(); got != troubles {
				t.Errorf("troubles %q, want %q", got, troubles)
			}
			got := ""
			for _, f := range l.Failures() {
				got += fmt.Sprintf("%s %v;", f.Server, f.Err)
			}
			if got != failures {
				t.Errorf("failures %q, want %q", got, failures)
			}
		}
		replace := func(servers ...string) { l.Replace(servers, "", func() float64 { return 0 }) }
		fails := func(note func(string, error), server, why string) {
			note(server, errors.New(why))
			<-time.After(time.Second)
		}
		want("Options.Resolve: no answer yet", "")
		l.Unresolved(errors.New("no such host"))
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
		if warnings != 1 {
			t.Errorf("%d warnings within seconds, want 1", warnings)
		}
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
	})
}
