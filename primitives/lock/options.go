package lock

import (
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
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
	// Data is stored in the contender's node. [Contenders] returns it, and the error of an
	// [Acquire] that waited behind it contains it. The default, nil, is host:pid of the process.
	// Data that is empty, but not nil, stays empty.
	Data []byte

	// Layout decides the names of nodes. The default is [Standard].
	Layout Layout

	// Priority ranks the contender: it goes before all contenders of a lower priority that do not
	// hold the lock yet. It is from [LowestPriority] to [HighestPriority], and needs the layout
	// [Prioritized]. The default is 0.
	Priority int

	// With Preempt the contender asks holders of a lower priority to release the lock, like
	// [Revoke], as soon as no other contender goes before it. It needs the layout [Prioritized].
	// [TryAcquire] asks no holder.
	Preempt bool

	// PreemptAfter is the time that these holders have before they lose the lock, with
	// [ErrRevoked]. Such a holder receives the loss a round trip after the lock was given away:
	// both hold for some milliseconds, and only the token protects then. With zero, the default,
	// they keep it until they release it. A holder whose node may not be written to cannot be
	// asked, and keeps the lock.
	PreemptAfter time.Duration

	// Delay is for a resource that checks no token. If the session of this holder expires, or
	// another client deletes its node, the next contender that has a Delay, too, waits for so long
	// before it holds: what this holder has begun may still be on its way, or it may be paused. A
	// release delays no other; to close the session while the lock is held is a loss. So all users
	// of the lock set it, and each may set another: that of the lost holder counts. It needs an
	// exclusive lock, in a layout without priorities, and costs two round trips. [TryAcquire] waits
	// for it, too. The delay begins when the first contender finds the loss, and that one waits by
	// its own clock. If it gives up, or a request of its fails meanwhile, the rest is measured by
	// the clock of the servers' leader. So it is shorter, or none, if another server has become the
	// leader whose clock is ahead; if its clock is behind, the delay may begin anew.
	//
	// The record of a holder is <path of the parent>/_lock-delays/<name>, and persistent.
	Delay time.Duration

	// ReleaseInBackground makes [Lock.Release] and [Lock.Close] return at once: the session
	// completes the release.
	ReleaseInBackground bool
}

func (o *Options) withDefaults() Options {
	v := client.Options(o)
	v.Data = contender.Identity(v.Data)
	return v
}

// validate refuses bad arguments, before any I/O.
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
		if opts.Delay < 0 || opts.Delay > 0 && opts.Layout == Prioritized {
			errs = append(errs, fmt.Errorf("lock: Options.Delay: %w: %v is negative, or in the %v layout, which has none", session.ErrInvalidArgument, opts.Delay, opts.Layout))
		}
		if yes, _ := mark.Read(opts.Data); yes {
			errs = append(errs, fmt.Errorf("lock: Options.Data: %w: it reads as a mark of revocation", session.ErrInvalidArgument))
		}
		return errs
	})
}

// fits returns an error if the data is too large to be sent.
func fits(s *session.Session, path string, opts Options) error {
	set := session.SetOp(path, nil, 0)
	// A larger transaction than needed, which avoids a string for the path of the node.
	if client.Of(s).Fits(session.CreateOp(path, opts.Data, session.EphemeralSequential), session.CheckOp("/"+longestName, 0), set) == nil {
		return nil
	}
	return client.Of(s).Fits(session.CreateOp(znode.Join(path, longestName), opts.Data, session.EphemeralSequential), set)
}

// longestName is at least as long as the name of any contender, but for its number.
const longestName = "_c_00000000-0000-4000-8000-000000000000-p0000-write-"

// validatePriority refuses a bad priority, and any priority in a layout without priorities.
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

// A Kind says with which other contenders a contender shares the lock.
type Kind int

// The kinds.
const (
	Exclusive = Kind(nodes.Exclusive)
	Read      = Kind(nodes.Read)
	Write     = Kind(nodes.Write)
)

func (k Kind) String() string { return nodes.Kind(k).String() }

// A Layout decides the names of nodes, and how a revoke request is stored. All contenders for a
// lock use the same layout.
//
// A contender of this library recognises contenders of every known layout: of ZooKeeper's recipes,
// of Curator, of kazoo, and of the other recipes of this library. If it finds one that its own
// layout does not respect, it is refused with [ErrLayout], when it comes and while it waits; a
// holder logs that when its connection is back. An ephemeral child whose name ends with a number of
// ten digits, as those of sequential nodes do, and is of no known layout, counts as a contender of
// another layout: a lock that is written by hand may have such nodes. A persistent child of such a
// name is ignored.
//
// But other libraries do not look for our contenders. This was measured with Curator 5.4 and 5.9,
// and with kazoo 2.8 and 2.11:
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
// "Both": each waits for the other. "Ours": only our contender waits. Theirs is granted the lock
// while ours holds it, and a contender of ours that came before it does not respect it, so these
// must not share a path. "Refused": ours is refused, but theirs is granted the lock too if it comes
// while ours holds it.
//
// Curator's write lock can be downgraded: its holder takes the read lock, and releases the write
// lock. In Curator 5.9 the reader keeps the writer's place, and all wait for it as for any other
// reader. In Curator 5.4 the reader stands at the end of the line, so a writer behind the write
// lock, ours or Curator's, is granted the lock while that reader holds. So processes of Curator 5.4
// that downgrade must not share a path with writers.
//
// A line is listed in one reply. With about ten thousand contenders the reply exceeds MaxReply of
// [session.Options]. Then a contender that has to list gets [session.ErrTooLarge], and leaves. A
// holder need not list, nor need a contender while the contender that it watches stands.
type Layout int

const (
	// Standard is the layout of the published recipes: _c_<uuid>-lock-<number> for exclusive locks,
	// in whose line Curator and go-zookeeper can stand, and -read- and -write- likewise. A revoke
	// request is a line before the data.
	Standard Layout = iota

	// Curator is the layout of Apache Curator: its read-write locks name their nodes -__READ__ and
	// -__WRIT__, and a revoke request replaces the data.
	Curator

	// Kazoo is the layout of kazoo: <32 hex digits>__lock__<number> for exclusive locks and
	// writers, which are the same here, and __rlock__ for readers. Curator does not respect such
	// nodes, and kazoo's own Lock does not respect readers. The ReadLock of kazoo 2.8 also waits
	// for writers behind it, which is a deadlock; the one of 2.11 does not. The path is a
	// persistent node, as kazoo makes it: its objects fail when it is gone. On ClickHouse Keeper
	// sessions delete it when it is empty.
	Kazoo

	// Prioritized is the layout of locks with priorities, which no other library has: see
	// [Options.Priority]. Its path carries data that marks it, and has to be ours to write. Other
	// layouts refuse such a path with [ErrLayout], and this layout refuses theirs, and a path with
	// other data. Other clients do not know this layout, and must not use the path.
	//
	// The waiter of the highest priority goes first; with the same priority, the waiter that came
	// first. Readers share; exclusive contenders are writers. Contenders of a low priority may wait
	// for ever, if others keep coming.
	//
	// The server decides which contender holds: a grant is a transaction of its own, which fails
	// while others hold. So if two contenders believe to be next, only one gets the lock. A grant
	// costs one write more than in other layouts, and the token is its zxid. The write creates the
	// node "holder" for a writer, and a node below "readers" for a reader. To break a lock by hand,
	// delete the contender's node, [Lock.Node], and leave these alone. The holder loses the lock
	// with its node, and the lock is granted again only when the holder knows of the loss, or its
	// session has ended. The same is true of a writer whose node "holder" alone was deleted.
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

// grammars has the grammars of the layouts.
//
//nolint:gochecknoglobals // they are constant
var grammars = [...]*nodes.Grammar{
	Standard: &nodes.StandardLock, Curator: &nodes.CuratorLock, Kazoo: &nodes.KazooLock, Prioritized: &nodes.PriorityLock,
}

// rule returns the rule by which a contender stands in line, except in the layout Prioritized,
// whose rule is that of package priority: see open. Kazoo's names do not distinguish exclusive
// contenders from writers, whose deletion may leave a reader, so a deletion is a grant only for
// readers.
func (l Layout) rule(kind Kind) line.Rule { return rules[l][kind] }

// far is the largest number of contenders ahead with which a contender watches three nodes. Most
// lines are shorter, and their holders may hold briefly. In a longer line a contender waits for so
// long that one watch is enough until it is next but one.
const far = 16

// rules has the rules of the layouts and kinds, which are made once.
var rules = func() (all [len(grammars)][3]line.Rule) { //nolint:gochecknoglobals // they are constant
	for l := range all {
		for kind := range all[l] {
			grants := Layout(l) != Prioritized && (Layout(l) != Kazoo || Kind(kind) == Read)
			all[l][kind] = line.First{Grammar: grammars[l], Kind: nodes.Kind(kind), EventGrants: grants, Brief: true, Far: far}
		}
	}
	return all
}()

// mark returns the data of a node with a revoke request.
func (l Layout) mark(own []byte, force time.Duration) []byte {
	if l == Curator {
		return mark.Curator()
	}
	return mark.Published(own, force)
}

// weaker returns the name of the reader that a writer becomes by a downgrade.
func (l Layout) weaker(name string) (reader string, ok bool) { return grammars[l].Downgraded(name) }
