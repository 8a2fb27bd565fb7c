package session

import (
	"net"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestSRV: only records of the smallest priority are used.
func TestSRV(t *testing.T) {
	got := serversIn([]*net.SRV{
		{Target: "zk1.example.com.", Port: 2181, Priority: 1, Weight: 9},
		{Target: "zk2.example.com.", Port: 2182, Priority: 1},
		{Target: "spare.example.com.", Port: 2181, Priority: 2},
	})
	if want := []string{"zk1.example.com:2181", "zk2.example.com:2182"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	check.Len(t, serversIn(nil), 0)
	check.Fails(checkServers(nil))(t, ErrInvalidArgument)
}
