package recipe

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

func TestArguments(t *testing.T) {
	type options struct{ n int }
	check.Equal(t, client.Options[options](nil), options{})
	check.Equal(t, client.Options(&options{3}), options{3})
	check.Fails(0, Check(nil, "lock", "/l", nil))(t, session.ErrInvalidArgument)
}

func TestUndelivered(t *testing.T) {
	type level int
	type edge string
	for _, c := range []struct {
		last, next      any
		merges, cancels bool
		keeps           bool
	}{
		{level(1), level(2), true, false, false},
		{level(1), "else", false, false, true},
		{level(1), edge("up"), false, true, false},
		{edge("up"), level(1), false, false, false},
		{edge("up"), edge("down"), false, false, false},
	} {
		if got, ok := Newest[level](c.last, c.next); ok != c.merges || got != c.next {
			t.Errorf("%v, %v: merged %v into %v", c.last, c.next, ok, got)
		}
		if got := Undone[level, edge](c.last, c.next); got != c.cancels {
			t.Errorf("%v, %v: cancelled %v", c.last, c.next, got)
		}
		check.Equal(t, Stays[level, edge](c.last, c.next), c.keeps, c.last, "stays before", c.next)
	}
}
