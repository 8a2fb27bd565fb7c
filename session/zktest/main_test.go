package zktest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		startAndHang()
	}
	hasten.Tests()
	goleak.VerifyTestMain(m)
}
