package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A pages is a log that a test reads.
type pages struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *pages) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// A haunted has a session that lives on when the servers come back with older data.
type haunted struct {
	kit.World
	s     *session.Session
	log   *pages
	reign int32
}

func haunting(t *testing.T, config zktest.Config, opts session.Options, play func(t *testing.T, h *haunted)) {
	t.Helper()
	config.Tick = time.Second
	kit.Run(t, config, func(w kit.World) {
		h := &haunted{World: w, log: &pages{}}
		opts := opts
		opts.Timeout, opts.ServerTick, opts.Logger = 12*time.Second, time.Second, slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		h.s = w.Open(opts)
		play(w.T, h)
	})
}

// node creates an ephemeral node.
func (h *haunted) node(path string) {
	h.Helper()
	check.Have(h.s.Create(h.Context(), path, nil, session.Ephemeral))(h)
}

// relapse has the servers come back with the backup.
func (h *haunted) relapse(b zktest.Backup) {
	h.reign++
	h.RestoreInReign(b, h.reign)
}

// settle waits until the session is connected, and has answered.
func (h *haunted) settle() {
	h.Helper()
	id := h.s.ID()
	kit.Pass(6 * time.Second) // a ping shows the reign
	check.Must(h, h.s.Sync(h.Context(), "/"))
	check.True(h, h.s.ID() == id, "the session has ended")
}

func (h *haunted) paths(want ...string) {
	h.Helper()
	check.EqualSlices(h, h.Paths(), want, "nodes")
}

// TestGhosts: a node that was deleted is back, and is deleted before a call that waits; one that
// the session has stays.
func TestGhosts(t *testing.T) {
	haunting(t, zktest.Config{}, session.Options{}, func(t *testing.T, h *haunted) {
		h.node("/gone")
		h.node("/stays")
		backup := h.Backup()
		check.Must(t, h.s.Delete(t.Context(), "/gone", session.AnyVersion))
		h.Refuse(true)
		h.relapse(backup)
		synctest.Wait()
		created := kit.Begin(func() error {
			_, err := h.s.Create(t.Context(), "/gone", []byte("anew"), session.Ephemeral)
			return err
		})
		kit.Waits(t, "the create", created)
		h.Refuse(false)
		check.Must(t, <-created)
		h.settle()
		check.Reads(h.s.Get(t.Context(), "/gone"))(t, "anew")
		h.paths("/gone", "/stays")
		check.True(t, strings.Count(h.log.String(), "/gone") == 1 && !strings.Contains(h.log.String(), "/stays"), "%s", h.log)

		check.Equal(t, h.Requests()[zktest.OpGetEphemerals], 1)
		h.Disconnect(0) // the same reign
		h.settle()
		check.Equal(t, h.Requests()[zktest.OpGetEphemerals], 1)
	})
}

// TestNoGhosts: a session that has never had nodes of its own asks for none.
func TestNoGhosts(t *testing.T) {
	haunting(t, zktest.Config{}, session.Options{}, func(t *testing.T, h *haunted) {
		check.Have(h.s.Create(t.Context(), "/a", nil, session.Persistent))(t)
		h.relapse(h.Backup())
		h.settle()
		check.Equal(t, h.Requests()[zktest.OpGetEphemerals], 0)
	})
}

// TestGhostsThatResist: what stands in the way of the look, and of the deletion.
func TestGhostsThatResist(t *testing.T) {
	const busy = -127 // the server throttles
	list, remove, look := zktest.Match{Op: zktest.OpGetEphemerals}, zktest.Match{Op: zktest.OpDelete}, zktest.Match{Op: zktest.OpExists}
	for name, test := range map[string]struct {
		meet func(h *haunted)
		left bool
	}{
		"the list's request is lost":      {func(h *haunted) { h.DropRequest(list) }, false},
		"the list's reply is lost":        {func(h *haunted) { h.DropReply(list) }, false},
		"the deletion's request is lost":  {func(h *haunted) { h.DropRequest(remove) }, false},
		"the deletion's reply is lost":    {func(h *haunted) { h.DropReply(remove) }, false},
		"the look's request is lost":      {func(h *haunted) { h.DropRequest(look) }, false},
		"the server is busy with a list":  {func(h *haunted) { h.AnswerError(list, busy) }, false},
		"the server is busy with a node":  {func(h *haunted) { h.AnswerError(look, busy); h.AnswerError(remove, busy) }, false},
		"another has written to the node": {func(h *haunted) { h.AnswerError(remove, -103) }, false},
		"the node is gone":                {func(h *haunted) { h.AnswerError(look, -101) }, true},
		"it may not be deleted":           {func(h *haunted) { h.AnswerError(remove, -102) }, true},
		"the list is refused":             {func(h *haunted) { h.AnswerError(list, -102) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			haunting(t, zktest.Config{}, session.Options{}, func(t *testing.T, h *haunted) {
				h.node("/gone")
				h.node("/stays")
				backup := h.Backup()
				check.Must(t, h.s.Delete(t.Context(), "/gone", session.AnyVersion))
				test.meet(h)
				h.relapse(backup)
				h.settle()
				if !test.left {
					h.paths("/stays")
					return
				}
				h.paths("/gone", "/stays")
				check.True(t, name == "the node is gone" || strings.Contains(h.log.String(), "cannot"), "%s", h.log)
			})
		})
	}
}

// TestGhostOfAnother: another client has a node where the session had one.
func TestGhostOfAnother(t *testing.T) {
	haunting(t, zktest.Config{Profile: zktest.ZooKeeper35}, session.Options{}, func(t *testing.T, h *haunted) {
		other := h.Open(session.Options{Timeout: 12 * time.Second})
		h.node("/node")
		check.Must(t, h.s.Delete(t.Context(), "/node", session.AnyVersion))
		check.Have(other.Create(t.Context(), "/node", nil, session.Ephemeral))(t)
		check.Must(t, h.s.Sync(t.Context(), "/"))
		h.relapse(h.Backup())
		h.settle()
		h.paths("/node")
	})
}

// TestGhostsBelowChroot: paths are those of the server, of transactions and sequential nodes too.
func TestGhostsBelowChroot(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.ZooKeeper380, zktest.ZooKeeper35} {
		haunting(t, zktest.Config{Profile: profile}, session.Options{Chroot: "/below"}, func(t *testing.T, h *haunted) {
			check.Must(t, h.s.EnsurePath(t.Context(), "/"))
			stays := check.Have(h.s.Create(t.Context(), "/n-", nil, session.EphemeralSequential))(t)
			gone := check.Have(h.s.Multi(t.Context(), session.CreateOp("/m-", nil, session.EphemeralSequential), session.CreateOp("/a", nil, session.Ephemeral)))(t)
			backup := h.Backup()
			check.Have(h.s.Multi(t.Context(), session.DeleteOp("/a", 0), session.DeleteOp(gone[0].Path, 0)))(t)
			h.relapse(backup)
			h.settle()
			h.paths("/below", "/below"+stays)
		})
	}
}

// TestCreatesInDoubt: a node whose create is in doubt is no ghost, whoever finds it later, and is
// one when it was deleted.
func TestCreatesInDoubt(t *testing.T) {
	for name, create := range map[string]func(a session.Async, answer func(error)){
		"a node": func(a session.Async, answer func(error)) {
			a.Create("/n", nil, session.Ephemeral, func(_ string, err error) { answer(err) })
		},
		"a sequential node": func(a session.Async, answer func(error)) {
			a.Create("/n-", nil, session.EphemeralSequential, func(_ string, err error) { answer(err) })
		},
		"a transaction": func(a session.Async, answer func(error)) {
			a.Multi([]session.Op{session.CreateOp("/p", nil, session.Persistent), session.CreateOp("/p/n-", nil, session.EphemeralSequential), session.CreateOp("/n", nil, session.Ephemeral)},
				func(_ []session.OpResult, err error) { answer(err) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			haunting(t, zktest.Config{}, session.Options{Chroot: "/in"}, func(t *testing.T, h *haunted) {
				check.Must(t, h.s.EnsurePath(t.Context(), "/"))
				for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpMulti} {
					h.DropReply(zktest.Match{Op: op, Path: "/in/n*"})
				}
				done := make(chan error, 1)
				create(h.s.Async(0), func(err error) { done <- err })
				check.Is(t, <-done, session.ErrUnknownOutcome)
				all, backup := h.Paths(), h.Backup()
				h.relapse(backup)
				h.settle()
				h.paths(all...)

				for _, path := range all[1:] {
					path = strings.TrimPrefix(path, "/in")
					if check.Have(h.s.Exists(t.Context(), path))(t).EphemeralOwner != 0 {
						check.Must(t, h.s.Delete(t.Context(), path, 0))
					}
				}
				left := h.Paths()
				h.relapse(backup)
				h.settle()
				h.paths(left...)
			})
		})
	}
}

// TestManyGhosts: they are deleted some at a time, and the log names some.
func TestManyGhosts(t *testing.T) {
	haunting(t, zktest.Config{}, session.Options{}, func(t *testing.T, h *haunted) {
		for i := range 300 {
			h.node(fmt.Sprintf("/n%d", i))
		}
		backup := h.Backup()
		for i := range 299 {
			check.Must(t, h.s.Delete(t.Context(), fmt.Sprintf("/n%d", i), session.AnyVersion))
		}
		h.relapse(backup)
		h.settle()
		h.paths("/n299")
		check.True(t, strings.Contains(h.log.String(), "count=299"), "%s", h.log)
	})
}

// TestGhostsInStorms: connections break anywhere, and the servers come back with older data again
// and again. A node that its creator has never stays away, unless the older data lacks it; a node
// that was deleted never stays.
func TestGhostsInStorms(t *testing.T) {
	for seed := range hasten.Sized(hasten.Usually(600, 60), 20) {
		for _, profile := range []zktest.Profile{zktest.ZooKeeper380, zktest.ZooKeeper35} {
			haunting(t, zktest.Config{Profile: profile}, session.Options{}, func(t *testing.T, h *haunted) {
				rng := rand.New(rand.NewPCG(uint64(seed), 50))
				type moment struct {
					zktest.Backup
					nodes []string
				}
				var backups []moment
				var has []string           // nodes whose creates were answered, and not deleted
				doubt := map[string]bool{} // nodes that may be there or not
				for n := range 40 {
					if rng.IntN(4) == 0 {
						m := zktest.Match{Op: []zktest.Op{zktest.OpCreate, zktest.OpCreate2, zktest.OpDelete, zktest.OpGetEphemerals, zktest.OpMulti}[rng.IntN(5)]}
						[]func(zktest.Match){h.DropRequest, h.DropReply}[rng.IntN(2)](m)
					}
					switch kind := rng.IntN(10); {
					case kind < 5:
						path, mode := fmt.Sprintf("/n%d", n), session.Ephemeral
						if kind < 2 {
							mode = session.EphemeralSequential
						}
						var err error
						if kind == 4 {
							_, err = h.s.Multi(h.Context(), session.CreateOp(path, nil, mode))
						} else {
							path, err = h.s.Create(h.Context(), path, nil, mode)
						}
						switch {
						case err == nil:
							has = append(has, path)
						case errors.Is(err, session.ErrUnknownOutcome):
							doubt[path] = true
						case !errors.Is(err, session.ErrDisconnected):
							h.Fatal(err)
						}
					case kind < 8 && len(has) > 0:
						i := rng.IntN(len(has))
						path := has[i]
						has = slices.Delete(has, i, i+1)
						switch err := h.s.Delete(h.Context(), path, session.AnyVersion); {
						case err == nil, errors.Is(err, session.ErrNoNode):
						case errors.Is(err, session.ErrUnknownOutcome):
							doubt[path] = true
						default:
							h.Fatal(err)
						}
					case kind == 8:
						backups = append(backups, moment{h.Backup(), slices.Clone(has)})
					case len(backups) > 0:
						at := rng.IntN(len(backups))
						b := backups[at]
						backups = backups[:at+1] // the later ones are of a history that has not happened
						h.relapse(b.Backup)
						h.settle()
						has = slices.DeleteFunc(has, func(path string) bool { return !slices.Contains(b.nodes, path) && !doubt[path] })
						there := h.Paths()
						for _, path := range has {
							check.True(h, doubt[path] || slices.Contains(there, path), "seed %d: %s was deleted", seed, path)
						}
						for _, path := range there {
							check.True(h, doubt[path] || slices.Contains(has, path), "seed %d: %s is a ghost", seed, path)
						}
					}
				}
			})
		}
	}
}
