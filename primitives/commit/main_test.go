package commit_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(asParty); role != "" {
		os.Exit(live(role))
	}
	hasten.Waiting()
	goleak.VerifyTestMain(zktest.Tests{M: m})
}
