package queue

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// anything is an operation of a transaction that is left out.
var anything = session.CheckOp("/", session.AnyVersion)

// lacks returns a mutant whose transactions lack some operations: those whose indices and paths are
// out.
func lacks(out func(ops []session.Op, i int) bool) mutant {
	return mutant{bend: func(ops []session.Op) []session.Op {
		bent := slices.Clone(ops)
		for i := range ops {
			if out(ops, i) {
				bent[i] = anything
			}
		}
		return bent
	}}
}

// A transaction has these operations behind that of the receipt.
const behindReceipt = 1

func isClaim(o session.Op) bool { return strings.HasPrefix(o.Path(), modelQueue+"/"+layout.ClaimsDir) }

func isItem(o session.Op) bool {
	return strings.HasPrefix(o.Path(), modelQueue+"/"+layout.ItemsDir+"/")
}

// takersClaim is what a taker does with a claim: it creates and deletes one.
func takersClaim(ops []session.Op, i int) bool {
	const claim = behindReceipt
	return len(ops) == claim+3 && isClaim(ops[claim]) && ops[claim].Path() == ops[claim+1].Path() && (i == claim || i == claim+1)
}

// atAnyVersion has takers delete an item that was never claimed whatever its version is.
func atAnyVersion(ops []session.Op) []session.Op {
	if len(ops) == 2 && isItem(ops[1]) {
		return []session.Op{ops[0], session.DeleteOp(ops[1].Path(), session.AnyVersion)}
	}
	return ops
}

// writesTally is what a producer of a bounded queue writes to the directory of the receipts.
func writesTally(ops []session.Op, i int) bool {
	return ops[i].Path() == modelQueue+"/"+layout.ReceiptsDir
}

// diesNoMore is the deletion of a dead letter that is put again.
func diesNoMore(ops []session.Op, i int) bool {
	_, name := znode.Split(ops[i].Path())
	return layout.ParseItem(name) && strings.HasPrefix(ops[i].Path(), modelDead+"/")
}

// moves is the deletion of an item that moves.
func moves(ops []session.Op, i int) bool {
	const claim = behindReceipt
	return i == claim+1 && len(ops) >= claim+4 && isClaim(ops[claim]) && isItem(ops[i]) && ops[i+1].Path() != ops[claim].Path()
}

// ofReader are the operations of a reader.
func ofReader(ops []session.Op, i int) bool { return strings.HasPrefix(ops[i].Path(), doneNode("")) }

// below are operations on a node, and on those below it.
func below(path string) func(ops []session.Op, i int) bool {
	return func(ops []session.Op, i int) bool {
		return ops[i].Path() == path || strings.HasPrefix(ops[i].Path(), path+"/")
	}
}

// TestMutants: each part of the protocols is needed. Without it the model finds a violation soon.
func TestMutants(t *testing.T) {
	cut := zkmodel.Faults{Cuts: 1}
	for _, s := range []scene{
		{name: "no receipt: an item is put twice", producers: 1, puts: 1, faults: cut, mutant: lacks(below(modelQueue + "/" + layout.ReceiptsDir))},
		{name: "no look at the receipt after a lost reply", producers: 1, puts: 1, faults: cut, mutant: mutant{deny: true}},
		{name: "no look at the receipt after a lost reply of a taker", takers: 1, takes: 1, items: 1, faults: cut, mutant: mutant{deny: true}},
		{name: "no removal of a receipt in doubt", takers: 1, takes: 1, consumers: 1, prefetch: 1, items: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1}, mutant: mutant{voids: true}},
		{name: "takers remove in any session", producers: 1, puts: 2, takers: 1, takes: 1, layout: Curator, faults: zkmodel.Faults{Restores: 1}, mutant: mutant{roams: true}},
		{name: "takers do not look at claims", takers: 1, takes: 1, consumers: 1, prefetch: 1, items: 1, mutant: lacks(takersClaim)},
		{name: "takers do not look at versions", takers: 1, takes: 1, consumers: 1, prefetch: 1, items: 1, mutant: mutant{bend: atAnyVersion}},
		{name: "acknowledgements check no claim", consumers: 2, prefetch: 1, items: 1, faults: zkmodel.Faults{Kills: 1}, mutant: mutant{blind: true}},
		{name: "a rejected item is not deleted from where it was", consumers: 1, prefetch: 1, items: 1, delays: 1, mutant: lacks(moves)},
		{name: "an acknowledgement leaves out the operations of its reader", consumers: 1, prefetch: 1, items: 1, with: 1, mutant: lacks(ofReader)},
		{name: "the claim of an item that an operator has deleted stays", consumers: 1, prefetch: 1, items: 1, faults: zkmodel.Faults{Strikes: 1}, mutant: mutant{keeps: modelQueue + "/" + layout.ClaimsDir}},
		{name: "producers do not write to the directory of the receipts", producers: 2, puts: 1, most: 1, mutant: lacks(writesTally)},
		{name: "producers do not read of the line", producers: 3, puts: 3, most: 3, items: 3, takers: 1, takes: 6, waits: true, mutant: mutant{unaware: true}},
		{name: "a redriven letter is still dead", operators: 1, consumers: 1, prefetch: 1, items: 1, attempts: 1, mutant: lacks(diesNoMore)},
		{name: "waiters stay in line", producers: 1, puts: 2, takers: 2, takes: 1, waits: true, mutant: mutant{keeps: modelQueue}},
		{name: "the first in line is not woken", producers: 1, puts: 1, takers: 1, takes: 1, waits: true, mutant: mutant{deaf: true}},
	} {
		t.Run(s.name, func(t *testing.T) {
			asker := newAsker(t)
			const walks = 20_000
			for seed := range uint64(walks) {
				random := rand.New(rand.NewPCG(seed, 1))
				if _, err := exploration.Walk[zkmodel.Action](newModel(&s, false, asker), random.IntN); err != nil {
					t.Logf("mutant %q is found in %d walks: %v", s.name, seed+1, err)
					return
				}
			}
			t.Errorf("nothing is wrong in %d walks", walks)
		})
	}
}
