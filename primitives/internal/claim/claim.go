// Package claim is the protocol by which the first in line claims the lock or the leadership, and
// gives it up. Recipes need it where the first in line does not hold yet, because an operator or a
// priority may put another contender first. A [Spec] describes the claims of a recipe. The protocol
// is drawn in machine.go.
//
// Two claims never stand at once: the transaction of [Spec.Take] fails while another claim stands,
// unless its holder has handed it over. If the reply to a claim was lost, its evidence shows
// whether it was made.
package claim

import (
	"slices"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// A Keeper keeps the claim of one handle. Its contenders, one for each attempt, stand in line one
// after the other. It is safe for concurrent use.
type Keeper[S Spec[S]] struct {
	mu sync.Mutex
	// Of the newest contender; zero before Take, after GiveUp, and when another contender has it.
	claim Claim

	made  S      // the newest confirmed claim, as it was made; never cleared
	tried string // the prefix of the newest contender of Take; "" before

	taking string // the contender whose claim is under way; cleared by the answer
	then   func() // called when that has come; nil if nothing waits for it

	// Set to the contender of a claim of unknown outcome; never cleared, because no contender is
	// used again.
	doubt string
}

// Claim returns the present knowledge of the claim.
func (k *Keeper[S]) Claim() Claim {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claim
}

// Made returns the newest confirmed claim, as it was made or found; zero before the first.
func (k *Keeper[S]) Made() S {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made
}

// Wrote notes the version of the node that guards the claim of a contender.
func (k *Keeper[S]) Wrote(node string, version int32) {
	k.update(node, func(c *Claim) { c.Version = version })
}

// Exchanged notes that the contender to has replaced from, with its claim.
func (k *Keeper[S]) Exchanged(from, to string) {
	k.update(from, func(c *Claim) { c.Node = to })
}

// update changes the claim of a contender, unless that was given up, or a later contender claims.
func (k *Keeper[S]) update(node string, change func(*Claim)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.claim.Node == node {
		change(&k.claim)
	}
}

// Take claims on behalf of the contender. It answers with the zxid of the claim, or with taken if
// another contender has it. If again is set, an earlier claim may have been made: then Take reads
// its evidence first.
func (k *Keeper[S]) Take(requests client.Async, spec S, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	k.mu.Lock()
	k.claim, k.tried = Claim{Node: node}, Prefix(node)
	if again {
		k.doubt = node
	}
	m := takes(spec, k.doubt == node)
	k.taking = node
	k.mu.Unlock()
	run(requests, m, func(made S, v Verdict) {
		switch {
		case v.Taken:
			k.update(node, func(c *Claim) { *c = Claim{} })
		case v.Err == nil:
			k.update(node, func(c *Claim) { *c, k.made = Claim{node, true, v.Zxid, v.Version}, made })
		}
		answer(v.Zxid, v.Taken, v.Err)
		k.settle(node)
	})
}

// settle does what waits until no claim is under way for the contender.
func (k *Keeper[S]) settle(node string) {
	k.mu.Lock()
	var then func()
	if k.taking == node {
		then, k.taking, k.then = k.then, "", nil
	}
	k.mu.Unlock()
	if then != nil {
		then()
	}
}

// Settled calls then when no claim is under way for the contender, or for one with the prefix if
// node is "". A claim that is given up then is known to stand, or not.
func (k *Keeper[S]) Settled(node, prefix string, then func()) {
	k.mu.Lock()
	under := k.taking != "" && (k.taking == node || node == "" && Prefix(k.taking) == prefix)
	if under {
		k.then = then
	}
	k.mu.Unlock()
	if !under {
		then()
	}
}

// GiveUp removes a contender and its claim. If node is "", it removes all contenders with the
// prefix. The answer is that of the removal: see [session.Removal.Begin].
func (k *Keeper[S]) GiveUp(requests client.Async, spec S, node, prefix string, answer func(error)) {
	if node != "" {
		prefix = Prefix(node)
	}
	k.mu.Lock()
	c, claimed := Claim{Node: node}, k.tried == prefix
	if claimed && (node == "" || node == k.claim.Node) {
		c, k.claim = k.claim, Claim{}
	}
	k.mu.Unlock()
	run(requests, givesUp(spec, node, prefix, c, claimed), func(_ S, v Verdict) { answer(v.Err) })
}

// Find reads whether the claim of the spec's contender stands, once.
func Find[S Spec[S]](requests client.Async, spec S, answer func(Verdict)) {
	perform(requests, request{read: spec.Evidence()}, func(r reply) {
		_, v := spec.Judge(r.found)
		answer(v)
	})
}

// run performs the requests of the machine, one after the other, until its protocol is over. Then
// it calls finish with the spec as the answers have left it.
func run[S Spec[S]](requests client.Async, m machine[S], finish func(S, Verdict)) {
	perform(requests, m.ask(), func(r reply) {
		next, v := m.next(r)
		if v.Next == Over {
			finish(next.spec, v)
			return
		}
		run(requests, next, finish)
	})
}

// perform makes one request. The reads of one request go out together, and are answered together.
func perform(requests client.Async, r request, answer func(reply)) {
	switch {
	case r.remove != nil:
		requests.Remove(*r.remove, func(err error) { answer(reply{err: err}) })
	case r.ops != nil:
		requests.Multi(r.ops, func(results []session.OpResult, err error) { answer(replied(results, err)) })
	default:
		found := make([]Found, len(r.read))
		left := len(found)
		for i, path := range r.read {
			requests.Get(path, func(data []byte, stat *session.Stat, err error) {
				found[i] = Found{data, stat, err}
				if left--; left == 0 {
					answer(reply{found: found})
				}
			})
		}
	}
}

// replied returns the answer to a transaction: the first operation that was refused, or the Stat of
// the last operation that has one.
func replied(results []session.OpResult, err error) reply {
	r := reply{err: err, failed: Failed(results)}
	for _, done := range results {
		if done.Stat != nil {
			r.zxid, r.version = done.Stat.Mzxid, done.Stat.Version
		}
	}
	return r
}

// Failed returns the index of the operation that failed the transaction; -1 if none did.
func Failed(results []session.OpResult) int {
	return slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
}

// Prefix returns the beginning that the names of all contenders of one attempt share.
func Prefix(node string) string {
	return node[:min(len(node), len(znode.GUIDName(strings.Repeat("0", len("00000000-0000-0000-0000-000000000000")), "")))]
}
