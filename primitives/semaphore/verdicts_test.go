package semaphore

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// TestNumberVerdicts: what a lease concludes from the answers about its number, and what it
// removes.
func TestNumberVerdicts(t *testing.T) {
	const own, other = "_c_g-lease-0000000002", "_c_h-lease-0000000001"
	n := number{path: "/p", node: own, n: 3}
	for _, row := range []struct {
		op   int
		err  error
		want claim.Verdict
	}{
		{0, session.ErrNoNode, claim.Verdict{Err: session.ErrNoNode}}, // its own node
		{1, session.ErrBadVersion, claim.Verdict{Err: session.ErrBadVersion}},
		{2, session.ErrNodeExists, claim.Verdict{Taken: true}},
		{2, session.ErrNoNode, claim.Verdict{Err: errNoNumbers}},
		{2, session.ErrNoAuth, claim.Verdict{Err: session.ErrNoAuth}},
	} {
		_, got := n.Refused(row.op, row.err)
		check.Equal(t, got, row.want, row.op, row.err)
	}
	for _, row := range []struct {
		found claim.Found
		want  claim.Verdict
	}{
		{claim.Found{Data: []byte(own), Stat: &session.Stat{Czxid: 7, Version: 1}}, claim.Verdict{Zxid: 7, Version: 1}},
		{claim.Found{Data: []byte(other), Stat: &session.Stat{Czxid: 7, Version: 1}}, claim.Verdict{Taken: true}},
		{claim.Found{Err: session.ErrNoNode}, claim.Verdict{Next: claim.Take}},
		{claim.Found{Err: session.ErrDisconnected}, claim.Verdict{Next: claim.Look}},
		{claim.Found{Err: session.ErrNoAuth}, claim.Verdict{Err: session.ErrNoAuth}},
	} {
		_, got := n.Judge([]claim.Found{row.found})
		check.Equal(t, got, row.want, string(row.found.Data), row.found.Err)
	}
	one := n.Remove(own, "_c_g-", claim.Claim{}, true)
	check.True(t, one.Path == "/p/leases/"+own && one.Prefix == "", "%+v", one)
	check.True(t, one.Then.Path == "/p/numbers/3" && one.Then.Says([]byte(own)), "%+v", one.Then)
	check.False(t, one.Then.Says([]byte(other)) || one.Then.Says([]byte("_c_g-lease-0000000009")), "the number of another node goes")
	all := n.Remove("", "_c_g-", claim.Claim{}, true)
	check.True(t, all.Path == "/p/leases" && all.Prefix == "_c_g-", "%+v", all)
	check.True(t, all.Then.Says([]byte(own)) && !all.Then.Says([]byte(other)), "%+v", all.Then)
	n.n = noNumber
	check.True(t, n.Remove(own, "_c_g-", claim.Claim{}, true).Then == nil, "it has chosen no number")
}

// TestReadCondition: the children of the path are listed where there is more than the line.
func TestReadCondition(t *testing.T) {
	for _, row := range []struct {
		child    string
		requests int
		want     error
	}{
		{"", 1, nil},
		{"numbers", 2, nil},
		{"locks", 2, ErrLayout}, // Curator's
	} {
		all := []zkmodel.Node{{Path: "/p", Data: "3 unit", Mzxid: 4}, {Path: "/p/leases"}}
		if row.child != "" {
			all = append(all, zkmodel.Node{Path: "/p/" + row.child})
		}
		w := zkmodel.New(zkmodel.Faults{}, 1, all...)
		s := &store{path: "/p", rule: admission{Limit: 3, Weight: 1}}
		answers := 0
		s.Read(w.Sessions[0].Async(0), func(data string, err error) {
			answers++
			check.Equal(t, data, "3 unit@4", row.child)
			check.Is(t, err, row.want, row.child)
		})
		for n := range row.requests {
			check.Equal(t, answers, 0, row.child, "after", n)
			w.Apply(zkmodel.Action{Kind: "serve"})
		}
		check.Equal(t, answers, 1, row.child)
	}
}
