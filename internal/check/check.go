// Package check says in one line what tests expect of an error.
package check

import (
	"errors"
	"testing"
)

// Must ends the test unless err is nil. It is called on the test's goroutine, as [testing.TB.Fatal].
func Must(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// OK fails the test unless err is nil.
func OK(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Error(err)
	}
}

// Is fails the test unless err wraps want.
func Is(tb testing.TB, err, want error) {
	if !errors.Is(err, want) {
		tb.Helper()
		tb.Errorf("%v, want %v", err, want)
	}
}

// Have is for calls that return a value and an error: Have(f())(t) is the value, and ends the test if
// there is an error.
func Have[T any](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Must(tb, err)
		return v
	}
}

// Fails is for calls that return a value and an error: Fails(f())(t, want) fails the test unless the
// error wraps want.
func Fails[T any](_ T, err error) func(tb testing.TB, want error) {
	return func(tb testing.TB, want error) {
		if !errors.Is(err, want) {
			tb.Helper()
			tb.Errorf("%v, want %v", err, want)
		}
	}
}
