package spec_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/hasten"
)

func TestMain(m *testing.M) {
	hasten.Tests()
	goleak.VerifyTestMain(m)
}
