package session_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealGhosts: all servers lose their newest transactions, and with them the deletion of a node
// of a session that lives on. The session deletes the node again, and keeps another.
func TestRealGhosts(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3, zktest.NoSync())
	var log pages
	s := mustOpen(t, e.Addrs(), &session.Options{Timeout: 40 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	id := s.ID()
	for _, path := range []string{"/gone", "/stays", "/ends-the-backup"} {
		check.Have(s.Create(t.Context(), path, nil, session.Ephemeral))(t)
	}
	data := func(i int) string { return filepath.Join(filepath.Dir(e.Log(i)), "data", "version-2") }
	backup := t.TempDir()
	for i := range e.Size() {
		logged(t, e, i, "/ends-the-backup")
		check.Must(t, os.CopyFS(filepath.Join(backup, string(rune('0'+i))), os.DirFS(data(i))))
	}
	check.Must(t, s.Delete(t.Context(), "/gone", session.AnyVersion))
	for i := range e.Size() {
		e.Kill(i)
	}
	for i := range e.Size() {
		check.Must(t, os.RemoveAll(data(i)))
		check.Must(t, os.CopyFS(data(i), os.DirFS(filepath.Join(backup, string(rune('0'+i))))))
	}
	e.Restart(0, 1, 2)
	check.Must(t, s.Sync(t.Context(), "/")) // its answer has the reign
	check.Must(t, s.Sync(t.Context(), "/")) // and this one waits for the deletion
	check.True(t, s.ID() == id, "the session has ended")
	gone, stays := check.Have(s.Exists(t.Context(), "/gone"))(t), check.Have(s.Exists(t.Context(), "/stays"))(t)
	check.True(t, gone == nil && stays != nil && stays.EphemeralOwner == id, "%v, %v", gone, stays)
	check.True(t, strings.Contains(log.String(), "/gone") && !strings.Contains(log.String(), "/stays"), "%s", &log)
}
