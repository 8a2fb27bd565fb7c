package semaphore

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has the numbers of leases. A lease for which there is room claims the smallest free
// number before it is granted, by one transaction:
//
//	check(own) check(<path>) create(<path>/numbers/<number>)
//
// The limit may have changed since it was let in: so the line is read once more, and the record of
// the limit is checked. The node is ephemeral, and its data is the name of the lease's node. No two
// leases have a number at once, because the server creates a node once. A release deletes both in
// one transaction. Where that is refused, or in doubt, the lease's node goes first, as no late
// claim succeeds after that.
//
// There is a free number below the limit for each lease that there is room for, unless the node of
// a lease is gone and the node of its number is not: then the next lease waits until the number's
// node is gone, too. Leases that were granted under a greater limit keep their numbers.

// numbersOf returns the directory of the numbers, a container.
func numbersOf(path string) string { return znode.Join(path, "numbers") }

// noNumber is the number of a lease that has none.
const noNumber = -1

// errNoNumbers means that there is no directory of numbers.
var errNoNumbers = errors.New("there is no directory of numbers")

// numbers has the number of one handle. It is the claim of its recipe.
type numbers struct {
	path   string
	rule   line.Rule // of its lease
	limit  int       // that its user expects
	claims claim.Keeper[number]

	mu      sync.Mutex
	tried   number // of the newest contender
	blocked string // the node that has to go first; "" if none was found
	left    string // the contender that was withdrawn last, or the prefix of several: it claims nothing more
}

// none returns the claim of a contender that has chosen no number.
func (n *numbers) none(node string) number { return number{path: n.path, node: node, n: noNumber} }

// number returns the number of the newest contender that has claimed one.
func (n *numbers) number() int { return n.claims.Made().n }

// Take implements [contender.Claim].
func (n *numbers) Take(requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	n.mu.Lock()
	tried := n.tried
	n.mu.Unlock()
	if again && tried.node == node && tried.n != noNumber { // the same, as it may be ours
		n.take(requests, tried, true, answer)
		return
	}
	n.choose(requests, n.none(node), answer)
}

// choose claims the smallest free number, if there still is room for the lease.
func (n *numbers) choose(requests client.Async, of number, answer func(zxid int64, taken bool, err error)) {
	if !n.note(of, "") {
		answer(0, false, session.ErrNoNode)
		return
	}
	var now line.Snapshot
	var failed error
	limit := n.limit
	requests.Get(n.path, func(data []byte, stat *session.Stat, err error) {
		if failed = err; err == nil {
			now.Data, of.record = conditionOf(data, stat), stat.Version
			if r, err := parseRecord(string(data)); err == nil {
				limit = max(limit, r.Limit)
			}
		}
	})
	requests.Children(leasesOf(n.path), func(names []string, _ *session.Stat, err error) {
		now.Names, failed = names, cmp.Or(failed, err)
	})
	requests.Children(numbersOf(n.path), func(names []string, _ *session.Stat, err error) {
		if failed = cmp.Or(failed, client.Without(err, session.ErrNoNode)); failed != nil {
			answer(0, false, failed)
			return
		}
		if p := n.rule.Locate(now, of.node, guidOf(of.node)); !p.Present || p.Ahead > 0 || p.Invalid || p.Err != nil {
			answer(0, false, session.ErrBadVersion) // and the line is listed
			return
		}
		used := make(map[string]bool, len(names))
		for _, name := range names {
			used[name] = true
		}
		for of.n = 0; used[strconv.Itoa(of.n)]; of.n++ {
		}
		if of.n < limit {
			n.take(requests, of, false, answer)
			return
		}
		n.block(requests, names, now.Names, of.node, answer)
	})
}

// guidOf returns the GUID in the name of a lease's node.
func guidOf(node string) string {
	return strings.TrimSuffix(strings.TrimPrefix(claim.Prefix(node), "_c_"), "-")
}

// take claims a number. If another lease was faster, it chooses anew.
func (n *numbers) take(requests client.Async, of number, again bool, answer func(zxid int64, taken bool, err error)) {
	if !n.note(of, "") {
		answer(0, false, session.ErrNoNode)
		return
	}
	n.claims.Take(requests, of, of.node, again, func(zxid int64, taken bool, err error) {
		switch {
		case taken:
			n.choose(requests, of, answer)
		case errors.Is(err, errNoNumbers):
			client.MakeContainer(requests, numbersOf(n.path), "", func(err error) {
				if err = client.Without(err, session.ErrNodeExists); err != nil {
					answer(0, false, err)
					return
				}
				n.take(requests, of, false, answer)
			})
		default:
			answer(zxid, false, err)
		}
	})
}

// block finds the number of a lease whose node is gone, and answers that it has to go first.
func (n *numbers) block(requests client.Async, names, leases []string, node string, answer func(zxid int64, taken bool, err error)) {
	first := names[0]
	left := len(names)
	for _, name := range names {
		requests.Get(znode.Join(numbersOf(n.path), name), func(owner []byte, _ *session.Stat, err error) {
			if err != nil || !slices.Contains(leases, string(owner)) {
				first = name
			}
			if left--; left == 0 {
				n.note(n.none(node), znode.Join(numbersOf(n.path), first))
				answer(0, true, nil)
			}
		})
	}
}

// note notes what is tried, unless the contender was withdrawn. A withdrawal that comes later knows
// of it.
func (n *numbers) note(tried number, blocked string) (stays bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isLeft(tried) {
		return false
	}
	n.tried, n.blocked = tried, blocked
	return true
}

// Claimed implements [contender.Claim].
func (n *numbers) Claimed(node string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blocked != "" {
		return n.blocked
	}
	return n.tried.at()
}

// Withdraw implements [contender.Claim].
func (n *numbers) Withdraw(requests client.Async, node, prefix string, answer func(error)) {
	n.mu.Lock()
	n.left = cmp.Or(node, prefix)
	of := n.tried
	if !n.isLeft(of) { // another node of the same attempt, after a lost reply
		of = n.none(node)
	}
	n.mu.Unlock()
	n.claims.GiveUp(requests, of, node, prefix, answer)
}

// isLeft reports whether the contender was withdrawn last. The caller has locked mu.
func (n *numbers) isLeft(of number) bool {
	return of.node != "" && (n.left == of.node || n.left == claim.Prefix(of.node))
}

// A number is the claim of a lease, a [claim.Spec]. It is comparable.
type number struct {
	path   string // of the semaphore
	node   string // the name of the lease's node
	n      int
	record int32 // the version of the record of the limit
}

// at returns the path of the number's node.
func (n number) at() string { return znode.Join(numbersOf(n.path), strconv.Itoa(n.n)) }

// Take implements [claim.Spec]. The write comes last: its Stat has the zxid.
func (n number) Take() []session.Op {
	return []session.Op{
		session.CheckOp(znode.Join(leasesOf(n.path), n.node), session.AnyVersion),
		session.CheckOp(n.path, n.record),
		session.CreateOp(n.at(), []byte(n.node), session.Ephemeral),
		session.SetOp(n.at(), []byte(n.node), 0),
	}
}

// Refused implements [claim.Spec].
func (n number) Refused(op int, err error) (number, claim.Verdict) {
	switch {
	case op == 2 && errors.Is(err, session.ErrNodeExists):
		return n, claim.Verdict{Taken: true}
	case op == 2 && errors.Is(err, session.ErrNoNode):
		return n, claim.Verdict{Err: errNoNumbers}
	}
	return n, claim.Verdict{Err: err}
}

// Evidence implements [claim.Spec].
func (n number) Evidence() []string { return []string{n.at()} }

// Judge implements [claim.Spec].
func (n number) Judge(found []claim.Found) (number, claim.Verdict) {
	f := found[0]
	switch {
	case errors.Is(f.Err, session.ErrNoNode):
		return n, claim.Verdict{Next: claim.Take}
	case errors.Is(f.Err, session.ErrDisconnected): // the read is repeated
		return n, claim.Verdict{Next: claim.Look}
	case f.Err != nil:
		return n, claim.Verdict{Err: f.Err}
	case string(f.Data) == n.node:
		return n, claim.Verdict{Zxid: f.Stat.Czxid, Version: f.Stat.Version}
	}
	return n, claim.Verdict{Taken: true}
}

// Resign implements [claim.Spec].
func (n number) Resign(c claim.Claim) []session.Op {
	return []session.Op{
		session.DeleteOp(znode.Join(leasesOf(n.path), c.Node), session.AnyVersion),
		session.DeleteOp(n.at(), c.Version),
	}
}

// Remove implements [claim.Spec].
func (n number) Remove(node, prefix string, _ claim.Claim, _ bool) session.Removal {
	r := session.Removal{Path: leasesOf(n.path), Prefix: prefix}
	if node != "" {
		r = session.Removal{Path: znode.Join(leasesOf(n.path), node)}
	}
	if n.n != noNumber {
		r.Then = &session.Removal{Path: n.at(), Says: func(data []byte) bool {
			return string(data) == node || node == "" && strings.HasPrefix(string(data), prefix)
		}}
	}
	return r
}
