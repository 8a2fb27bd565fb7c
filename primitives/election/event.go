package election

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// Why a leader was deposed, beside the errors of package session.
var (
	// ErrDeposed is wrapped by the error of every [Deposed], and by the causes with which
	// the contexts of [Candidate.Lead] end.
	ErrDeposed = errors.New("deposed")

	// ErrResigned means that the leader gave up the leadership itself, with
	// [Candidate.Resign] or [Candidate.Close], or because its function in [Candidate.Lead]
	// has returned.
	ErrResigned = errors.New("resigned")

	// ErrTransferred means that the leader hands over, with [Candidate.Transfer].
	ErrTransferred = errors.New("leadership transferred")

	// ErrNodeDeleted means that the node that stood for the leadership, or the candidate, is
	// gone. Another client has deleted it, or the server, which deletes it also when it ends
	// the session, and tells of the deletion first. The loss is reported at once, and not
	// held back to find out which.
	ErrNodeDeleted = line.ErrNodeDeleted
)

// Why a command was refused.
var (
	// ErrNotLeading means that only a leader can do that, or that a [Candidate.Guard] has
	// refused a transaction.
	ErrNotLeading = errors.New("not leading")

	// ErrNoCandidate means that no candidate has the node of that name.
	ErrNoCandidate = errors.New("no such candidate")

	// ErrNotTaken means that a leadership that was handed over has gone to another.
	ErrNotTaken = errors.New("leadership not taken over")

	// ErrBusy means that there is another such command under way.
	ErrBusy = errors.New("already under way")

	// ErrLayout means that others stand for the same election in another layout, or that the
	// layout has no place to write that down.
	ErrLayout = line.ErrLayout

	// ErrLeft means that the candidate stands for election no more.
	ErrLeft = errors.New("candidate left")

	// ErrNotElection means that a node with children stands where the leader's has to, so
	// that there can be no election.
	ErrNotElection = errors.New("there is a node with children where the leader's has to be")

	// ErrOverrun means that a function of [Candidate.Lead] went on for longer than
	// [Options.LeadGrace] after its context had ended.
	ErrOverrun = errors.New("still working after the end of its leadership")
)

// An Event reports what becomes of a candidate. It is one of [Standing], [Elected],
// [LeaderChanged], [Suspended], [Resumed], [Deposed], [Overrun] and [Left]; no other type
// implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Standing means that this candidate is in line: a later one is behind it. It is told
	// each time that it stands anew, before it is elected.
	Standing struct {
		// Node is the path of the node with which it stands.
		Node string
	}

	// Elected means that this candidate leads.
	Elected struct {
		// Term is a fencing token: it grows with every leader of the path.
		Term int64
	}

	// LeaderChanged reports the leader.
	LeaderChanged struct {
		// Leader is zero while no candidate leads, as far as is known.
		Leader Leader
		// Term is that of the leader, or of the last one while there is none. It never
		// gets smaller.
		Term int64
		// Acknowledged means that the leader has called [Candidate.Acknowledge].
		Acknowledged bool
	}

	// Suspended means that the connection is lost. No other candidate leads, but
	// [Candidate.Leading] is false until Resumed: start no work that needs leadership. The
	// candidate will be deposed at the Deadline unless Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back, and this candidate still leads.
	Resumed struct{}

	// Deposed means that this candidate leads no more. Err wraps [ErrDeposed] and says why.
	// It stands again by itself, at the end of the line.
	Deposed struct{ Err error }

	// Overrun means that the function in [Candidate.Lead] that was called for the Term is
	// still running, [Options.LeadGrace] after its context has ended. It is told once.
	Overrun struct{ Term int64 }

	// Left means that this candidate stands for election no more: Err is nil if that was
	// asked for, and otherwise says why.
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

// keep lets the newest Standing, LeaderChanged and Overrun stay for a reader that comes late, and of a leader Elected and Suspended.
func keep(earlier, next Event) bool {
	return recipe.Stays[Standing, Deposed](earlier, next) || recipe.Stays[Elected, Deposed](earlier, next) ||
		recipe.Stays[Suspended, Deposed](earlier, next) || recipe.Stays[LeaderChanged, LeaderChanged](earlier, next) ||
		recipe.Stays[Overrun, Overrun](earlier, next)
}
