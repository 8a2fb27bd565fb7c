package queue

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCapacity compares what fits by the capacity with the requests themselves.
func TestCapacity(t *testing.T) {
	const limit = 4 << 10
	s, err := session.Open(t.Context(), zktest.Start(t).Addrs(), &session.Options{MaxRequest: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := newBase(s, "/queue", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := b.desk.Producing(0)
			fit := 0 // bytes
			for bytes := 0; bytes < limit; bytes += hasten.Sized(1, 5) {
				p.Items = nil
				for i := range n {
					p.Items = append(p.Items, filing.Item{ID: b.receipts.NewID(), Data: make([]byte, (bytes+i)/n)})
				}
				exact := b.at.Session.Fits(append(p.LongestOps(), b.receipts.Longest())...)
				if err := b.desk.FitTogether(p); (err == nil) != (exact == nil) {
					t.Fatalf("%d bytes: %v, want %v", bytes, err, exact)
				}
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
				if err := b.fits(p.Items[0]); (err == nil) != (exact == nil) {
					t.Fatalf("claim of %d bytes: %v, want %v", bytes, err, exact)
				}
			}
			if known := b.desk.Capacity().Put - (n-1)*b.desk.Capacity().Item; known > fit || known < fit*85/100 {
				t.Errorf("%d bytes fit, %d by the capacity", fit, known)
			}
		})
	}
}
