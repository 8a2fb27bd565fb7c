package priority

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// This file has the departures of a lock with priorities from the published recipe. The data of the
// path is "priority 1" and, in a second line, the name of the newest writer that held. Below the
// path there are
//
//	_c_<uuid>-p<priority + 1000>-read-<number>     contenders, as long as they wait or hold
//	_c_<uuid>-p<priority + 1000>-write-<number>
//	holder                                         the writer that holds has created it; its data is its name
//	readers/<name of a reader>                     each reader that holds has created one
//
// All are ephemeral except for readers, a container. A contender that is first by its list claims
// in one transaction, which fails while a contender holds that excludes it:
//
//	writer: check(own) set(path, version) delete(readers), if it has no children; create(holder)
//	reader: check(own) check(path, version) create(holder) delete(holder) create(readers/own)
//
// The version of the path grows with every claim of a writer. While it is the version of our claim,
// holder is ours: a release checks that.
const marker = nodes.PriorityMark

// Options are the options of a contender.
type Options struct {
	Data         []byte        // of its node
	Kind         nodes.Kind    // read or write
	Priority     int           // from nodes.LowestPriority to nodes.HighestPriority
	Preempt      bool          // ask holders of lower priority to leave, when first
	PreemptAfter time.Duration // remove holders that have not left by then; 0 for never
}

// A Lock has one handle's knowledge of a lock with priorities. It is the parent, the condition and
// the claim of the handle's recipe.
type Lock struct {
	// Constant.
	session client.Session
	path    string
	opts    Options

	claims claim.Keeper[bid] // of its contenders, one after the other

	mu sync.Mutex
	// The holders that were asked to leave, each with the session's age at that time, or asking. An
	// attempt asks few more than hold at its beginning: no contender of a lower priority claims
	// while the first in line waits.
	asked map[string]time.Duration

	// The attempt to which the entries of asked belong; those of an earlier one are dropped.
	asker int

	seen seen // set by each list, for the claim after it
}

// A seen is the part of the newest list that a claim needs.
type seen struct {
	version int32 // of the path
	readers bool  // set if the node "readers" exists
}

// New returns the Lock of a new handle.
func New(s client.Session, path string, opts Options) *Lock {
	return &Lock{session: s, path: path, opts: opts}
}

// Recipe returns the recipe by which the handle stands in line.
func (p *Lock) Recipe() *contender.Recipe {
	return &contender.Recipe{
		Name: "lock", Path: p.path, Dir: p.path, Data: p.opts.Data,
		Rule:      rule{p.opts.Kind, p.opts.Priority, p.opts.Preempt},
		Revocable: true, Plain: true, Parent: p, Condition: p, Claim: p,
	}
}

// hint is the name under which the session remembers that this path is one with priorities. It is
// not a valid path, so no recipe can use it.
func (p *Lock) hint() string { return p.path + "//" + marker }

// Warmth implements [contender.Parent].
func (p *Lock) Warmth() string { return p.path }

// Inspect implements [contender.Parent]. If the session remembers the path, Inspect reads nothing,
// because the list of the line reads the path anyway.
func (p *Lock) Inspect(requests client.Async, _ bool, answer func(parent *session.Stat, err error)) {
	if p.session.Warm(p.hint()) {
		answer(&session.Stat{DataLength: int32(len(marker))}, nil)
		return
	}
	p.settle(requests, answer)
}

// settle finds out whether the path is one with priorities. It makes an empty path without
// contenders of another layout one, by writing the marker.
func (p *Lock) settle(requests client.Async, answer func(path *session.Stat, err error)) {
	path := read(requests, p.path)
	requests.Children(p.path, func(names []string, _ *session.Stat, err error) {
		switch failed := cmp.Or(path.Err, err); {
		case errors.Is(failed, session.ErrNoNode):
			answer(nil, nil)
		case failed != nil:
			answer(nil, failed)
		case len(path.Data) > 0:
			answer(path.Stat, checkMark(path.Data))
		case vacant(names) != nil:
			answer(nil, vacant(names))
		default:
			contender.Refuse(requests, p.path, names, func(err error) {
				if err != nil {
					answer(nil, err)
					return
				}
				p.mark(requests, path.Stat.Version, answer)
			})
		}
	})
}

// mark writes the marker at the version at which the path was read.
func (p *Lock) mark(requests client.Async, version int32, answer func(path *session.Stat, err error)) {
	requests.Set(p.path, []byte(marker), version, func(marked *session.Stat, err error) {
		if errors.Is(err, session.ErrBadVersion) {
			p.settle(requests, answer)
			return
		}
		answer(marked, client.Without(err, session.ErrNoNode))
	})
}

// read reads a node. The result is set when a later request is answered.
func read(requests client.Async, path string) *claim.Found {
	f := new(claim.Found)
	requests.Get(path, func(data []byte, stat *session.Stat, err error) { *f = claim.Found{Data: data, Stat: stat, Err: err} })
	return f
}

// checkMark returns an error unless the data is that of a lock with priorities.
func checkMark(data []byte) error {
	if !nodes.IsPriority(data) {
		return line.Foreign(nodes.ForeignData(data))
	}
	return nil
}

// IsForeign reports whether a name belongs to a contender of another layout.
func IsForeign(name string) bool {
	_, ranked := nodes.ParseRank(name)
	return !ranked && nodes.IsContender(name)
}

// vacant returns an error if the children are contenders of another layout, or of another recipe.
func vacant(children []string) error {
	if i := slices.IndexFunc(children, IsForeign); i >= 0 {
		return line.OtherLayout(nodes.OfLock, children[i])
	}
	return line.Foreign(nodes.Foreign(nodes.OfLock, children))
}

// Make implements [contender.Parent]. It never reports made, so that the path is inspected in any
// case: other clients may write to it.
func (p *Lock) Make(requests client.Async, answer func(made bool, err error)) {
	p.session.SetWarm(p.hint(), false)
	recipe.MakeContainer(requests, p.path, marker, func(_ bool, err error) { answer(false, err) })
}

// Read implements [contender.Condition]: which contenders hold, and whether the path is still one
// with priorities. Its requests go out together, behind the list of the line, and are answered in
// this order.
func (p *Lock) Read(requests client.Async, answer func(data string, err error)) {
	path, holder := read(requests, p.path), read(requests, znode.Join(p.path, holderNode))
	requests.Children(znode.Join(p.path, readersNode), func(names []string, _ *session.Stat, err error) {
		failed := cmp.Or(path.Err, client.Without(holder.Err, session.ErrNoNode), client.Without(err, session.ErrNoNode))
		switch {
		case failed != nil:
			answer("", failed)
			return
		case len(path.Data) == 0: // another client has emptied the path
			p.session.SetWarm(p.hint(), false)
			p.settle(requests, func(path *session.Stat, err error) {
				switch {
				case err != nil:
					answer("", err)
				case path == nil:
					answer("", session.ErrNoNode)
				default:
					p.Read(requests, answer)
				}
			})
			return
		}
		failed = checkMark(path.Data)
		p.session.SetWarm(p.hint(), failed == nil)
		sight := standing{Holder: string(holder.Data), Version: path.Stat.Version, Readers: names}
		if holder.Err == nil && sight.Holder == "" {
			sight.Holder = holderNode // another client has created it: no contender matches
		}
		_, sight.Former, _ = strings.Cut(string(path.Data), "\n")
		p.mu.Lock()
		p.seen = seen{path.Stat.Version, err == nil}
		p.mu.Unlock()
		answer(sight.String(), failed)
	})
}

// bid returns the bid of a contender as of the newest list.
func (p *Lock) bid(node string) bid {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bid{p.path, node, p.seen}
}

// node returns the path of a contender.
func (p *Lock) node(name string) string { return znode.Join(p.path, name) }

// Claimed implements [contender.Claim].
func (p *Lock) Claimed(node string) string {
	return bid{path: p.path, node: node}.claimed()
}

// Guard returns the path of the node whose existence proves that the contender at the path holds;
// "" for "". For a reader it is its claim, because a writer is granted the lock as soon as an
// operator has deleted that claim. For a writer it is its own node: all writers' claims have the
// same name, and no other contender claims while the writer's node stands.
func Guard(path string) string {
	dir, node := znode.Split(path)
	if !isReader(node) {
		return path
	}
	return bid{path: dir, node: node}.claimed()
}

// Take implements [contender.Claim]. It may be repeated: an executed claim makes the transaction
// fail. A reader first creates the node "readers", if the list did not show it.
func (p *Lock) Take(requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	b := p.bid(node)
	try := func() { p.claims.Take(requests, b, node, again, answer) }
	if !isReader(node) || b.readers {
		try()
		return
	}
	client.MakeContainer(requests, b.shared(), "", func(err error) {
		if err != nil && !errors.Is(err, session.ErrNodeExists) && !errors.Is(err, session.ErrUnknownOutcome) {
			answer(0, false, err)
			return
		}
		try()
	})
}

// Change implements [contender.Preemptible]: the writer that holds becomes a reader that holds, in
// one transaction. The transaction creates the reader's node first: if it exists, an earlier change
// was executed.
func (p *Lock) Change(requests client.Async, from, to string, answer func(error)) {
	// Indexes of the operations below.
	const createsReader, deletesWriter, checksPath, createsClaim = 0, 1, 2, 4

	writer, reader := p.bid(from), p.bid(to)
	held := p.claims.Claim()
	again := func() { p.Change(requests, from, to, answer) }
	try := func(data []byte, version int32, written func()) {
		requests.Multi([]session.Op{
			session.CreateOp(p.node(to), data, session.Ephemeral),
			session.DeleteOp(p.node(from), version), session.CheckOp(p.path, held.Version),
			session.DeleteOp(writer.claimed(), session.AnyVersion), session.CreateOp(reader.claimed(), nil, session.Ephemeral),
		}, func(results []session.OpResult, err error) {
			switch failed := claim.Failed(results); {
			case err == nil, failed == createsReader && errors.Is(err, session.ErrNodeExists):
				p.claims.Exchanged(from, to)
				answer(nil)
			case failed == deletesWriter && errors.Is(err, session.ErrBadVersion):
				written()
			case failed == createsClaim && errors.Is(err, session.ErrNoNode): // the server has removed the empty container
				again()
			case failed == checksPath && errors.Is(err, session.ErrBadVersion): // another client has written to the path
				claim.Find(requests, writer, func(v claim.Verdict) {
					if v.Zxid == 0 {
						answer(cmp.Or(v.Err, session.ErrNoNode)) // without an error, the claim is gone
						return
					}
					p.claims.Wrote(from, v.Version)
					again()
				})
			default:
				answer(err)
			}
		})
	}
	client.MakeContainer(requests, reader.shared(), "", func(err error) {
		if err != nil && !errors.Is(err, session.ErrNodeExists) {
			answer(err)
			return
		}
		contender.Carry(requests, p.node(from), p.opts.Data, try, answer)
	})
}

// Withdraw implements [contender.Claim]. The claim is deleted with its contender.
func (p *Lock) Withdraw(requests client.Async, node, prefix string, answer func(error)) {
	p.claims.GiveUp(requests, p.bid(node), node, prefix, answer)
}

// remove removes a contender of another handle, and then its claim, if it has one.
func (p *Lock) remove(requests client.Async, node string, answer func()) {
	requests.Remove(p.bid(node).Remove(node, "", claim.Claim{}, true), func(error) { answer() })
}

// Unclaim returns the removal of a contender's claim.
func (p *Lock) Unclaim(node string) *session.Removal { return p.bid(node).unclaim(node) }

// asking is the entry of a holder to whose node a revoke request is being written: later than any
// age of a session.
const asking = math.MaxInt64

// Ask implements [contender.Preemptible]. It asks a holder to leave, once in each attempt, and
// removes the holder when PreemptAfter has passed since.
func (p *Lock) Ask(timers *owned.Set, requests client.Async, attempt int, node string, answer func(overdue bool)) {
	after := p.opts.PreemptAfter
	since, before := p.request(attempt, node)
	switch {
	case !before:
		p.requestRevoke(timers, requests, node, func(marked bool) {
			p.recordAsked(attempt, node, marked)
			if !marked || after == 0 {
				answer(false)
				return
			}
			timers.After(overdue{attempt, node}, after, func() { answer(true) })
		})
	case after > 0 && p.session.Age()-since >= after:
		p.remove(requests, node, func() { answer(false) })
	default:
		answer(false)
	}
}

// An overdue is the key of the timer for a holder that was asked.
type overdue struct {
	attempt int
	node    string
}

// request returns when a holder was asked in the attempt. If it was not, request enters it as being
// asked.
func (p *Lock) request(attempt int, node string) (since time.Duration, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if attempt != p.asker || p.asked == nil { // the entries are of an earlier attempt
		p.asker, p.asked = attempt, make(map[string]time.Duration)
	}
	since, before = p.asked[node]
	if !before {
		p.asked[node] = asking
	}
	return since, before
}

// recordAsked enters the time at which a holder was asked. If it could not be asked, its entry is
// removed, so that it may be asked again.
func (p *Lock) recordAsked(attempt int, node string, marked bool) {
	now := p.session.Age()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case attempt != p.asker:
	case marked:
		p.asked[node] = now
	default:
		delete(p.asked, node)
	}
}

// requestRevoke writes the revoke request into the node, unless there is one. It answers false if
// the node is gone, or may not be written to.
func (p *Lock) requestRevoke(timers *owned.Set, requests client.Async, node string, answer func(marked bool)) {
	path := p.node(node)
	again := func(err error) { timers.Answer(err, func() { p.requestRevoke(timers, requests, node, answer) }) }
	requests.Get(path, func(data []byte, stat *session.Stat, err error) {
		own, marked, _ := mark.Split(data)
		switch {
		case session.Passing(err) && !client.Over(err):
			again(err)
		case err != nil || marked:
			answer(err == nil)
		default:
			requests.Set(path, mark.Published(own, p.opts.PreemptAfter), stat.Version, func(_ *session.Stat, err error) {
				if errors.Is(err, session.ErrBadVersion) || session.Passing(err) && !client.Over(err) {
					again(err)
					return
				}
				answer(err == nil)
			})
		}
	})
}

// Holders returns the names of the contenders that hold the lock.
func Holders(ctx context.Context, s *session.Session, path string) (map[string]bool, error) {
	all := make(map[string]bool)
	data, _, err := s.Get(ctx, znode.Join(path, holderNode))
	if err == nil {
		all[string(data)] = true
	} else if !errors.Is(err, session.ErrNoNode) {
		return nil, err
	}
	readers, _, err := s.Children(ctx, znode.Join(path, readersNode))
	for _, name := range readers {
		all[name] = true
	}
	return all, client.Without(err, session.ErrNoNode)
}
