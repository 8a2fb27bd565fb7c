package priority

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/lock/internal/mark"
	"github.com/zkactors/zkactors/session"
)

// This file is how a lock with priorities departs from the published recipe. Below the
// path, which carries the data "priority 1" and in a second line the name of the writer that
// has held last, there are
//
//	_c_<uuid>-p<priority + 1000>-read-<number>     contenders, as long as they wait or hold
//	_c_<uuid>-p<priority + 1000>-write-<number>
//	holder                                         made by the writer that holds; its data is the name of that
//	readers/<name of a reader>                     made by each reader that holds
//
// all ephemeral but for readers, a container. Who is first by what it has seen claims, in
// one transaction that fails if somebody else who matters holds:
//
//	writer: check(own) set(path, version) delete(readers), if it has no children; create(holder)
//	reader: check(own) check(path, version) create(holder) delete(holder) create(readers/own)
//
// The version of the path grows with every claim of a writer. So long as it is the one of
// our claim, holder is ours: that is what a release checks.
const marker = "priority 1"

// Options are those of a contender.
type Options struct {
	Data         []byte
	Kind         line.Kind
	Priority     int
	Preempt      bool
	PreemptAfter time.Duration
}

// A Lock is what one handle knows of a line with priorities.
type Lock struct {
	session client.Session
	path    string
	opts    Options

	// Of the handle's own goroutine.
	tried string // the prefix of the names for which something was claimed
	doubt string // the node for which a claim of unknown outcome was made

	mu    sync.Mutex
	asked map[string]time.Duration // since when, by the age of the session; asking, if that is under way
	asker int                      // for which attempt
	seen  struct {
		version int32 // of the path
		readers bool  // there is a node for them
	}
	held struct {
		node    string
		version int32 // of the path, since that has claimed
	}
}

// New returns what a handle knows at first.
func New(s client.Session, path string, opts Options) *Lock {
	return &Lock{session: s, path: path, opts: opts}
}

// Recipe returns how it stands in line.
func (p *Lock) Recipe() *line.Recipe {
	return &line.Recipe{
		Name: "lock", Path: p.path, Dir: p.path, Data: p.opts.Data,
		Rule: rule{p.opts.Kind, p.opts.Priority, p.opts.Preempt},
		Ways: &line.Ways{
			Plain: true, Inspect: p.inspect, Make: p.make, Beside: p.beside, Claim: p.claim, Claimed: p.claimed,
			Change: p.change, Ask: p.ask, Withdraw: p.withdraw, Marked: mark.Read,
		},
	}
}

// Inspect is how other layouts look at a path before they stand in line there: see [line.Ways].
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
			case err == nil && isPriority(data):
				answer(false, false, fmt.Errorf("%w: that of locks with priorities", line.ErrLayout))
			default:
				answer(true, len(data) == 0, err)
			}
		})
	})
}

// hint is what the session keeps that has seen the path to be that of a lock with
// priorities. It is no path that anybody else could keep.
func (p *Lock) hint() string { return p.path + "//" + marker }

// inspect implements [line.Ways] Inspect. What the session has seen is seen again when we
// stand in line.
func (p *Lock) inspect(_ *line.Recipe, requests client.Async, _ bool, answer func(exists, empty bool, err error)) {
	if p.session.Warm(p.hint()) {
		answer(true, false, nil)
		return
	}
	p.settle(requests, answer)
}

// settle looks whether the path is that of a lock with priorities, and has it so if nobody
// else uses it.
func (p *Lock) settle(requests client.Async, answer func(exists, empty bool, err error)) {
	var data []byte
	var version int32
	var failed error
	requests.Get(p.path, func(d []byte, stat *session.Stat, err error) {
		if data, failed = d, err; err == nil {
			version = stat.Version
		}
	})
	requests.Children(p.path, func(names []string, _ *session.Stat, err error) {
		if failed == nil {
			failed = err
		}
		switch {
		case errors.Is(failed, session.ErrNoNode):
			answer(false, false, nil)
		case failed != nil:
			answer(false, false, failed)
		case len(data) > 0:
			answer(true, false, checkMark(data))
		case slices.ContainsFunc(names, IsForeign):
			answer(false, false, fmt.Errorf("%w: there are contenders", line.ErrLayout))
		default:
			p.mark(requests, version, func(err error) {
				if errors.Is(err, session.ErrBadVersion) {
					p.settle(requests, answer)
					return
				}
				answer(!errors.Is(err, session.ErrNoNode), false, without(err, session.ErrNoNode))
			})
		}
	})
}

// isPriority reports whether the data of a path are those of a lock with priorities.
func isPriority(data []byte) bool {
	first, _, _ := strings.Cut(string(data), "\n")
	return first == marker
}

// mayBePriority reports whether they may be, by their length.
func mayBePriority(length int) bool {
	const named = len(marker) + len("\n_c_00000000-0000-0000-0000-000000000000-p0000-write-0000000000")
	return length == len(marker) || length >= named
}

func checkMark(data []byte) error {
	if !isPriority(data) {
		return fmt.Errorf("%w: its node carries data that is not that of a lock with priorities", line.ErrLayout)
	}
	return nil
}

// IsForeign reports whether a name is that of a contender in another layout.
func IsForeign(name string) bool {
	_, ranked := ParseRank(name)
	return !ranked && line.IsContender(name)
}

// without returns nil for an error that is no failure.
func without(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// mark writes the kind of the lock to a path that is empty.
func (p *Lock) mark(requests client.Async, version int32, answer func(error)) {
	requests.Set(p.path, []byte(marker), version, func(_ *session.Stat, err error) { answer(err) })
}

// make makes the path. It is inspected again in any case: others may write to it.
func (p *Lock) make(r *line.Recipe, requests client.Async, answer func(made bool, err error)) {
	p.session.SetWarm(p.hint(), false)
	line.MakeContainer(requests, p.path, marker, func(err error) {
		if !errors.Is(err, session.ErrNoNode) {
			answer(false, without(err, session.ErrNodeExists))
			return
		}
		dir, _ := session.Split(p.path)
		requests.EnsurePath(dir, func(_ bool, err error) {
			if err != nil {
				answer(false, err)
				return
			}
			p.make(r, requests, answer)
		})
	})
}

// beside reads who holds, and whether the path is still what it was.
func (p *Lock) beside(r *line.Recipe, requests client.Async, answer func(data string, err error)) {
	var data []byte
	var version int32
	var failed error
	var sight standing
	requests.Get(p.path, func(d []byte, stat *session.Stat, err error) {
		if data, failed = d, err; err == nil {
			version = stat.Version
		}
	})
	requests.Get(p.holder(), func(d []byte, _ *session.Stat, err error) {
		if sight.Holder = string(d); err == nil && len(d) == 0 {
			sight.Holder = holderNode // made by nobody that we know
		}
		if failed == nil {
			failed = without(err, session.ErrNoNode)
		}
	})
	requests.Children(p.readers(), func(names []string, _ *session.Stat, err error) {
		sight.Readers = names
		if failed == nil {
			failed = without(err, session.ErrNoNode)
		}
		switch {
		case failed == nil && len(data) == 0: // somebody has emptied it
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
		case failed == nil:
			failed = checkMark(data)
			p.session.SetWarm(p.hint(), failed == nil)
		}
		_, sight.Former, _ = strings.Cut(string(data), "\n")
		p.mu.Lock()
		p.seen.version, p.seen.readers = version, err == nil
		p.mu.Unlock()
		answer(sight.String(), failed)
	})
}

func (p *Lock) holder() string  { return session.Join(p.path, holderNode) }
func (p *Lock) readers() string { return session.Join(p.path, readersNode) }

func (p *Lock) node(name string) string { return session.Join(p.path, name) }

// claimed returns the path of what the contender claims, or has claimed.
func (p *Lock) claimed(_ *line.Recipe, node string) string {
	if isReader(node) {
		return session.Join(p.readers(), node)
	}
	return p.holder()
}

func isReader(node string) bool {
	rank, _ := ParseRank(node)
	return rank.Kind == line.Read
}

// claim implements [line.Ways] Claim. Repeating it is safe: what has been done makes it
// fail.
func (p *Lock) claim(r *line.Recipe, requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	p.tried = prefixOf(node)
	if again {
		p.doubt = node
	}
	doubted := p.doubt == node
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	try := func() {
		requests.Multi(p.claimOps(node, seen.version, seen.readers), func(results []session.OpResult, err error) {
			switch {
			case err == nil:
				zxid := p.hold(node, results)
				answer(zxid, false, nil)
			case doubted && !session.Passing(err):
				p.find(requests, node, func(zxid int64, missing error) {
					if missing != nil {
						err = missing
					}
					answer(zxid, false, unless(zxid != 0, err))
				})
			default:
				answer(0, false, err)
			}
		})
	}
	if !isReader(node) || seen.readers {
		try()
		return
	}
	line.MakeContainer(requests, p.readers(), "", func(err error) {
		if err != nil && !errors.Is(err, session.ErrNodeExists) && !errors.Is(err, session.ErrUnknownOutcome) {
			answer(0, false, err)
			return
		}
		try()
	})
}

func unless(fine bool, err error) error {
	if fine {
		return nil
	}
	return err
}

// prefixOf returns what all nodes of one attempt have in common.
func prefixOf(node string) string {
	return node[:len(session.GUIDName(strings.Repeat("0", len("00000000-0000-0000-0000-000000000000")), ""))]
}

func (p *Lock) claimOps(node string, version int32, readers bool) []session.Op {
	own := session.CheckOp(p.node(node), session.AnyVersion)
	if isReader(node) {
		mine := session.Join(p.readers(), node)
		return []session.Op{
			own, session.CheckOp(p.path, version),
			session.CreateOp(p.holder(), nil, session.Persistent), session.DeleteOp(p.holder(), session.AnyVersion),
			session.CreateOp(mine, nil, session.Ephemeral), session.SetOp(mine, nil, session.AnyVersion),
		}
	}
	ops := []session.Op{own, session.SetOp(p.path, []byte(marker+"\n"+node), version)}
	if !readers {
		ops = append(ops, session.CreateOp(p.readers(), nil, session.Persistent))
	}
	return append(ops, session.DeleteOp(p.readers(), session.AnyVersion), session.CreateOp(p.holder(), []byte(node), session.Ephemeral))
}

// hold keeps what a claim has done, and returns its zxid.
func (p *Lock) hold(node string, results []session.OpResult) (zxid int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.node = node
	for _, r := range results {
		if r.Stat != nil {
			zxid, p.held.version = r.Stat.Mzxid, r.Stat.Version
		}
	}
	return zxid
}

// find looks whether the node has claimed already; zxid is 0 if not.
func (p *Lock) find(requests client.Async, node string, answer func(zxid int64, err error)) {
	var version int32
	var failed error
	requests.Get(p.path, func(_ []byte, stat *session.Stat, err error) {
		if failed = err; err == nil {
			version = stat.Version
		}
	})
	requests.Get(p.claimed(nil, node), func(data []byte, stat *session.Stat, err error) {
		switch {
		case err != nil && !errors.Is(err, session.ErrNoNode):
			answer(0, err)
		case err == nil && failed == nil && (isReader(node) || string(data) == node):
			p.mu.Lock()
			p.held.node, p.held.version = node, version
			p.mu.Unlock()
			answer(stat.Czxid, nil)
		default:
			answer(0, nil)
		}
	})
}

// change implements [line.Ways] Change: the writer that holds becomes a reader that holds.
func (p *Lock) change(r *line.Recipe, requests client.Async, from, to string, answer func(error)) {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	mine := session.Join(p.readers(), to)
	line.MakeContainer(requests, p.readers(), "", func(error) { // it will be missed if it is missing
		r.Carry(requests, from, func(data []byte, version int32, written func()) {
			requests.Multi([]session.Op{
				session.DeleteOp(p.node(from), version), session.CheckOp(p.path, held.version),
				session.CreateOp(p.node(to), data, session.Ephemeral),
				session.DeleteOp(p.holder(), session.AnyVersion), session.CreateOp(mine, nil, session.Ephemeral),
			}, func(results []session.OpResult, err error) {
				switch {
				case errors.Is(err, session.ErrBadVersion) && len(results) > 0 && results[0].Err != nil:
					written()
					return
				case errors.Is(err, session.ErrBadVersion): // somebody has written to the path
					p.find(requests, from, func(zxid int64, missing error) {
						switch {
						case zxid != 0:
							p.change(r, requests, from, to, answer)
						case missing != nil:
							answer(missing)
						default:
							answer(session.ErrNoNode)
						}
					})
					return
				case err == nil:
					p.mu.Lock()
					p.held.node = to
					p.mu.Unlock()
				}
				answer(err)
			})
		}, answer)
	})
}

// withdraw implements [line.Ways] Withdraw.
func (p *Lock) withdraw(_ *line.Recipe, requests client.Async, node, prefix string, answer func()) {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	switch {
	case node == "":
		requests.Remove(session.Removal{Path: p.path, Prefix: prefix, Then: &session.Removal{
			Path: p.readers(), Prefix: prefix, Then: p.Unclaim(prefix),
		}}, func(error) { answer() })
	case prefixOf(node) != p.tried:
		requests.Withdraw(p.node(node), answer)
	case held.node != node:
		p.remove(requests, node, answer)
	default:
		ops := []session.Op{session.DeleteOp(p.node(node), session.AnyVersion), session.DeleteOp(p.claimed(nil, node), session.AnyVersion)}
		if !isReader(node) {
			ops = append([]session.Op{session.CheckOp(p.path, held.version)}, ops...)
		}
		requests.Multi(ops, func(_ []session.OpResult, err error) {
			if err == nil {
				answer()
				return
			}
			p.remove(requests, node, answer) // one after the other
		})
	}
}

// remove removes a contender, and then what it may have claimed: nobody can claim for it
// any more.
func (p *Lock) remove(requests client.Async, node string, answer func()) {
	requests.Remove(session.Removal{Path: p.node(node), Then: p.Unclaim(node)}, func(error) { answer() })
}

// Unclaim returns the removal of what is claimed by a contender whose name begins so. Of the
// holder, nobody else claims unless the version of the path has grown.
func (p *Lock) Unclaim(node string) *session.Removal {
	if isReader(node) {
		return &session.Removal{Path: p.claimed(nil, node)}
	}
	return &session.Removal{
		Path: p.holder(), Guard: p.path, Says: func(data []byte) bool { return strings.HasPrefix(string(data), node) },
	}
}

// asking is when a holder has been asked whose node is not marked yet.
const asking = math.MaxInt64

// ask implements [line.Ways] Ask.
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

// overdue is the key of a timer.
type overdue struct {
	attempt int
	node    string
}

// request returns since when a holder has been asked in the attempt. If it has not been, it is
// from now on.
func (p *Lock) request(attempt int, node string) (since time.Duration, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if attempt != p.asker || p.asked == nil { // it has asked for nothing, and hears of nobody's time
		p.asker, p.asked = attempt, make(map[string]time.Duration)
	}
	since, before = p.asked[node]
	if !before {
		p.asked[node] = asking
	}
	return since, before
}

// asks keeps since when a holder has been asked: who has gone long ago is not asked again. One
// that could not be asked may be later, and does not lose the lock.
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

// demand writes the mark of revocation, unless it is there. It is not marked if there is no node,
// or it may not be written.
func (p *Lock) demand(r *line.Recipe, requests client.Async, node string, answer func(marked bool)) {
	path := p.node(node)
	again := func(err error) { r.Owned().Answer(err, func() { p.demand(r, requests, node, answer) }) }
	requests.Get(path, func(data []byte, stat *session.Stat, err error) {
		own, marked, _ := mark.Split(data)
		switch {
		case session.Passing(err) && !session.Over(err):
			again(err)
		case err != nil || marked:
			answer(err == nil)
		default:
			requests.Set(path, mark.Published(own, p.opts.PreemptAfter), stat.Version, func(_ *session.Stat, err error) {
				if errors.Is(err, session.ErrBadVersion) || session.Passing(err) && !session.Over(err) {
					again(err)
					return
				}
				answer(err == nil)
			})
		}
	})
}

// Holders returns the names of the contenders who hold the lock.
func Holders(ctx context.Context, s *session.Session, path string) (map[string]bool, error) {
	all := make(map[string]bool)
	data, _, err := s.Get(ctx, session.Join(path, holderNode))
	if err == nil {
		all[string(data)] = true
	} else if !errors.Is(err, session.ErrNoNode) {
		return nil, err
	}
	readers, _, err := s.Children(ctx, session.Join(path, readersNode))
	for _, name := range readers {
		all[name] = true
	}
	return all, without(err, session.ErrNoNode)
}
