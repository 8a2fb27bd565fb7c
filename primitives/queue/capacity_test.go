package queue

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCapacity compares what fits by the capacity with the requests themselves.
func TestCapacity(t *testing.T) {
	const limit = 4 << 10
	s := kit.Open(t, zktest.Start(t).Addrs(), &session.Options{MaxRequest: limit})
	b := check.Have(newBase(s, "/queue", Options{}))(t)
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := b.desk.Producing(0)
			fit := 0 // bytes
			for bytes := limit / 4; bytes < limit; bytes += hasten.Sized(1, 5) {
				p.Items = nil
				for i := range n {
					p.Items = append(p.Items, filing.Item{ID: b.receipts.NewID(), Data: make([]byte, (bytes+i)/n)})
				}
				exact := b.at.Session.Fits(append(p.LongestOps(), b.receipts.Longest())...)
				err := b.desk.FitTogether(p)
				check.Require(t, (err == nil) == (exact == nil), "%d bytes: %v, want %v", bytes, err, exact)
				if exact == nil {
					fit = bytes
				}
				if n > 1 {
					continue
				}
				exact = b.at.Session.Fits(b.longestClaim(&b.at, p.Items[0])...)
				for _, ops := range b.longestMoves(p.Items[0]) {
					exact = errors.Join(exact, b.at.Session.Fits(ops...))
				}
				err = b.fits(p.Items[0])
				check.Require(t, (err == nil) == (exact == nil), "claim of %d bytes: %v, want %v", bytes, err, exact)
			}
			check.Within(t, b.desk.Capacity().Put-(n-1)*b.desk.Capacity().Item, fit*85/100, fit, "bytes by the capacity")
		})
	}
}
