package commit_test

import (
	"os"
	"testing"

	"github.com/zkactors/zkactors/internal/kit"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(asParty); role != "" {
		os.Exit(live(role))
	}
	kit.MainOfWaiting(m)
}
