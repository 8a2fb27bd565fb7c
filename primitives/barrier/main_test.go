package barrier

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
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
	goleak.VerifyTestMain(m)
}
