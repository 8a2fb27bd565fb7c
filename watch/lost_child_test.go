package watch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestLostChild: a child is deleted and created again while the connection is lost. The list that
// has it may come before it is found that another node stands in its place.
func TestLostChild(t *testing.T) {
	t.Run("the list is read", func(t *testing.T) {
		kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
			gate, ops := w.OpenGated(replaceable), w.Open(replaceable)
			create(w.T, ops, "/t", "")
			create(w.T, ops, "/t/a", "")
			tree := check.Open(watch.Tree(gate.Session, "/t", &watch.TreeOptions{Depth: 1}))(w)
			<-tree.Synced()
			w.DropReply(zktest.Match{Op: zktest.OpGetChildren2, Session: gate.ID()})
			gate.Refuse()
			create(w.T, ops, "/t/b", "") // the list is read, and its reply is lost with the connection
			synctest.Wait()
			replace(w, ops, "/t/a")
			gate.Mend()
			kit.Pass(time.Minute)
			check.EqualSlices(w, tree.Children("/t"), []string{"a", "b"})
			newest(w, tree, ops, "/t/a")
		})
	})
	t.Run("watches are set again in several requests", func(t *testing.T) {
		kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
			const trees, n = 4, 500
			gate, ops := w.OpenGated(replaceable), w.Open(replaceable)
			var all []*watch.Cache
			child := func(i, j int) string { return fmt.Sprintf("/t%d/%s%d", i, strings.Repeat("x", 40), j) }
			for i := range trees {
				create(w.T, ops, fmt.Sprint("/t", i), "")
				for j := range n {
					create(w.T, ops, child(i, j), "")
				}
				all = append(all, check.Open(watch.Tree(gate.Session, fmt.Sprint("/t", i), &watch.TreeOptions{Depth: 1}))(w))
				<-all[i].Synced()
			}
			for round := range 3 {
				gate.Cut()
				for i := range trees {
					replace(w, ops, child(i, 7+round))
				}
				gate.Mend()
				kit.Pass(time.Minute)
				for i, tree := range all {
					check.Equal(w, len(tree.Children(fmt.Sprint("/t", i))), n)
					newest(w, tree, ops, child(i, 7+round))
				}
			}
		})
	})
}

var replaceable = session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}

func replace(w kit.World, s *session.Session, path string) {
	w.Helper()
	check.OK(w, s.Delete(w.Context(), path, session.AnyVersion))
	create(w.T, s, path, "")
}

// newest fails the test unless the tree has the node that the servers have.
func newest(w kit.World, tree *watch.Cache, s *session.Session, path string) {
	w.Helper()
	check.Equal(w, tree.Get(path).Stat.Czxid, check.Have(s.Exists(w.Context(), path))(w).Czxid, path)
}
