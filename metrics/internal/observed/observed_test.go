package observed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/metrics/internal/observed"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReason(t *testing.T) {
	for want, err := range map[string]error{
		"ok":              nil,
		"session_expired": fmt.Errorf("%w: %w", lock.ErrLost, session.ErrExpired),
		"session_lapsed":  fmt.Errorf("%w: %w", lock.ErrLost, session.ErrLapsed),
		"unknown_outcome": errors.Join(session.ErrDisconnected, session.ErrUnknownOutcome),
		"timeout":         context.DeadlineExceeded,
		"node_deleted":    lock.ErrNodeDeleted,
		"other":           errors.New("x"),
	} {
		if got := observed.Reason(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// TestWaits: of the waits in progress, End removes the one that began closest to the calculated
// time.
func TestWaits(t *testing.T) {
	var w observed.Waits
	k, begin := observed.Key{Recipe: "lock", Path: "/l"}, time.Unix(0, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for i := range 4 {
		w.Begin(k, at(10*i))
	}
	for _, step := range []struct {
		ends, oldest int // -1: there is none
	}{{20, 0}, {1, 10}, {29, 10}, {12, -1}, {0, -1}} {
		w.End(k, at(100), time.Duration(100-step.ends)*time.Second)
		since, any := w.Oldest()[k]
		if any != (step.oldest >= 0) || any && !since.Equal(at(step.oldest)) {
			t.Errorf("after the end of that from %d, the oldest is from %v", step.ends, since)
		}
	}
}

// TestLeaders: See ignores reports of older terms, and repeated reports.
func TestLeaders(t *testing.T) {
	var l observed.Leaders
	changes := ""
	for _, now := range []observed.Leader{{"", 0}, {"a", 1}, {"a", 1}, {"", 1}, {"b", 2}, {"a", 1}} {
		l.See("/e", now, func(before, now observed.Leader) { changes += fmt.Sprintln(before, now) })
	}
	if want := "{ 0} {a 1}\n{a 1} { 1}\n{ 1} {b 2}\n"; changes != want {
		t.Errorf("%q, want %q", changes, want)
	}
	if newest := l.Newest()["/e"]; newest != (observed.Leader{Name: "b", Term: 2}) {
		t.Error(newest)
	}
	if name := observed.LeaderName("/n", []byte("a\x00\xffé")); name != "a???" {
		t.Errorf("%q", name)
	}
}
