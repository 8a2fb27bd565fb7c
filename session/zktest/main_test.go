package zktest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		startAndHang()
	}
	goleak.VerifyTestMain(m)
}
