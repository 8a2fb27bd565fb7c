package inspect_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The holder loses the lock, and the next in line is granted it.
func TestBreak(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo, lock.Prioritized} {
		t.Run(layout.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				first := have[*lock.Lock](t)(lock.Acquire(t.Context(), all[0], "/l", opts("a", layout)))
				defer first.Close()
				second := have[*lock.Lock](t)(lock.New(all[1], "/l", opts("b", layout)))
				defer second.Close()
				synctest.Wait()
				holder := the(t, look(t, all[2], "/l")).Contenders[0]
				other := holder
				other.Czxid++
				check.Is(t, inspect.Break(t.Context(), all[2], other), inspect.ErrGone)
				check.Must(t, inspect.Break(t.Context(), all[2], holder))
				synctest.Wait()
				if err := first.Err(); !errors.Is(err, lock.ErrNodeDeleted) || second.Token() == 0 {
					t.Errorf("%v, then %d", err, second.Token())
				}
				check.Is(t, inspect.Break(t.Context(), all[2], holder), inspect.ErrGone)
			})
		})
	}
}

func TestBreakLeader(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for i, name := range []string{"a", "b"} {
			c := have[*election.Candidate](t)(election.New(all[i], "/e", &election.Options{Data: []byte(name)}))
			defer c.Close()
			synctest.Wait()
		}
		before := the(t, look(t, all[2], "/e"))
		check.Must(t, inspect.Break(t.Context(), all[2], before.Contenders[0]))
		synctest.Wait()
		after := the(t, look(t, all[2], "/e"))
		if after.Leader == nil || after.Leader.Identity != "b" || after.Leader.Term <= before.Leader.Term || brief(after) != "b lead holds; a lead" {
			t.Errorf("%+v: %s", after.Leader, brief(after))
		}
	})
}
