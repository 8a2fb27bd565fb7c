package barrier

import (
	"fmt"
	"os"
	"testing"

	"github.com/zkactors/zkactors/internal/kit"
)

func TestMain(m *testing.M) {
	if addrs := os.Getenv(asParty); addrs != "" {
		if err := beParty(addrs); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	kit.MainOfWaiting(m)
}
