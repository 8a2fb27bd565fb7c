package lock_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// scene returns a session to which things happen, another that is not disturbed, and a path of
// their own, which ends as it is told.
func scene(t *testing.T, c *kit.Stage, end string) (s, other *session.Session, path string) {
	t.Helper()
	s, other = c.Open(t), c.OpenDirect(t)
	return s, other, fmt.Sprintf("/%x%s", s.ID(), end)
}

// count counts operations.
func count(ops []zktest.Op) zktest.Counts {
	c := make(zktest.Counts)
	for _, op := range ops {
		c[op]++
	}
	return c
}

// join stands in line.
func join(tb testing.TB, s *session.Session, path string, opts *lock.Options) *lock.Lock {
	tb.Helper()
	return check.Open(lock.New(s, path, opts))(tb)
}

func acquire(tb testing.TB, s *session.Session, path string) *lock.Lock {
	tb.Helper()
	return check.Open(lock.Acquire(check.Patient(tb), s, path, nil))(tb)
}

func release(tb testing.TB, l *lock.Lock) {
	tb.Helper()
	check.OK(tb, l.Release(check.Patient(tb)))
}

// awaitLine waits until n contenders stand in line.
func awaitLine(tb testing.TB, s *session.Session, path string, n int) []lock.Contender {
	tb.Helper()
	ctx := check.Patient(tb)
	var line []lock.Contender
	for {
		err := s.Sync(ctx, path)
		if err == nil {
			var now []lock.Contender
			if now, err = lock.Contenders(ctx, s, path, nil); err == nil {
				line = now
			}
		}
		check.Must(tb, err, "waiting for", n, "contenders; there are", line)
		if len(line) == n {
			return line
		}
	}
}

// releaseInTurn expects a grant to each of a line, after the one with the token, and releases it.
func releaseInTurn(tb testing.TB, token int64, line []lock.Contender, granted <-chan *lock.Lock) {
	tb.Helper()
	for _, contender := range line {
		l := <-granted
		check.True(tb, l.Node() == contender.Node && l.Token() > token, "%s got it with token %d, after %d; it was the turn of %s", l.Node(), l.Token(), token, contender.Node)
		token = l.Token()
		release(tb, l)
	}
}

// awaitEmpty waits until there are no children of path, whose session lives.
func awaitEmpty(t *testing.T, s *session.Session, path string) {
	t.Helper()
	ctx := check.Patient(t)
	for {
		names := kit.Children(t, s, path)
		if len(names) == 0 {
			return
		}
		for _, name := range names {
			check.Must(t, watch.UntilGone(ctx, s, znode.Join(path, name)), "there is still", name)
		}
	}
}

// number returns the sequence number of a node.
func number(tb testing.TB, node string) int {
	tb.Helper()
	return check.Have(strconv.Atoi(node[strings.LastIndexByte(node, '-')+1:]))(tb)
}

// sum adds up what the servers say of themselves.
func sum(tb testing.TB, ens *zktest.Ensemble, keys ...string) map[string]int {
	tb.Helper()
	total := make(map[string]int)
	for i := range ens.Size() {
		mntr := ens.Mntr(i)
		for _, key := range keys {
			if mntr[key] == "" {
				continue
			}
			n, err := strconv.ParseFloat(mntr[key], 64)
			check.Must(tb, err, key)
			total[key] += int(n)
		}
	}
	return total
}
