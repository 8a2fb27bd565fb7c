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

// after is Step with effects of its own.
func (m machine) after(in presence.Input) (machine, actors.Effects[presence.Effect, Event]) {
	var out actors.Effects[presence.Effect, Event]
	m = m.Step(in, &out)
	return m, out
}
