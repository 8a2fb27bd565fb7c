package election

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// Reasons for which a leader is deposed, beside the errors of package session.
var (
	// ErrDeposed is wrapped by the error of every [Deposed], and by the causes with which
	// the contexts of [Candidate.Lead] end.
	ErrDeposed = errors.New("deposed")

	// ErrResigned means that the leader gave up the leadership itself, with [Candidate.Resign] or
	// [Candidate.Close], or because its function in [Candidate.Lead] returned.
	ErrResigned = errors.New("resigned")

	// ErrTransferred means that the leader hands over the leadership, with [Candidate.Transfer].
	ErrTransferred = errors.New("leadership transferred")

	// ErrNodeDeleted means that the node of the leader, or of the candidate, is gone. Either
	// another client has deleted it, or the server has ended the session: then too it reports the
	// deletion first. The loss is reported at once, without waiting for the cause.
	ErrNodeDeleted = line.ErrNodeDeleted
)

// Reasons for which a command is refused.
var (
	// ErrNotLeading means that the command is only for a leader, or that a [Candidate.Guard] has
	// refused a transaction.
	ErrNotLeading = errors.New("not leading")

	// ErrNoCandidate means that no candidate has the node of that name.
	ErrNoCandidate = errors.New("no such candidate")

	// ErrNotTaken means that the successor did not take over the leadership that was handed over to
	// it.
	ErrNotTaken = errors.New("leadership not taken over")

	// ErrBusy means that another such command is under way.
	ErrBusy = errors.New("already under way")

	// ErrLayout means that contenders of another layout stand for the election, or of one that is
	// not known, or that the layout in use does not have the feature.
	ErrLayout = line.ErrLayout

	// ErrForeign means that the path belongs to another recipe, which the error names. The error
	// wraps [ErrLayout], too.
	ErrForeign = nodes.ErrForeign

	// ErrLeft means that the candidate no longer stands for election.
	ErrLeft = errors.New("candidate left")

	// ErrNotElection means that a node with children stands at the path of the leader's node, so
	// that there can be no election.
	ErrNotElection = errors.New("there is a node with children where the leader's has to be")

	// ErrOverrun means that a function of [Candidate.Lead] worked for longer than
	// [Options.LeadGrace] after the end of its context.
	ErrOverrun = errors.New("still working after the end of its leadership")
)

// An Event reports a change in the state of a candidate. It is one of [Standing], [Elected],
// [LeaderChanged], [Suspended], [Resumed], [Deposed], [Overrun] and [Left]; no other type
// implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Standing means that this candidate is in line: later candidates are behind it. It is emitted
	// each time the candidate stands anew, before it is elected.
	Standing struct {
		// Node is the path of its node in line.
		Node string
	}

	// Elected means that this candidate leads.
	Elected struct {
		// Term is a fencing token: it grows with every leader of the path. A candidate that would
		// be elected with a smaller term leaves with [session.ErrHistoryLost].
		Term int64
	}

	// LeaderChanged reports the present leader.
	LeaderChanged struct {
		// Leader is zero while no leader is known.
		Leader Leader
		// Term is the term of the leader; while there is none, the term of the last leader. It
		// never gets smaller, unless the servers have come back with older data.
		Term int64
		// Acknowledged means that the leader has called [Candidate.Acknowledge].
		Acknowledged bool
	}

	// Suspended means that the connection is lost. No other candidate leads, but
	// [Candidate.Leading] is false until Resumed: start no work that needs the leadership. The
	// candidate will be deposed at the Deadline unless Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back, and this candidate still leads.
	Resumed struct{}

	// Deposed means that this candidate no longer leads. Err wraps [ErrDeposed] and the reason. The
	// candidate stands again by itself, at the end of the line.
	Deposed struct{ Err error }

	// Overrun means that the function that [Candidate.Lead] called for the Term still works,
	// [Options.LeadGrace] after the end of its context. It is emitted once.
	Overrun struct{ Term int64 }

	// Left means that this candidate no longer stands for election. Err is the reason; nil after
	// [Candidate.Close], unless the server refuses to delete its node.
	Left struct{ Err error }
)

// A Leader is a candidate that leads.
type Leader struct {
	Node string // the path of the candidate's node; "" if there is no leader
	Data []byte // its [Options.Data]
}

func (Standing) event()      {}
func (Elected) event()       {}
func (LeaderChanged) event() {}
func (Suspended) event()     {}
func (Resumed) event()       {}
func (Deposed) event()       {}
func (Overrun) event()       {}
func (Left) event()          {}

func (e Standing) String() string { return "standing as " + e.Node }

func (e Elected) String() string { return fmt.Sprintf("elected term=%d", e.Term) }

func (e LeaderChanged) String() string {
	switch {
	case e.Leader.Node == "":
		return "no leader"
	case e.Acknowledged:
		return fmt.Sprintf("leader %s term=%d data=%q acknowledged", e.Leader.Node, e.Term, e.Leader.Data)
	}
	return fmt.Sprintf("leader %s term=%d data=%q", e.Leader.Node, e.Term, e.Leader.Data)
}

func (e Suspended) String() string { return "suspended until " + e.Deadline.Format(time.StampMilli) }
func (Resumed) String() string     { return "resumed" }
func (e Deposed) String() string   { return e.Err.Error() }
func (e Overrun) String() string   { return fmt.Sprintf("overrun term=%d", e.Term) }

func (e Left) String() string { return client.Told("left", e.Err) }

// keep replays the newest Standing, LeaderChanged and Overrun to a late reader, and Elected and
// Suspended of a leader.
func keep(earlier, next Event) bool {
	return recipe.Stays[Standing, Deposed](earlier, next) || recipe.Stays[Elected, Deposed](earlier, next) ||
		recipe.Stays[Suspended, Deposed](earlier, next) || recipe.Stays[LeaderChanged, LeaderChanged](earlier, next) ||
		recipe.Stays[Overrun, Overrun](earlier, next)
}
