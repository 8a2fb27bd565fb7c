package semaphore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// nested is the rule of a lease that is requested in the context of other leases of the same
// semaphore. These are held until the new lease is over, so it must not wait for them.
type nested struct {
	admission
	within string // the names of the nodes of these leases, each with a slash behind it
}

// Locate implements [line.Rule]. Other leases are released some day, which makes room for the
// waiters ahead, one after the other, and then for this contender: unless the leases within leave
// too little room for one of these.
func (n nested) Locate(s line.Snapshot, own, guid string) line.Position {
	p := n.admission.Locate(s, own, guid)
	if p.Err != nil || !p.Present || p.Invalid || p.Ahead == 0 {
		return p
	}
	r, _, err := parseCondition(s.Data)
	if err != nil {
		return p
	}
	kept, sum := 0, 0
	all := sortLeases(s.Names)
	for _, c := range all[:slices.IndexFunc(all, func(c nodes.Contender) bool { return c.Name == own })+1] {
		if _, weight, _ := nodes.ParseLease(c.Name); strings.Contains("/"+n.within, "/"+c.Name+"/") {
			kept += weight
		}
	}
	for _, c := range all {
		_, weight, _ := nodes.ParseLease(c.Name)
		// By the names it has to wait, and with these leases it waits for ever.
		if sum += weight; sum > r.Limit && kept+weight > r.Limit {
			p.Err = fmt.Errorf("%w: %s is ahead, with a weight of %d beside %d of %d", ErrReentered, c.Name, weight, kept, r.Limit)
			if c.Name == own {
				p.Err = fmt.Errorf("%w: %d beside %d of %d", ErrReentered, weight, kept, r.Limit)
			}
			return p
		}
		if c.Name == own {
			return p
		}
	}
	return p
}
