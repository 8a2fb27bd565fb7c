package barrier

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) {
	if addrs := os.Getenv(asParty); addrs != "" {
		if err := beParty(addrs); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	hasten.Waiting()
	goleak.VerifyTestMain(zktest.Tests{M: m})
}
