package check_test

import (
	"os"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

type (
	input          interface{ input() }
	otherInput     interface{ otherInput() }
	plain          struct{}
	generic[T any] struct{}
	both           struct{}
)

func (plain) input()      {}
func (generic[T]) input() {}
func (both) input()       {}
func (both) otherInput()  {}

// TestExplored: an input counts for the machine that it was given to.
func TestExplored(t *testing.T) {
	t.Chdir(t.TempDir())
	const source = "package p\n\nfunc (plain) input() {}\nfunc (g *generic[T]) input() {}\nfunc (both) input() {}\nfunc (both) otherInput() {}\n"
	check.Must(t, os.WriteFile("machine.go", []byte(source), 0o600))
	var given check.Given
	check.EqualSlices(t, given.Missing(t, "input"), []string{"both", "generic", "plain"})
	for _, in := range []input{plain{}, generic[int]{}} {
		check.Note(&given, in)
	}
	check.Note[otherInput](&given, both{})
	check.EqualSlices(t, given.Missing(t, "input"), []string{"both"})
	var failing trial
	check.Explored(&failing, "input", given)
	check.True(t, failing.failed, "both was given to the other machine only")
	check.Explored(t, "otherInput", given)
	check.Note[input](&given, &both{})
	check.Explored(t, "input", given)
}

// TestAgain: the command names the test alone, and what replaces the environment. The promise is
// this comment.
func TestAgain(t *testing.T) {
	t.Setenv("ZKACTORS_SEED", "3")
	t.Run("a (b)", func(t *testing.T) {
		got := check.Again(t, "ZKACTORS_SEED=7")
		const command = `go test ./internal/check -run '^TestAgain$/^a_\(b\)$'`
		check.True(t, strings.HasPrefix(got, "ZKACTORS_SEED=7 ") && strings.Contains(got, command) && strings.Count(got, "SEED") == 1, "%s", got)
		got = check.Guide(t)
		check.True(t, strings.Contains(got, "environment. The promise is this comment.\nagain: "), "%s", got)
	})
}
