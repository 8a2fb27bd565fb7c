package real_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/real"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(real.WorkerVariable) != "" {
		if err := real.Work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// play plays a few seconds of a scenario.
func play(t *testing.T, name string, system workload.System, lasts time.Duration) *history.History {
	t.Helper()
	zktest.StartEnsemble(t, 1).Close() // it skips the test where no server can be started
	s, ok := real.Find(name)
	check.Require(t, ok, "there is no scenario %s", name)
	binary := check.Have(os.Executable())(t)
	return check.Have(real.Play(t.Context(), real.Options{
		Scenario: s, Seed: 1, System: system, Lasts: lasts, Processes: 3, Worker: []string{binary},
		Calm: 3 * time.Second, After: time.Second / 2, Still: 7 * time.Second,
	}))(t)
}

// TestKilled: processes are killed and come back, and all is known of them.
func TestKilled(t *testing.T) {
	h := play(t, "killed-clients", workload.ZKActors, 5*time.Second)
	check.False(t, h.Void(), "the history is void")
	check.True(t, len(h.Commits) > len(h.Operations)/4, "%d commits of %d operations", len(h.Commits), len(h.Operations))
	check.True(t, h.Count(func(f *history.Fault) bool { return f.Kind == history.Killed }) > 0, "no process was killed")
	for _, v := range judge.All(h) {
		t.Error(v)
	}
}

// TestControl: go-zookeeper's lock reports no loss, so faults are found in it.
func TestControl(t *testing.T) {
	if !hasten.Thorough() {
		t.Skip("it takes a minute, with ZKACTORS_THOROUGH=1")
	}
	h := play(t, "expiries", workload.ZKLock, 40*time.Second)
	check.False(t, h.Void(), "the history is void")
	check.True(t, len(judge.All(h)) > 0, "nothing is found")
}

// TestScenarios: names are unique, and there are twenty or more.
func TestScenarios(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range real.All() {
		names[s.Name] = true
		found, ok := real.Find(s.Name)
		check.True(t, ok && found.About == s.About && found.Play != nil, "%s", s.Name)
	}
	check.Len(t, real.All(), len(names))
	check.True(t, len(names) >= 20, "%d scenarios", len(names))
	_, ok := real.Find("none")
	check.False(t, ok, "a scenario without a name is found")
}
