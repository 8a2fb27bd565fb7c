package taking

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// TestDirectoryInDoubt: a call of Take whose session is closed while it makes the directory of the
// claims has taken nothing.
func TestDirectoryInDoubt(t *testing.T) {
	var out actors.Effects[effect, procedure.None]
	m := Machine{}.Step(fetched{items: []layout.Claimed{{Place: layout.Place{Name: "x"}, Version: 1}}}, &out)
	m = m.Step(removed{&stock.RefusalError{Index: 0, Err: session.ErrNoNode}}, &out)
	m = m.Step(readied{fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed)}, &out)
	told, is := out.Do[len(out.Do)-1].(give)
	check.True(t, is && m.Ended() && errors.Is(told.err, session.ErrClosed) && !session.InDoubt(told.err) && told.items == nil, "%+v", out.Do)
}

// TestTakesWhatIsLeft: if an item of several is refused, the transaction goes again with those
// before it. If it is too large, half of them go. Without hope, the caller gets the error.
func TestTakesWhatIsLeft(t *testing.T) {
	refused := func(at int, err error) error { return &stock.RefusalError{Index: at, Err: err} }
	item := func(name string, version int32) layout.Claimed {
		return layout.Claimed{Place: layout.Place{Name: name}, Version: version}
	}
	for _, test := range []struct {
		err  error
		want int // items of the next transaction
		ends bool
	}{
		{err: refused(0, session.ErrNoNode), want: 0},     // the first is gone
		{err: refused(1, session.ErrNodeExists), want: 1}, // the second is claimed
		{err: refused(3, session.ErrBadVersion), want: 1}, // the second was claimed, and given back
		{err: refused(4, session.ErrNoNode), want: 2},     // the third is gone
		{err: session.ErrTooLarge, want: 1},
		{err: session.ErrClosed, ends: true},
	} {
		var out actors.Effects[effect, procedure.None]
		items := []layout.Claimed{item("a", 0), item("b", 1), item("c", 0)}
		m := Machine{}.Step(picked{[]layout.Place{items[0].Place, items[1].Place, items[2].Place}}, &out)
		m = m.Step(fetched{items: items}, &out)
		out.Do = nil
		m = m.Step(removed{test.err}, &out)
		again, _ := out.Do[len(out.Do)-1].(remove)
		_, forgets := out.Do[0].(forget)
		check.True(t, len(again.items) == test.want && m.Ended() == test.ends && forgets, "%v: %+v", test.err, out.Do)
	}
}

// TestOldList: items of a list that another call has made are not taken when others may come before
// them. A list of its own is current.
func TestOldList(t *testing.T) {
	for _, own := range []bool{false, true} {
		var out actors.Effects[effect, procedure.None]
		x := layout.Place{Name: "x"}
		m := Machine{}.Step(picked{}, &out)
		m = m.Step(surveyed{view: stock.View{Places: []layout.Place{x}}, own: own}, &out)
		m = m.Step(picked{[]layout.Place{x}}, &out)
		m.Step(fetched{items: []layout.Claimed{{Place: x}}, old: true}, &out)
		_, removes := out.Do[len(out.Do)-1].(remove)
		check.Equal(t, removes, own, out.Do)
	}
}
