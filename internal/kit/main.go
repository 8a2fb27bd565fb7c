package kit

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

// Main is the TestMain of a package. It fails if a goroutine is left, and ends the servers of
// [zktest.SharedEnsemble].
func Main(m *testing.M) {
	hasten.Tests()
	goleak.VerifyTestMain(zktest.Tests{M: m})
}

// MainOfWaiting is [Main] for a package whose tests mostly wait for real servers and processes:
// more of them run at once.
func MainOfWaiting(m *testing.M) {
	hasten.Waiting()
	goleak.VerifyTestMain(zktest.Tests{M: m})
}
