package bubble_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/bubble"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/internal/check"
)

//nolint:gochecknoglobals // flags
var (
	name   = flag.String("campaign.scenario", "", "play this scenario; none without")
	seed   = flag.Uint64("campaign.seed", 0, "with this seed")
	system = flag.String("campaign.system", string(bubble.ZKActors), "with the recipes of this system")
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
	h := bubble.Play(t, s, *seed, bubble.System(*system))
	f := check.Have(os.Create(*out))(t)
	check.Must(t, h.Write(f))
	check.Must(t, f.Close())
	_ = json.Encoder{}
	fmt.Println(len(h.Operations))
}
