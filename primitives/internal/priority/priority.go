package priority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// This file has the departures of a lock with priorities from the published recipe. Below the
// path, which carries the data "priority 1" and in a second line the name of the writer that
// has held last, there are
//
//	_c_<uuid>-p<priority + 1000>-read-<number>     contenders, as long as they wait or hold
//	_c_<uuid>-p<priority + 1000>-write-<number>
//	holder                                         the writer that holds has created it; its data is its name
//	readers/<name of a reader>                     each reader that holds has created one
//
// All are ephemeral but for readers, a container. A contender that is first by its list claims,
// in one transaction that fails while a contender holds that excludes it:
//
//	writer: check(own) set(path, version) delete(readers), if it has no children; create(holder)
//	reader: check(own) check(path, version) create(holder) delete(holder) create(readers/own)
//
// The version of the path grows with every claim of a writer. While it is the one of our claim,
// holder is ours: a release checks that.
const marker = "priority 1"

// Options are the options of a contender.
type Options struct {
	Data         []byte        // of its node
	Kind         nodes.Kind    // read or write
	Priority     int           // from nodes.LowestPriority to nodes.HighestPriority
	Preempt      bool          // ask holders of lower priority to leave, when first
	PreemptAfter time.Duration // remove holders that have not left by then; 0 for never
}

// A Lock is the knowledge of one handle of a line with priorities. It performs what
// [line.Hooks] ask for.
type Lock struct {
	// Constant.
	session client.Session
	path    string
	opts    Options

	claims claim.Keeper[bid] // of its contenders, one after the other

	mu    sync.Mutex
	asked map[string]time.Duration // the holders that were asked to leave, and the session's age then, or asking
	asker int                      // the attempt that asked has entries of; those of an earlier one are dropped
	seen  seen                     // set by each list, for the claim that follows it
}

// A seen is the state of the line as of the newest list.
type seen struct {
	version int32 // of the path
	readers bool  // set if readers exists
}

// New returns the Lock of a handle that has read nothing.
func New(s client.Session, path string, opts Options) *Lock {
	return &Lock{session: s, path: path, opts: opts}
}

// Recipe returns the recipe by which the handle stands in line.
func (p *Lock) Recipe() *line.Recipe {
	return &line.Recipe{
		Name: "lock", Path: p.path, Dir: p.path, Data: p.opts.Data,
		Rule: rule{p.opts.Kind, p.opts.Priority, p.opts.Preempt},
		Hooks: &line.Hooks{
			Plain: true, Inspect: p.inspect, Make: p.make, Beside: p.beside, Claim: p.take, Claimed: p.claimed,
			Change: p.change, Ask: p.ask, Withdraw: p.withdraw, Marked: mark.Split,
		},
	}
}

// Inspect is [line.Hooks] Inspect of the other layouts: it refuses a path with priorities.
func Inspect(r *line.Recipe, requests client.Async, _ bool, answer func(exists, empty bool, err error)) {
	requests.Exists(r.Dir, func(stat *session.Stat, err error) {
		if err != nil || stat == nil || !mayBePriority(int(stat.DataLength)) {
			answer(stat != nil, stat != nil && stat.DataLength == 0, err)
			return
		}
		requests.Get(r.Dir, func(data []byte, _ *session.Stat, err error) {
			switch {
			case errors.Is(err, session.ErrNoNode):
				answer(false, false, nil)
			case err == nil && IsPriority(data):
				answer(false, false, fmt.Errorf("%w: that of locks with priorities", line.ErrLayout))
			default:
				answer(true, len(data) == 0, err)
			}
		})
	})
}

// hint is the path under which the session remembers that this path is one with
// priorities. It is not a valid path, so no recipe can use it.
func (p *Lock) hint() string { return p.path + "//" + marker }

// inspect implements [line.Hooks] Inspect. If the session remembers the path, nothing is
// read: the list of the line reads it anyway.
func (p *Lock) inspect(_ *line.Recipe, requests client.Async, _ bool, answer func(exists, empty bool, err error)) {
	if p.session.Warm(p.hint()) {
		answer(true, false, nil)
		return
	}
	p.settle(requests, answer)
}

// settle reads whether the path is one with priorities. It marks an empty path that has
// no contenders of another layout.
func (p *Lock) settle(requests client.Async, answer func(exists, empty bool, err error)) {
	path := read(requests, p.path)
	requests.Children(p.path, func(names []string, _ *session.Stat, err error) {
		switch failed := cmp.Or(path.Err, err); {
		case errors.Is(failed, session.ErrNoNode):
			answer(false, false, nil)
		case failed != nil:
			answer(false, false, failed)
		case len(path.Data) > 0:
			answer(true, false, checkMark(path.Data))
		case slices.ContainsFunc(names, IsForeign):
			answer(false, false, fmt.Errorf("%w: there are contenders", line.ErrLayout))
		default:
			p.mark(requests, path.Stat.Version, func(err error) {
				if errors.Is(err, session.ErrBadVersion) {
					p.settle(requests, answer)
					return
				}
				answer(!errors.Is(err, session.ErrNoNode), false, client.Without(err, session.ErrNoNode))
			})
		}
	})
}

// read reads a node. The result is set by the time that a later request is answered.
func read(requests client.Async, path string) *claim.Found {
	f := new(claim.Found)
	requests.Get(path, func(data []byte, stat *session.Stat, err error) { *f = claim.Found{Data: data, Stat: stat, Err: err} })
	return f
}

// IsPriority reports whether the data of a path is that of a lock with priorities.
func IsPriority(data []byte) bool {
	first, _, _ := strings.Cut(string(data), "\n")
	return first == marker
}

// mayBePriority reports whether data of the length may be that of a lock with priorities.
func mayBePriority(length int) bool {
	const named = len(marker) + len("\n_c_00000000-0000-0000-0000-000000000000-p0000-write-0000000000")
	return length == len(marker) || length >= named
}

// checkMark returns an error for data that is not of a lock with priorities.
func checkMark(data []byte) error {
	if !IsPriority(data) {
		return fmt.Errorf("%w: its node carries data that is not that of a lock with priorities", line.ErrLayout)
	}
	return nil
}

// IsForeign reports whether a name is that of a contender in another layout.
func IsForeign(name string) bool {
	_, ranked := nodes.ParseRank(name)
	return !ranked && nodes.IsContender(name)
}

// mark writes the kind of the lock to an empty path, at the version at which it was read.
func (p *Lock) mark(requests client.Async, version int32, answer func(error)) {
	requests.Set(p.path, []byte(marker), version, func(_ *session.Stat, err error) { answer(err) })
}

// make creates the path. The line inspects it again in any case: other clients may write
// to it.
func (p *Lock) make(_ *line.Recipe, requests client.Async, answer func(made bool, err error)) {
	p.session.SetWarm(p.hint(), false)
	recipe.MakeContainer(requests, p.path, marker, func(_ bool, err error) { answer(false, err) })
}

// beside reads which contenders hold, and whether the path is still one with priorities.
// The requests go out at once, behind the list of the line: the answers are in this
// order.
func (p *Lock) beside(r *line.Recipe, requests client.Async, answer func(data string, err error)) {
	path, holder := read(requests, p.path), read(requests, znode.Join(p.path, holderNode))
	requests.Children(znode.Join(p.path, readersNode), func(names []string, _ *session.Stat, err error) {
		failed := cmp.Or(path.Err, client.Without(holder.Err, session.ErrNoNode), client.Without(err, session.ErrNoNode))
		switch {
		case failed != nil:
			answer("", failed)
			return
		case len(path.Data) == 0: // another client has emptied the path
			p.session.SetWarm(p.hint(), false)
			p.settle(requests, func(exists, _ bool, err error) {
				switch {
				case err != nil:
					answer("", err)
				case !exists:
					answer("", session.ErrNoNode)
				default:
					p.beside(r, requests, answer)
				}
			})
			return
		}
		failed = checkMark(path.Data)
		p.session.SetWarm(p.hint(), failed == nil)
		sight := standing{Holder: string(holder.Data), Readers: names}
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

// claimed implements [line.Hooks] Claimed: the path of the node that the contender claims.
func (p *Lock) claimed(_ *line.Recipe, node string) string {
	return bid{path: p.path, node: node}.claimed()
}

// take implements [line.Hooks] Claim. It may be repeated: a claim that was done makes the
// transaction fail. A reader first creates the directory of the readers, if the list did
// not show it.
func (p *Lock) take(_ *line.Recipe, requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
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

// change implements [line.Hooks] Change: the writer that holds becomes a reader that
// holds, in one transaction. It begins with the reader's node: if that is there, an earlier change has been done.
func (p *Lock) change(r *line.Recipe, requests client.Async, from, to string, answer func(error)) {
	const createsReader, deletesWriter, checksPath, createsClaim = 0, 1, 2, 4 // the operations below
	writer, reader := p.bid(from), p.bid(to)
	held := p.claims.Claim()
	again := func() { p.change(r, requests, from, to, answer) }
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
		r.Carry(requests, from, try, answer)
	})
}

// withdraw implements [line.Hooks] Withdraw. The claim goes with its contender.
func (p *Lock) withdraw(_ *line.Recipe, requests client.Async, node, prefix string, answer func()) {
	p.claims.GiveUp(requests, p.bid(node), node, prefix, answer)
}

// remove removes a contender of another handle, and then its claim, if it has any.
func (p *Lock) remove(requests client.Async, node string, answer func()) {
	requests.Remove(p.bid(node).Remove(node, "", claim.Claim{}, true), func(error) { answer() })
}

// Unclaim returns the removal of a contender's claim.
func (p *Lock) Unclaim(node string) *session.Removal { return p.bid(node).unclaim(node) }

// asking is the entry of a holder whose node is being marked.
const asking = math.MaxInt64

// ask implements [line.Hooks] Ask: it asks a holder to leave, once in each attempt. When
// PreemptAfter has passed since, it removes the holder.
func (p *Lock) ask(r *line.Recipe, requests client.Async, attempt int, node string, answer func(overdue bool)) {
	after := p.opts.PreemptAfter
	since, before := p.request(attempt, node)
	switch {
	case !before:
		p.demand(r, requests, node, func(marked bool) {
			p.asks(attempt, node, marked)
			if !marked || after == 0 {
				answer(false)
				return
			}
			r.Owned().After(overdue{attempt, node}, after, func() { answer(true) })
		})
	case after > 0 && since < asking && p.session.Age()-since >= after:
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

// request returns since when a holder has been asked in the attempt. If it was not asked,
// it is entered as being asked.
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

// asks enters when a holder was asked, or that it could not be: that may be tried again.
// The entries of holders that must have left are dropped.
func (p *Lock) asks(attempt int, node string, marked bool) {
	const many = 64
	now := p.session.Age()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case attempt != p.asker:
	case !marked:
		delete(p.asked, node)
	default:
		if len(p.asked) >= many {
			maps.DeleteFunc(p.asked, func(_ string, since time.Duration) bool { return now-since > p.opts.PreemptAfter })
		}
		p.asked[node] = now
	}
}

// demand writes the mark of revocation, unless it is there. The answer is false if the
// node is gone, or may not be written.
func (p *Lock) demand(r *line.Recipe, requests client.Async, node string, answer func(marked bool)) {
	path := p.node(node)
	again := func(err error) { r.Owned().Answer(err, func() { p.demand(r, requests, node, answer) }) }
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
