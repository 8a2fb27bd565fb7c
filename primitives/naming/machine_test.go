package naming

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

// Every event of a node is one of the name; the grammar is that of package presence,
// whose tests check it, in other words.
func TestTranslation(t *testing.T) {
	why := errors.New("why")
	for _, c := range []struct {
		from presence.Event
		want Event
	}{
		{presence.Joined{}, Registered{}},
		{presence.Suspended{}, Suspended{}},
		{presence.Resumed{}, Resumed{}},
		{presence.Gone{Err: why}, Gone{why}},
		{presence.Left{Err: why}, Unregistered{why}},
		{presence.Left{}, Unregistered{}},
	} {
		check.Equal(t, translate(c.from), c.want, c.from, "is")
	}
	ours, err := os.ReadFile("doc.go")
	theirs, err2 := os.ReadFile("../internal/presence/doc.go")
	check.Must(t, errors.Join(err, err2))
	const grammar = "(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left"
	check.True(t, strings.Contains(string(theirs), grammar), "package presence has another grammar")
	own := strings.NewReplacer("Joined", "Registered", "Left", "Unregistered").Replace(grammar)
	check.True(t, strings.Contains(string(ours), own), "doc.go does not state %s", own)
}

// TestEnd: a machine passes on what its node does.
func TestEnd(t *testing.T) {
	m, out := machine{}.after(presence.Leave{Why: session.ErrNoAuth})
	check.True(t, m.Ended() && len(out.Emit) == 1 && out.Emit[0] == (Unregistered{session.ErrNoAuth}), "%v: %v", m, out.Emit)
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"billing", "billing/primary", "/", "//", ".", "..", "...", "100%", "%2F", "%252F", "%2E", "ü/%"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		node := encode(name)
		if back, ok := decode(node); !ok || back != name {
			t.Errorf("%q is written %q, and read %q, %v", name, node, back, ok)
		}
		check.True(t, !strings.Contains(node, "/") && node != "." && node != "..", "%q is written %q", name, node)
		if other, ok := decode(name); ok && encode(other) != name {
			t.Errorf("%q is read %q, which is written %q", name, other, encode(other))
		}
	})
}

func TestForeignNodesAreNoNames(t *testing.T) {
	for _, node := range []string{"100%", "%2f", "%41", "%2Ea", "."} {
		name, ok := decode(node)
		check.False(t, ok, "%q is read as %q", node, name)
	}
}

// TestSettle: what is known of a write whose reply was lost, from what stands there.
func TestSettle(t *testing.T) {
	stat := func(czxid int64, version int32, owner int64) *session.Stat {
		return &session.Stat{Czxid: czxid, Version: version, EphemeralOwner: owner}
	}
	const same, other, replace, meek = true, false, true, false
	for what, c := range map[string]struct {
		before, now   *session.Stat
		same, replace bool
		want          error // nil: nothing was done
	}{
		"a create that was not done":           {nil, nil, other, meek, nil},
		"that was":                             {nil, stat(9, 0, 0), same, meek, errStands},
		"and changed by another":               {nil, stat(9, 1, 0), other, meek, ErrTaken},
		"into the same":                        {nil, stat(9, 1, 0), same, meek, ErrTaken},
		"which is as good for a replacement":   {nil, stat(9, 1, 0), same, replace, errStands},
		"and for the same that goes":           {nil, stat(9, 0, 5), same, meek, ErrTaken},
		"which is to be replaced":              {nil, stat(9, 0, 5), same, replace, session.ErrUnknownOutcome},
		"that another was faster with, or not": {nil, stat(9, 0, 0), other, replace, session.ErrUnknownOutcome},
		"a set that was not done":              {stat(9, 3, 0), stat(9, 3, 0), other, replace, nil},
		"that was done":                        {stat(9, 3, 0), stat(9, 4, 0), same, replace, errStands},
		"that another was faster with":         {stat(9, 3, 0), stat(9, 4, 0), other, replace, nil},
		"or later":                             {stat(9, 3, 0), stat(9, 5, 0), other, replace, session.ErrUnknownOutcome},
		"of a name that was removed":           {stat(9, 3, 0), nil, other, replace, session.ErrUnknownOutcome},
		"and registered anew":                  {stat(9, 3, 0), stat(10, 3, 0), other, replace, session.ErrUnknownOutcome},
		"a taking that was not done":           {stat(9, 1, 5), stat(9, 1, 5), other, replace, nil},
		"when it had been changed":             {stat(9, 1, 5), stat(9, 7, 5), same, replace, nil},
		"that was done, too":                   {stat(9, 1, 5), stat(10, 0, 0), same, replace, errStands},
		"by another":                           {stat(9, 1, 5), stat(10, 1, 6), same, replace, session.ErrUnknownOutcome},
		"of one that went":                     {stat(9, 1, 5), nil, other, replace, session.ErrUnknownOutcome},
	} {
		err := settle(c.before, c.now, c.same, c.replace)
		check.False(t, !errors.Is(err, c.want) || errors.Is(err, ErrTaken) && !errors.Is(err, session.ErrUnknownOutcome), "%s: %v, want %v", what, err, c.want)
	}
}

// after is Step with effects of its own.
func (m machine) after(in presence.Input) (machine, actors.Effects[presence.Effect, Event]) {
	var out actors.Effects[presence.Effect, Event]
	m = m.Step(in, &out)
	return m, out
}
