// Package check has assertions for tests, one line each. Most take optional arguments at the end:
// they say what the assertion is about, and stand at the beginning of the failure's text.
package check

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Patience is much more than anything that works takes, also on a machine that does much else. It
// is for calls that take a duration; [Patient] is for all others.
const Patience = 3 * time.Minute

// Patient returns a context that ends a test which hangs.
func Patient(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	tb.Cleanup(cancel)
	return ctx
}

// Must ends the test unless err is nil. Call it on the goroutine of the test, like
// [testing.TB.Fatal].
func Must(tb testing.TB, err error, about ...any) {
	if err != nil {
		tb.Helper()
		tb.Fatalf("%s%v", of(about), err)
	}
}

// OK fails the test unless err is nil.
func OK(tb testing.TB, err error, about ...any) {
	if err != nil {
		tb.Helper()
		tb.Errorf("%s%v", of(about), err)
	}
}

// Is fails the test unless err wraps want.
func Is(tb testing.TB, err, want error, about ...any) {
	if !errors.Is(err, want) {
		tb.Helper()
		tb.Errorf("%s%v, want %v", of(about), err, want)
	}
}

// Have is for calls that return a value and an error: Have(f())(t) returns the value, and ends the
// test if there is an error.
func Have[T any](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Must(tb, err)
		return v
	}
}

// Open is like Have, for a value that has a Close method. It closes the value at the end of the
// test.
func Open[T interface{ Close() }](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Must(tb, err)
		tb.Cleanup(v.Close)
		return v
	}
}

// Reads is for calls that return data, a second value, and an error: Reads(f())(t, want) fails the
// test unless the data is want and the error is nil. It ignores the second value.
func Reads[M any](data []byte, _ M, err error) func(tb testing.TB, want string, about ...any) {
	return func(tb testing.TB, want string, about ...any) {
		if err != nil || string(data) != want {
			tb.Helper()
			tb.Errorf("%s%q, %v, want %q", of(about), data, err, want)
		}
	}
}

// Fails is for calls that return a value and an error: Fails(f())(t, want) fails the test unless
// the error wraps want.
func Fails[T any](_ T, err error) func(tb testing.TB, want error) {
	return func(tb testing.TB, want error) {
		if !errors.Is(err, want) {
			tb.Helper()
			tb.Errorf("%v, want %v", err, want)
		}
	}
}

// Require ends the test unless the condition is true. Call it on the goroutine of the test, like
// Must.
func Require(tb testing.TB, is bool, format string, args ...any) {
	if !is {
		tb.Helper()
		tb.Fatalf(format, args...)
	}
}

// True fails the test unless the condition is true.
func True(tb testing.TB, is bool, format string, args ...any) {
	if !is {
		tb.Helper()
		tb.Errorf(format, args...)
	}
}

// False fails the test if the condition is true.
func False(tb testing.TB, is bool, format string, args ...any) {
	if is {
		tb.Helper()
		tb.Errorf(format, args...)
	}
}

// Equal fails the test unless got is want.
func Equal[T comparable](tb testing.TB, got, want T, about ...any) {
	if got != want {
		tb.Helper()
		tb.Errorf("%s%v, want %v", of(about), got, want)
	}
}

// EqualSlices fails the test unless got has the elements of want.
func EqualSlices[S ~[]E, E comparable](tb testing.TB, got, want S, about ...any) {
	if !slices.Equal(got, want) {
		tb.Helper()
		tb.Errorf("%s%v, want %v", of(about), got, want)
	}
}

// EqualMaps fails the test unless got has the elements of want.
func EqualMaps[M ~map[K]V, K, V comparable](tb testing.TB, got, want M, about ...any) {
	if !maps.Equal(got, want) {
		tb.Helper()
		tb.Errorf("%s%v, want %v", of(about), got, want)
	}
}

// Len fails the test unless got has n elements.
func Len[S ~[]E, E any](tb testing.TB, got S, n int, about ...any) {
	if len(got) != n {
		tb.Helper()
		tb.Errorf("%s%d, want %d: %+v", of(about), len(got), n, got)
	}
}

// AtMost fails the test if got is more than most.
func AtMost[T cmp.Ordered](tb testing.TB, got, most T, about ...any) {
	if got > most {
		tb.Helper()
		tb.Errorf("%s%v, want %v at most", of(about), got, most)
	}
}

// AtLeast fails the test if got is less than least.
func AtLeast[T cmp.Ordered](tb testing.TB, got, least T, about ...any) {
	if got < least {
		tb.Helper()
		tb.Errorf("%s%v, want %v at least", of(about), got, least)
	}
}

// Within fails the test unless got is from least to most.
func Within[T cmp.Ordered](tb testing.TB, got, least, most T, about ...any) {
	if got < least || got > most {
		tb.Helper()
		tb.Errorf("%s%v, want %v to %v", of(about), got, least, most)
	}
}

// None fails the test if the channel has a value to receive, or is closed.
func None[T any](tb testing.TB, ch <-chan T, about ...any) {
	select {
	case v := <-ch:
		tb.Helper()
		tb.Errorf("%sreceived %v", of(about), v)
	default:
	}
}

// of returns the beginning of a failure's text.
func of(about []any) string {
	if len(about) == 0 {
		return ""
	}
	line := fmt.Sprintln(about...)
	return line[:len(line)-1] + ": "
}

// Allocs returns how many allocations f takes: the mean of runs calls, the least of ten such means.
// What the process does beside f, as when timers run out on a slow machine, can only add some.
func Allocs(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 9 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

// Apart runs a test of this program in a separate process, which ends with tb. It sets a variable
// of the environment there, and returns the first line of the test's output. The costs of that
// process do not count as costs of this one.
func Apart(tb testing.TB, test, variable string) string {
	tb.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	in, out := Have(cmd.StdinPipe())(tb), Have(cmd.StdoutPipe())(tb)
	Must(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // its error does not matter any more
	})
	return strings.TrimSpace(Have(bufio.NewReader(out).ReadString('\n'))(tb))
}
