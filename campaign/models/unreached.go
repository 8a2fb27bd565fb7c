package models

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// An Unreached is a line of unreached.tsv: a row that nothing reaches, and why that is so.
type Unreached struct{ File, Func, Code, Why string }

const unreachedHeader = "file\tfunction\tcode\twhy"

//go:embed unreached.tsv
var unreached string

// Explained returns the rows that nothing reaches.
func Explained() ([]Unreached, error) { return parseUnreached(unreached) }

func parseUnreached(text string) ([]Unreached, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != unreachedHeader {
		return nil, fmt.Errorf("unreached.tsv: the first line is %q, not %q", lines[0], unreachedHeader)
	}
	var all []Unreached
	for i, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 4 || cells[3] == "" {
			return nil, fmt.Errorf("unreached.tsv:%d: not four columns, of which the last says why", i+2)
		}
		all = append(all, Unreached{cells[0], cells[1], cells[2], cells[3]})
	}
	return all, nil
}

// Compare returns the rows that were not reached and are not explained, and the explanations of
// rows that were reached.
func Compare(rows []Row, explained []Unreached) (missed []Row, stale []Unreached) {
	rest := slices.Clone(explained)
	for _, r := range rows {
		if r.Reached != Never {
			continue
		}
		i := slices.IndexFunc(rest, func(u Unreached) bool { return u.File == r.File && u.Func == r.Func && u.Code == r.Code })
		if i < 0 {
			missed = append(missed, r)
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return missed, rest
}
