package commit_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(asParty); role != "" {
		os.Exit(live(role))
	}
	goleak.VerifyTestMain(m)
}
