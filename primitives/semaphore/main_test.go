package semaphore

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) {
	hasten.Waiting()
	goleak.VerifyTestMain(zktest.Tests{M: m})
}
