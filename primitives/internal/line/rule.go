package line

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// A Rule decides how the contenders of one path are named, and which of them wait for which. Rules
// are compared, so they must be comparable.
type Rule interface {
	// Name returns the name for the node of the attempt with the GUID; the server appends a number.
	// Prefix returns the beginning of the names of all nodes of that attempt.
	Name(guid string) string
	Prefix(guid string) string

	// Locate returns the position of the contender own, created with the GUID, in a snapshot.
	Locate(s Snapshot, own, guid string) Position

	// Room reports whether the newest of that many contenders need not wait, whatever their names
	// are.
	Room(contenders int, data string) bool

	// Downgrade returns the rule and the name that the contender own has after a downgrade, when it
	// no longer excludes contenders that share. It returns false if there is nothing to downgrade.
	Downgrade(own string) (weaker Rule, node string, ok bool)

	// Traits returns the traits, which are the same for all contenders of the rule.
	Traits() Traits
}

// Traits are the departures of a rule from first come, first served: the zero Traits are those of
// an exclusive lock.
type Traits struct {
	// Lists: the number of contenders ahead does not decide, because some share. So a list is
	// requested together with the creation of the node, in one round trip, and the contender that
	// is watched is not reported as the holder.
	Lists bool

	// AnnouncesGrants: the rule depends on a condition that may change which contenders seem to
	// hold, and that is read after the names. After the condition has changed, a holder announces
	// its grant to the contenders behind it: by their reading it may look like a waiter.
	AnnouncesGrants bool

	// Claims: the first in line holds only after it has made a claim.
	Claims bool

	// Unfenced: grants have no fencing tokens. Without it, a contender whose token would not exceed
	// those of earlier sessions is lost, with ErrHistoryLost.
	Unfenced bool
}

// A Snapshot has the children of the line at one moment, and the condition, which was read later.
type Snapshot struct {
	Names   []string
	Version int32 // of the parent, when the names were listed
	Data    string
	New     bool // the caller has not yet received a place in line

	// The names that may be those of contenders of no known layout, and whose nodes are ephemeral:
	// see [nodes.IsUnknown]. A name is left out if it was created after an earlier list.
	Unknown []string

	// Unproven is set in the first snapshot with a node, and as long as Czxid is not known. While
	// it is set, the condition may have been another when the node was created.
	Unproven bool
	Czxid    int64 // of the contender's node; 0 while it is not known
}

// A Position is the place of one contender in its line, and the nodes whose change may change it.
type Position struct {
	Present        bool     // the contender is in line
	Ahead          int      // the number of contenders to wait for
	Watch          Target   // the target to watch while Ahead is not 0; zero for the members
	Beside         []Target // further contenders by name, never paths, watched until gone or changed
	Later          string   // the predecessor, to be watched when Watch is gone
	deletionGrants bool     // the deletion of the last of Watch and Beside is the grant
	AnnounceGrant  bool     // a contender behind waits for the news of the grant
	Ask            []string // nodes of holders that we, being next, ask to leave
	Zombies        []string // other nodes with our GUID; they do not count
	Invalid        bool     // the parent is not as the rule needs it: join anew
	Err            error    // the reason if there is no place for us
}

// A Target is a node, or a list, whose change is awaited.
type Target struct {
	// A path below the line, or an absolute path; for a claim, the contender; "" for the members.
	Node string

	Until until
}

// until is the awaited change of a [Target].
type until int8

// The changes.
const (
	Gone      until = iota // the node is deleted
	Changed                // the node is deleted, or its data is set
	Members                // the names of the children have changed
	Unclaimed              // the contender does not have the claim any more
)

// String returns the key of the target.
func (t Target) String() string {
	return t.Node + [...]string{"", " changed", "members", " claim"}[t.Until]
}

// TargetOf returns the target with a contender's key. The name of a contender ends with a digit, so
// it does not end like a key with a suffix.
func TargetOf(key string) Target {
	if node, ok := strings.CutSuffix(key, Target{Until: Changed}.String()); ok {
		return Target{node, Changed}
	}
	return Target{Node: key}
}

// ErrLayout means that contenders of another layout stand in line, so that neither side would
// respect the other.
var ErrLayout = errors.New("another layout")

// OtherLayout returns the error of a contender for the recipe that finds a contender of an
// incompatible layout, or of another recipe.
func OtherLayout(own nodes.Recipe, name string) error {
	if owner, _ := nodes.Whose(name); own != "" && owner != own {
		return Foreign(nodes.ForeignChild(name))
	}
	return fmt.Errorf("%w: there is %s", ErrLayout, name)
}

// Unknown returns the error of a contender that finds a contender of no known layout.
func Unknown(name string) error {
	return fmt.Errorf("%w: there is %s, an ephemeral node with a number, as of a lock that is written by hand", ErrLayout, name)
}

// Foreign returns the error of a contender that finds another recipe. It wraps [ErrLayout], too.
func Foreign(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLayout, err)
}

// Vacant returns [ErrLayout] if a contender is among the children of a node above the line.
// Children for which theirs returns true count as contenders too.
func Vacant(own nodes.Recipe, children []string, theirs func(name string) bool) error {
	i := slices.IndexFunc(children, func(name string) bool { return nodes.IsContender(name) || theirs(name) })
	if i < 0 {
		return nil
	}
	return OtherLayout(own, children[i])
}
