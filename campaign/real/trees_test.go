package real

import (
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestDivergence: servers of one ensemble have the same nodes; those of two have not.
func TestDivergence(t *testing.T) {
	e := zktest.StartEnsemble(t, 1)
	other := zktest.StartEnsemble(t, 1)
	s := check.Open(operate(t.Context(), e.Addrs()))(t)
	check.Have(s.Create(t.Context(), "/a", nil, session.Persistent))(t)
	check.Have(s.Create(t.Context(), "/a/e", nil, session.Ephemeral))(t)
	same := check.Have(divergence(t.Context(), append(e.Addrs(), e.Addrs()...)))(t)
	check.Equal(t, same, "")
	differs := check.Have(divergence(t.Context(), append(e.Addrs(), other.Addrs()...)))(t)
	check.True(t, strings.HasPrefix(differs, "server 0 has /a of zxid 0x"), "%q", differs)
}

// TestDifference: a node that was created again is another.
func TestDifference(t *testing.T) {
	a, b := map[string]int64{"/": 0, "/a": 5}, map[string]int64{"/": 0, "/a": 7}
	check.Equal(t, difference([]map[string]int64{a, a}), "")
	check.Equal(t, difference([]map[string]int64{a, b}), "server 0 has /a of zxid 0x5, and server 1 has not")
	check.Equal(t, difference([]map[string]int64{{"/": 0}, a}), "server 1 has /a of zxid 0x5, and server 0 has not")
}
