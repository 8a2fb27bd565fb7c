package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test's own program be zkactors.
const asProgram = "ZKACTORS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
