package zktest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// awaitLimit is the time that [Await] waits. It only ends tests that hang.
	awaitLimit = 3 * time.Minute

	// awaitShown is the number of values that a failure shows.
	awaitShown = 20
)

// Await receives from the channel until a value satisfies is, and returns that value. If is is nil,
// Await returns the next value. Earlier values are discarded.
//
// If the channel is closed first, or no such value arrives within three minutes, the test fails and
// prints the values that arrived. Await must be called on the goroutine of the test, like
// [testing.TB.Fatal]. In a bubble of package testing/synctest, these minutes pass at once when
// nothing else can happen.
func Await[Ev any](tb testing.TB, events <-chan Ev, is func(Ev) bool) Ev {
	tb.Helper()
	limit := time.NewTimer(awaitLimit)
	defer limit.Stop()
	var arrived []string
	fail := func(why string) (none Ev) {
		tb.Helper()
		what := "nothing"
		if n := len(arrived); n > 0 {
			what = strings.Join(arrived[max(0, n-awaitShown):], "; ")
		}
		tb.Fatalf("the awaited %T did not arrive: %s; what arrived: %s", events, why, what)
		return none
	}
	for {
		select {
		case ev, ok := <-events:
			switch {
			case !ok:
				return fail("the channel is closed")
			case is == nil || is(ev):
				return ev
			}
			arrived = append(arrived, fmt.Sprint(ev))
		case <-limit.C:
			return fail(fmt.Sprintf("%v have passed", awaitLimit))
		}
	}
}
