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

	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
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

	claims claim.Keeper[bid]

	mu    sync.Mutex
	asked map[string]time.Duration // since when, by the age of the session; asking, if that is under way
	asker int                      // for which attempt
	seen  seen
}

// seen is what was read of the line when the contenders were listed.
type seen struct {
	version int32 // of the path
	readers bool  // there is a node for them
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
			Plain: true, Inspect: p.inspect, Make: p.make, Beside: p.beside, Claim: p.take, Claimed: p.claimed,
			Change: p.change, Ask: p.ask, Withdraw: p.withdraw, Marked: mark.Split,
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
			case err == nil && IsPriority(data):
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

// IsPriority reports whether the data of a path are those of a lock with priorities.
func IsPriority(data []byte) bool {
	first, _, _ := strings.Cut(string(data), "\n")
	return first == marker
}

// mayBePriority reports whether they may be, by their length.
func mayBePriority(length int) bool {
	const named = len(marker) + len("\n_c_00000000-0000-0000-0000-000000000000-p0000-write-0000000000")
	return length == len(marker) || length >= named
}

func checkMark(data []byte) error {
	if !IsPriority(data) {
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
	client.MakeContainer(requests, p.path, marker, func(err error) {
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
	requests.Get(session.Join(p.path, holderNode), func(d []byte, _ *session.Stat, err error) {
		if sight.Holder = string(d); err == nil && len(d) == 0 {
			sight.Holder = holderNode // made by nobody that we know
		}
		if failed == nil {
			failed = without(err, session.ErrNoNode)
		}
	})
	requests.Children(session.Join(p.path, readersNode), func(names []string, _ *session.Stat, err error) {
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
		p.seen = seen{version, err == nil}
		p.mu.Unlock()
		answer(sight.String(), failed)
	})
}

// bid returns the claim of a contender by what was seen last.
func (p *Lock) bid(node string) bid {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bid{p.path, node, p.seen}
}

func (p *Lock) node(name string) string { return session.Join(p.path, name) }

// claimed returns the path of what the contender claims, or has claimed.
func (p *Lock) claimed(_ *line.Recipe, node string) string {
	return bid{path: p.path, node: node}.claimed()
}

// take implements [line.Ways] Claim. Repeating it is safe: what has been done makes it fail.
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

// change implements [line.Ways] Change: the writer that holds becomes a reader that holds.
func (p *Lock) change(r *line.Recipe, requests client.Async, from, to string, answer func(error)) {
	writer, reader := p.bid(from), p.bid(to)
	held := p.claims.Claim()
	client.MakeContainer(requests, reader.shared(), "", func(error) { // it will be missed if it is missing
		r.Carry(requests, from, func(data []byte, version int32, written func()) {
			requests.Multi([]session.Op{
				session.DeleteOp(p.node(from), version), session.CheckOp(p.path, held.Version),
				session.CreateOp(p.node(to), data, session.Ephemeral),
				session.DeleteOp(writer.claimed(), session.AnyVersion), session.CreateOp(reader.claimed(), nil, session.Ephemeral),
			}, func(results []session.OpResult, err error) {
				switch {
				case errors.Is(err, session.ErrBadVersion) && len(results) > 0 && results[0].Err != nil:
					written()
					return
				case errors.Is(err, session.ErrBadVersion): // somebody has written to the path
					claim.Find(requests, writer, func(v claim.Verdict) {
						switch {
						case v.Zxid != 0:
							p.claims.Wrote(from, v.Version)
							p.change(r, requests, from, to, answer)
						case v.Err != nil:
							answer(v.Err)
						default:
							answer(session.ErrNoNode)
						}
					})
					return
				case err == nil:
					p.claims.Exchanged(from, to)
				}
				answer(err)
			})
		}, answer)
	})
}

// withdraw implements [line.Ways] Withdraw.
func (p *Lock) withdraw(_ *line.Recipe, requests client.Async, node, prefix string, answer func()) {
	p.claims.GiveUp(requests, p.bid(node), node, prefix, answer)
}

// remove removes a contender of another handle, and then what it may have claimed.
func (p *Lock) remove(requests client.Async, node string, answer func()) {
	requests.Remove(p.bid(node).Remove(node, "", claim.Claim{}, true), func(error) { answer() })
}

// Unclaim returns the removal of what is claimed by a contender.
func (p *Lock) Unclaim(node string) *session.Removal { return p.bid(node).unclaim(node) }

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
