package zktest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		startAndHang()
	}
	hasten.Waiting()
	goleak.VerifyTestMain(zktest.Tests{M: m})
}
