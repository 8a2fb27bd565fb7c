package lock

import (
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// The limits of [Options.Priority].
const (
	LowestPriority  = nodes.LowestPriority
	HighestPriority = nodes.HighestPriority
)

// Options are optional parameters for [New] and the functions built on it. A nil
// *Options is equivalent to a zero Options.
type Options struct {
	// Data is stored in the contender's node: for [Contenders], for people, and for the error
	// of an [Acquire] behind it whose context ends. The default, nil, is host:pid of the
	// process; data that are empty, but not nil, are nothing.
	Data []byte

	// Layout decides the names of nodes. The default is [Standard].
	Layout Layout

	// Priority is the rank of the contender: one of a higher priority goes before all of a
	// lower one that do not hold the lock yet. It is from [LowestPriority] to
	// [HighestPriority], and needs the layout [Prioritized]. The default is 0.
	Priority int

	// Preempt asks holders of a lower priority to release the lock, as by [Revoke], as
	// soon as no other contender goes before it. It needs the layout [Prioritized].
	// [TryAcquire] asks no holder.
	Preempt bool

	// PreemptAfter is the time that they have for that before the lock is taken away from
	// them, with [ErrRevoked]. Zero, the default, leaves it to them. A holder whose node
	// may not be written cannot be asked, and keeps the lock.
	PreemptAfter time.Duration

	// ReleaseInBackground makes [Lock.Release] and [Lock.Close] return at once:
	// the session sees the release through.
	ReleaseInBackground bool
}

func (o *Options) withDefaults() Options {
	v := client.Options(o)
	v.Data = line.Identity(v.Data)
	return v
}

// validate refuses what cannot be done, before any I/O.
func validate(s *session.Session, path string, opts Options) error {
	return recipe.Check(s, "lock", path, func(valid bool) (errs []error) {
		if !valid {
			path = "/" // the data are checked in any case
		}
		if err := fits(s, path, opts); err != nil {
			errs = append(errs, fmt.Errorf("lock: Options.Data: %w", err))
		}
		if err := opts.Layout.validate(); err != nil {
			errs = append(errs, fmt.Errorf("lock: Options.Layout: %w", err))
		} else {
			errs = append(errs, validatePriority(opts)...)
		}
		if yes, _ := mark.Read(opts.Data); yes {
			errs = append(errs, fmt.Errorf("lock: Options.Data: %w: it reads as a mark of revocation", session.ErrInvalidArgument))
		}
		return errs
	})
}

// fits reports why the data cannot be sent.
func fits(s *session.Session, path string, opts Options) error {
	set := session.SetOp(path, nil, 0)
	// More than it takes, without a string for the path of the node.
	if client.Of(s).Fits(session.CreateOp(path, opts.Data, session.EphemeralSequential), session.CheckOp("/"+longestName, 0), set) == nil {
		return nil
	}
	return client.Of(s).Fits(session.CreateOp(znode.Join(path, longestName), opts.Data, session.EphemeralSequential), set)
}

// longestName is at least as long as the name of any contender, but for its number.
const longestName = "_c_00000000-0000-4000-8000-000000000000-p0000-write-"

// validatePriority refuses what is no priority, and priorities where there are none.
func validatePriority(o Options) (errs []error) {
	refuse := func(option, format string, args ...any) {
		errs = append(errs, fmt.Errorf("lock: Options.%s: %w: "+format, append([]any{option, session.ErrInvalidArgument}, args...)...))
	}
	switch {
	case o.Layout != Prioritized && o.Priority != 0:
		refuse("Priority", "%d in the %v layout, which has none: Options.Layout is to be Prioritized", o.Priority, o.Layout)
	case o.Priority < LowestPriority || o.Priority > HighestPriority:
		refuse("Priority", "%d is not from %d to %d", o.Priority, LowestPriority, HighestPriority)
	}
	switch {
	case o.Layout != Prioritized && o.Preempt:
		refuse("Preempt", "there is none in the %v layout: Options.Layout is to be Prioritized", o.Layout)
	case o.PreemptAfter < 0:
		refuse("PreemptAfter", "%v is negative", o.PreemptAfter)
	case o.PreemptAfter > 0 && !o.Preempt:
		refuse("PreemptAfter", "%v without Options.Preempt", o.PreemptAfter)
	}
	return errs
}

// A Kind says how a contender wants the lock.
type Kind int

// The kinds.
const (
	Exclusive = Kind(nodes.Exclusive)
	Read      = Kind(nodes.Read)
	Write     = Kind(nodes.Write)
)

func (k Kind) String() string { return nodes.Kind(k).String() }

// A Layout decides the names and the marks of nodes. All contenders for a lock use the same
// layout.
//
// Contenders of every known layout are recognised: those of ZooKeeper's recipes, of Curator, of
// kazoo, and of the other recipes of this library. One of ours that finds another's which its
// own layout does not know is refused with [ErrLayout], when it comes and while it waits; a holder
// logs it when its connection is back. But others do not look for ours. This was measured with
// Curator 5.4 and kazoo 2.8:
//
//	                   Curator's                    kazoo's
//	                   mutex    read     write      Lock     ReadLock  WriteLock
//	Standard
//	    exclusive      both     refused  refused    refused  refused   refused
//	    read, write    ours     refused  refused    refused  refused   refused
//	Curator
//	    exclusive      both     ours     ours       refused  refused   refused
//	    read           ours     share    both       refused  refused   refused
//	    write          ours     both     both       refused  refused   refused
//	Kazoo
//	    exclusive      refused  refused  refused    both     both      both
//	    read           refused  refused  refused    ours     share     both
//	    write          refused  refused  refused    both     both      both
//	Prioritized
//	    all kinds      refused  refused  refused    refused  refused   refused
//
// Where it says both, each waits for the other. Where it says ours, only ours waits: theirs is
// granted the lock while ours holds it, and is not respected by a contender of ours that came before
// it. So these must not share a path. Where it says refused, theirs is granted it too, if it comes
// when ours holds the lock already.
//
// A line is listed in one reply. With about ten thousand contenders that is over [session.Options]
// MaxReply. A contender that has to list them then gets [session.ErrTooLarge], and leaves. A
// holder need not, nor a contender while the one that it watches is there.
type Layout int

const (
	// Standard is that of the published recipes: _c_<uuid>-lock-<number> for exclusive
	// locks, which Curator and go-zookeeper stand in line with as equals, and -read- and
	// -write- likewise. A mark of revocation is a first line before the data.
	Standard Layout = iota

	// Curator is that of Apache Curator, whose read-write locks name their nodes
	// -__READ__ and -__WRIT__, and whose mark of revocation replaces the data.
	Curator

	// Kazoo is that of kazoo: <32 hex digits>__lock__<number> for exclusive locks and
	// writers, which are the same here, and __rlock__ for readers. Curator does not
	// respect such nodes, and kazoo's own Lock does not respect readers. The ReadLock of
	// kazoo 2.8 waits for writers behind it, too, which is a deadlock.
	Kazoo

	// Prioritized is that of locks with priorities, which no other library has: see
	// [Options.Priority]. Its path carries data that says so, and has to be ours to write.
	// Other layouts refuse such a path with [ErrLayout], and this layout refuses theirs, and
	// a path that carries other data. Other clients do not know of it, and must not use the
	// path.
	//
	// The waiter of the highest priority goes first; of several with the same, the one that
	// came first. Readers share; exclusive contenders are writers. Contenders of a low
	// priority may wait for ever, if others keep coming.
	//
	// To hold is a fact on the server: a grant is a transaction of its own, which fails while
	// others hold. So of two contenders that believe to be next, one is granted it. That is
	// one write more than in other layouts, and the token is its zxid. For a writer that node
	// is holder, for readers it is below readers. To break a lock by hand, delete the
	// contender's node, [Lock.Node], and leaves these alone: the lock is lost with the
	// former, and granted again only when its holder has heard of that, or its session ended.
	// So is a writer's lock whose "holder" was deleted alone.
	Prioritized
)

func (l Layout) String() string {
	if l < Standard || l > Prioritized {
		return "unknown"
	}
	return [...]string{"standard", "curator", "kazoo", "prioritized"}[l]
}

func (l Layout) validate() error {
	if l < Standard || l > Prioritized {
		return fmt.Errorf("%w: there is no layout %d", session.ErrInvalidArgument, int(l))
	}
	return nil
}

// The grammars of the layouts, by their numbers.
//
//nolint:gochecknoglobals // they are constant
var grammars = [...]*nodes.Grammar{
	Standard: &nodes.StandardLock, Curator: &nodes.CuratorLock, Kazoo: &nodes.KazooLock, Prioritized: &nodes.PriorityLock,
}

// rule returns the rule by which a contender stands in line. With priorities, a deletion alone does not say whose turn it is. Kazoo's
// names do not tell exclusive contenders from writers, whose deletion may leave a reader: so only readers are granted by it.
func (l Layout) rule(kind Kind) line.Rule { return rules[l][kind] }

// rules are made once.
var rules = func() (all [len(grammars)][3]line.Rule) { //nolint:gochecknoglobals // they are constant
	for l := range all {
		for kind := range all[l] {
			grants := Layout(l) != Prioritized && (Layout(l) != Kazoo || Kind(kind) == Read)
			all[l][kind] = line.First{Grammar: grammars[l], Kind: nodes.Kind(kind), EventGrants: grants, Brief: true}
		}
	}
	return all
}()

// mark returns the data of a node with the mark of revocation.
func (l Layout) mark(own []byte, force time.Duration) []byte {
	if l == Curator {
		return mark.Curator()
	}
	return mark.Published(own, force)
}

// weaker returns the name of the reader that a writer becomes by a downgrade.
func (l Layout) weaker(name string) (reader string, ok bool) { return grammars[l].Downgraded(name) }
