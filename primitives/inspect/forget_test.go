package inspect

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// A watch that has ended is forgotten: what comes and goes leaves nothing behind.
func TestEndedWatchesAreForgotten(t *testing.T) {
	of := key{"/l/_c_x-lock-0000000001", session.AspectData}
	m := &surveyor{path: "/l", phase: pausing, watches: 1, known: map[key]*known{of: {found: &found{}, care: watched, serial: 7, watched: true}}}
	var out effects
	m = m.Step(told{key: of, serial: 7, over: true, found: &found{err: session.ErrNoNode}}, &out)
	check.False(t, !slices.Contains(out.Do, effect(forget{of})) || m.watches != 0 || m.known[of].watched, "%+v, %d watches", out.Do, m.watches)
}
