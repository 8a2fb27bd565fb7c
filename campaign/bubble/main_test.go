package bubble_test

import (
	"flag"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/bubble"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/internal/check"
)

var (
	name   = flag.String("campaign.scenario", "", "play this scenario; none without")
	seed   = flag.Uint64("campaign.seed", 0, "with this seed")
	system = flag.String("campaign.system", string(workload.ZKActors), "with the recipes of this system")
	out    = flag.String("campaign.out", "", "write the history to this file, as lines of JSON")
)

func TestMain(m *testing.M) {
	runtime.MemProfileRate = 0 // its samples are choices of the runtime
	goleak.VerifyTestMain(m)
}

// TestHistory plays one history, for the program of the campaign.
func TestHistory(t *testing.T) {
	if *name == "" {
		t.Skip("see go run ./campaign bubble")
	}
	s, ok := scenario.Find(*name)
	check.Require(t, ok, "there is no scenario %s", *name)
	h := bubble.Play(t, s, *seed, workload.System(*system))
	f := check.Have(os.Create(*out))(t)
	check.Must(t, h.Write(f))
	check.Must(t, f.Close())
}

// TestSample plays a few of the histories of the campaign.
func TestSample(t *testing.T) {
	for _, name := range []string{"cuts", "lost-replies", "expiries", "restarts"} {
		t.Run(name, func(t *testing.T) {
			s, _ := scenario.Find(name)
			h := bubble.Play(t, s, 1, workload.ZKActors)
			check.False(t, h.Void(), "the history is void")
			for _, v := range judge.All(h) {
				t.Error(v)
			}
		})
	}
}

// TestControl: the lock of go-zookeeper reports no loss, so faults are found in it.
func TestControl(t *testing.T) {
	s, _ := scenario.Find("pauses")
	h := bubble.Play(t, s, 1, workload.ZKLock)
	check.False(t, h.Void(), "the history is void")
	check.True(t, len(judge.All(h)) > 0, "nothing is found")
}
