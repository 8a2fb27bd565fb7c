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

// withoutTakersClaim leaves out that a taker creates and deletes a claim.
func withoutTakersClaim(ops []session.Op) []session.Op {
	const claim = 1 // behind the receipt
	if len(ops) == claim+3 && strings.HasPrefix(ops[claim].Path(), modelQueue+"/"+layout.ClaimsDir) && ops[claim].Path() == ops[claim+1].Path() {
		nothing := session.CheckOp("/", session.AnyVersion)
		return []session.Op{ops[0], nothing, nothing, ops[claim+2]}
	}
	return ops
}

// atAnyVersion has takers delete an item that was never claimed whatever its version is.
func atAnyVersion(ops []session.Op) []session.Op {
	if len(ops) == 2 && strings.HasPrefix(ops[1].Path(), modelQueue+"/"+layout.ItemsDir+"/") {
		return []session.Op{ops[0], session.DeleteOp(ops[1].Path(), session.AnyVersion)}
	}
	return ops
}

// unbounded leaves out that a producer of a bounded queue writes to the directory of the receipts.
func unbounded(ops []session.Op) []session.Op {
	ops = slices.Clone(ops)
	for i, o := range ops {
		if o.Path() == modelQueue+"/"+layout.ReceiptsDir {
			ops[i] = session.CheckOp("/", session.AnyVersion)
		}
	}
	return ops
}

// undying leaves out that a dead letter which is put again is deleted.
func undying(ops []session.Op) []session.Op {
	ops = slices.Clone(ops)
	for i, o := range ops {
		if _, name := znode.Split(o.Path()); layout.ParseItem(name) && strings.HasPrefix(o.Path(), modelDead+"/") {
			ops[i] = session.CheckOp("/", session.AnyVersion)
		}
	}
	return ops
}

// doubled leaves out that an item is deleted that moves.
func doubled(ops []session.Op) []session.Op {
	const claim = 1 // behind the receipt
	if len(ops) < claim+4 || !strings.HasPrefix(ops[claim].Path(), modelQueue+"/"+layout.ClaimsDir) || !strings.HasPrefix(ops[claim+1].Path(), modelQueue+"/"+layout.ItemsDir) {
		return ops
	}
	ops = slices.Clone(ops)
	if ops[claim+2].Path() != ops[claim].Path() {
		ops[claim+1] = session.CheckOp("/", session.AnyVersion)
	}
	return ops
}

// ownOps leaves out the operations of a reader.
func ownOps(ops []session.Op) []session.Op {
	ops = slices.Clone(ops)
	for i, o := range ops {
		if strings.HasPrefix(o.Path(), doneNode("")) {
			ops[i] = session.CheckOp("/", session.AnyVersion)
		}
	}
	return ops
}

// TestMutants: each part of the protocols is needed. Without it the model finds a violation soon.
func TestMutants(t *testing.T) {
	cut := zkmodel.Faults{Cuts: 1}
	for _, s := range []scene{
		{
			name: "no receipt: an item is put twice", producers: 1, puts: 1, faults: cut,
			mutant: without(modelQueue + "/" + layout.ReceiptsDir),
		},
		{
			name: "no look at the receipt after a lost reply", producers: 1, puts: 1, faults: cut,
			mutant: mutant{deny: true},
		},
		{
			name: "no look at the receipt after a lost reply of a taker", takers: 1, takes: 1, items: 1, faults: cut,
			mutant: mutant{deny: true},
		},
		{
			name: "no removal of a receipt in doubt", takers: 1, takes: 1, consumers: 1, prefetch: 1, items: 1,
			faults: zkmodel.Faults{Cuts: 1, Lates: 1}, mutant: mutant{voids: true},
		},
		{
			name: "takers remove in any session", producers: 1, puts: 2, takers: 1, takes: 1, layout: Curator,
			faults: zkmodel.Faults{Restores: 1}, mutant: mutant{roams: true},
		},
		{
			name: "takers do not look at claims", takers: 1, takes: 1, consumers: 1, prefetch: 1, items: 1,
			mutant: mutant{bend: withoutTakersClaim},
		},
		{
			name: "takers do not look at versions", takers: 1, takes: 1, consumers: 1, prefetch: 1, items: 1,
			mutant: mutant{bend: atAnyVersion},
		},
		{
			name: "acknowledgements check no claim", consumers: 2, prefetch: 1, items: 1, faults: zkmodel.Faults{Kills: 1},
			mutant: mutant{blind: true},
		},
		{
			name: "a rejected item is not deleted from where it was", consumers: 1, prefetch: 1, items: 1, delays: 1,
			mutant: mutant{bend: doubled},
		},
		{
			name: "an acknowledgement leaves out the operations of its reader", consumers: 1, prefetch: 1, items: 1, with: 1,
			mutant: mutant{bend: ownOps},
		},
		{
			name: "the claim of an item that an operator has deleted stays", consumers: 1, prefetch: 1, items: 1,
			faults: zkmodel.Faults{Strikes: 1}, mutant: mutant{keeps: modelQueue + "/" + layout.ClaimsDir},
		},
		{
			name: "producers do not write to the directory of the receipts", producers: 2, puts: 1, most: 1,
			mutant: mutant{bend: unbounded},
		},
		{
			name: "nobody reads of the line", producers: 3, puts: 3, most: 3, items: 3, takers: 1, takes: 6, waits: true,
			mutant: mutant{unaware: true},
		},
		{
			name: "a redriven letter is still dead", operators: 1, consumers: 1, prefetch: 1, items: 1, attempts: 1,
			mutant: mutant{bend: undying},
		},
		{
			name: "nobody leaves the line", producers: 1, puts: 2, takers: 2, takes: 1, waits: true,
			mutant: mutant{keeps: modelQueue},
		},
		{
			name: "the first in line is not woken", producers: 1, puts: 1, takers: 1, takes: 1, waits: true,
			mutant: mutant{deaf: true},
		},
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
