package zktest

import (
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// A user is a test that uses shared ensembles.
type user struct {
	testing.TB
	name   string
	failed bool
	end    func()
}

func (u *user) Name() string     { return u.name }
func (u *user) Failed() bool     { return u.failed }
func (u *user) Cleanup(f func()) { u.end = f }

func TestEnsemblesAreShared(t *testing.T) {
	var story string
	started := 0
	all := ensembles{current: make(map[int]*sharedEnsemble)}
	// uses has a test ask for an ensemble of n servers.
	uses := func(name string, n int) *user {
		u := &user{TB: t, name: name}
		e := all.use(u, n, func() *Ensemble {
			started++
			id := started
			return &Ensemble{dir: fmt.Sprint(id), close: func() { story += fmt.Sprintf("(%d ends) ", id) }}
		})
		check.True(t, e.tb == u, "it fails another test")
		e.Close()
		story += name + e.dir + " "
		return u
	}
	a, b := uses("a", 3), uses("b", 3)
	a.end()
	b.end()
	uses("one", 1).end()
	// The tests run again, as with -count, and one fails while another still uses the servers.
	a, b = uses("a", 3), uses("b", 3)
	a.failed = true
	a.end()
	c := uses("c", 3)
	b.end()
	c.failed = true
	c.end()
	all.close()
	check.Equal(t, story, "a1 b1 one2 (1 ends) a3 b3 c4 (3 ends) (4 ends) (2 ends) ")
}

// TestRealSharedEnsemble: two tests find the same servers.
func TestRealSharedEnsemble(t *testing.T) {
	t.Parallel()
	var pids []int
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			e := SharedEnsemble(t, 1)
			pids = append(pids, e.Pid(0))
			e.Close()
			check.True(t, e.Pid(0) != 0 && e.Leader() == 0, "the servers have ended with a test")
		})
	}
	if len(pids) > 0 { // they may have been skipped
		check.Equal(t, pids[1], pids[0], "process of the second test's server")
	}
}
