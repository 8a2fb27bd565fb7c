package fault

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestRecord: a request is given up after five connections in a row that had worked before, or ten
// of any kind, and only if it was alone on each.
func TestRecord(t *testing.T) {
	worked, fresh, company := Blame(ErrDisconnected, true), Blame(ErrDisconnected, false), ErrDisconnected
	repeat := func(n int, err error) (all []error) {
		for range n {
			all = append(all, err)
		}
		return all
	}
	for name, row := range map[string]struct {
		ends                         []error
		suspicious, guilty, hopeless bool
	}{
		"none":                      {nil, false, false, false},
		"three that had worked":     {repeat(3, worked), false, false, false},
		"four that had worked":      {repeat(4, worked), true, false, false},
		"five that had worked":      {repeat(5, worked), true, true, true},
		"nine that broke at once":   {repeat(9, fresh), true, false, false},
		"ten that broke at once":    {repeat(10, fresh), true, false, true},
		"four and five":             {append(repeat(4, worked), repeat(5, fresh)...), true, false, false},
		"in company":                {repeat(20, company), false, false, false},
		"company is an alibi":       {append(repeat(4, worked), company, worked), false, false, false},
		"an answer is an alibi":     {append(repeat(9, fresh), nil), false, false, false},
		"alone, and then guilty":    {append(repeat(4, fresh), repeat(5, worked)...), true, true, true},
		"what is said is no reason": {repeat(20, errors.New("other")), false, false, false},
	} {
		var r Record
		for _, err := range row.ends {
			r.Note(err)
		}
		check.True(t, r.Suspicious() == row.suspicious && r.Guilty() == row.guilty && r.Hopeless() == row.hopeless, "%s: %+v: suspicious %v, guilty %v, hopeless %v", name, r, r.Suspicious(), r.Guilty(), r.Hopeless())
	}
	if err := Blame(ErrDisconnected, true); !errors.Is(err, ErrDisconnected) || err.Error() != ErrDisconnected.Error() {
		t.Errorf("blamed: %v", err)
	}
}
