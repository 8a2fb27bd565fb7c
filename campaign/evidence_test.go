package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/internal/check"
)

// TestEvidence holds the page against the program: each checker and each scenario of the bubble has
// its place in the table of promises, nothing else has, and each command exists.
func TestEvidence(t *testing.T) {
	page := string(check.Have(os.ReadFile("../docs/evidence.md"))(t))
	_, promises, _ := strings.Cut(page, "## The promises")
	promises, _, _ = strings.Cut(promises, "Promises 5,")
	named := regexp.MustCompile("[`_]([A-Za-z-]+)[`_]").FindAllStringSubmatch(promises, -1)
	var known []string
	for _, c := range judge.Checkers() {
		known = append(known, c.Name)
	}
	for _, s := range scenario.All() {
		known = append(known, s.Name)
	}
	var names []string
	for _, n := range named {
		names = append(names, n[1])
		check.True(t, slices.Contains(known, n[1]), "the page names %s, which does not exist", n[1])
	}
	for _, name := range known {
		check.True(t, slices.Contains(names, name), "the page does not name %s", name)
	}
	root := &cobra.Command{Use: "campaign"}
	root.AddCommand(commands()...)
	for _, m := range regexp.MustCompile(`go run ./campaign ([a-z]+)((?: --[a-z]+)*)`).FindAllStringSubmatch(page, -1) {
		found, _, err := root.Find([]string{m[1]})
		check.True(t, err == nil && found != root, "%q is no command", m[0])
	}
}
