package workload_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestKilledUpdate: a process dies when the servers have done its update, and before it hears of
// that. The history says what the update may have done, so that another process may read it.
func TestKilledUpdate(t *testing.T) {
	const path = "/configs/counter"
	record := history.NewRecorder(history.Head{}, func() time.Duration { return 0 }) // moments are counted
	client, stop := record.Client("1.1"), make(chan struct{})
	die := sync.OnceFunc(func() {
		client.Kill()
		close(stop)
	})
	committed := func(tx zktest.Transaction) {
		if slices.ContainsFunc(tx.Changes, func(c zktest.Change) bool { return c.Path == path && c.Kind == zktest.DataSet }) {
			die()
		}
	}
	kit.Run(t, zktest.Config{Latency: time.Millisecond, Committed: committed}, func(w kit.World) {
		s := w.Open(session.Options{})
		setup := record.Client("setup")
		check.Must(t, s.EnsurePath(w.Context(), "/configs"))
		check.Have(s.Create(w.Context(), path, []byte("7"), session.Persistent))(t)
		setup.Instant(history.Operation{Recipe: "config", Path: path, Kind: judge.Set, Argument: "7"})

		over := make(chan struct{})
		var work, standing, last sync.WaitGroup
		all := workload.ZKActors.Workloads()
		configs := all[slices.IndexFunc(all, func(w workload.Workload) bool { return w.Name == "config" })]
		configs.Run(&workload.Client{
			Of: 1, Record: client, Session: s, Context: w.Context(), Stop: stop, Quiet: stop, Over: over, Pause: func() {},
			Dice: func() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }, Work: &work, Standing: &standing, Last: &last,
		})
		work.Wait()
		close(over)
		standing.Wait()

		data, _, err := s.Get(w.Context(), path)
		check.Must(t, err)
		check.Equal(t, string(data), "8")
		setup.Instant(history.Operation{Recipe: "config", Path: path, Kind: judge.Get, Result: string(data)})
	})
	h := record.History()
	updates := slices.DeleteFunc(slices.Clone(h.Operations), func(o history.Operation) bool { return o.Kind != judge.Update })
	check.Len(t, updates, 1)
	check.True(t, updates[0].Argument == "7" && updates[0].Result == "8" && !updates[0].Returned(), "%+v", updates[0])
	check.Len(t, judge.Register(h), 0)
}
