package watch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestViewsAfterARestore: the servers come back with older data, and go on in another way, with the
// same numbers. Every view converges to what they have.
func TestViewsAfterARestore(t *testing.T) {
	for name, empty := range map[string]bool{"from a backup": false, "empty": true} {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			create(t, other, "/b", "backup")
			create(t, other, "/b/kept", "backup")
			backup := srv.Backup()
			if empty {
				backup = zktest.Backup{}
			}
			for i := range 20 {
				set(t, other, "/b", fmt.Sprint("old ", i))
				create(t, other, fmt.Sprint("/b/old", i), "")
			}
			set(t, other, "/b/kept", "old")
			node := check.Open(watch.Node(s, "/b", nil))(t)
			value := check.Open(watch.Value(s, "/b", watch.Text, nil))(t)
			children := check.Open(watch.Children(s, "/b", nil))(t)
			tree := check.Open(watch.Tree(s, "/b", nil))(t)
			calm()
			check.True(t, string(settled(t, node).Data) == "old 19" && tree.Len() == 22 && len(settled(t, children).Names) == 21, "before: %v", tree.Nodes())

			srv.Restore(backup)
			for range 5 { // the servers do not take the session back, which takes longer than its timeout
				calm()
			}
			if empty {
				state := settled(t, node)
				check.True(t, !state.Exists && tree.Len() == 0 && settled(t, children).Stat == nil, "the servers are empty: %v, %v", state, tree.Nodes())
				create(t, other, "/b", "backup")
				create(t, other, "/b/kept", "backup")
			}
			calm()
			check.True(t, string(settled(t, node).Data) == "backup" && settled(t, value).Value == "backup", "the backup is not told")
			check.True(t, slices.Equal(settled(t, children).Names, []string{"kept"}) && tree.Len() == 2, "the backup is not told: %v", tree.Nodes())
			for i := range 30 {
				set(t, other, "/b", fmt.Sprint("new ", i))
				calm()
				want := fmt.Sprint("new ", i)
				check.True(t, string(settled(t, node).Data) == want && settled(t, value).Value == want && string(tree.Get("/b").Data) == want, "not told: %q", want)
			}
			create(t, other, "/b/new", "")
			drop(t, other, "/b/kept")
			calm()
			check.True(t, slices.Equal(settled(t, children).Names, []string{"new"}), "not told")
			check.True(t, slices.Equal(tree.Children("/b"), []string{"new"}), "not told: %v", tree.Nodes())
		})
	}
}

// TestRealEmptiedServer: a real server comes back without its data, like a container without a
// volume.
func TestRealEmptiedServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync(), zktest.DataIn(dir), zktest.TickTime(500*time.Millisecond))
	ctx := check.Patient(t)
	writer := check.Open(session.Open(ctx, ens.Addrs(), &session.Options{Timeout: 30 * time.Second}))(t)
	create(t, writer, "/config", "")
	for i := range 200 {
		set(t, writer, "/config", fmt.Sprint("old ", i))
	}
	writer.Close()
	// The emptied server refuses the session until its deadline.
	s := check.Open(session.Open(ctx, ens.Addrs(), &session.Options{Timeout: 2 * time.Second}))(t)
	w := check.Open(watch.Node(s, "/config", nil))(t)
	before := <-w.Changes()
	check.True(t, string(before.Data) == "old 199", "%v", before)
	events := s.Events(ctx)

	ens.Kill(0)
	check.Must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "version-2" {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return filepath.SkipDir
	}))
	check.Must(t, ens.RestartContext(ctx, 0))
	other := check.Open(session.Open(ctx, ens.Addrs(), nil))(t)
	create(t, other, "/config", "new")
	for ev := range events {
		if c, ok := ev.(session.Connected); ok && c.Epoch > 1 {
			check.True(t, c.Past >= before.Stat.Mzxid, "%v: its past is %d, after %d", c, c.Past, before.Stat.Mzxid)
			break
		}
	}
	for state := range w.Changes() {
		if string(state.Data) == "new" {
			check.True(t, state.Stat.Mzxid < before.Stat.Mzxid, "history did not go back: %v after %v", state, before)
			return
		}
	}
	t.Errorf("the watch has ended: %v", w.Err())
}
