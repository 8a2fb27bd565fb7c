package commit

import "github.com/zkactors/zkactors/primitives/internal/presence"

// A keeper is the machine of a site's presence: an ephemeral node that says that a process
// acts for the site. It adds nothing to the machine of package presence.
type keeper struct{ presence.Machine }

// Kept implements [presence.Keeper].
func (k keeper) Kept() presence.Machine { return k.Machine }

// Step implements [actors.Machine].
func (k keeper) Step(in presence.Input, out *presence.Effects) keeper {
	return keeper{k.Machine.Step(in, out)}
}
