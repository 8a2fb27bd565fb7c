package mutation

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Survivor is a mutant that no test finds, and why that is so.
type Survivor struct {
	Mutant
	Why string // empty if nobody has explained it
}

const header = "place\tchange\tcode\twhy"

// ReadSurvivors reads survivors.tsv.
func ReadSurvivors(name string) ([]Survivor, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != header {
		return nil, fmt.Errorf("%s: the first line is not %q", name, header)
	}
	var all []Survivor
	for i, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s:%d: not four columns", name, i+2)
		}
		file, number, _ := strings.Cut(cells[0], ":")
		s := Survivor{Mutant{File: file, Change: cells[1], Code: cells[2]}, cells[3]}
		if s.Line, err = strconv.Atoi(number); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+2, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// WriteSurvivors writes survivors.tsv, by file and line.
func WriteSurvivors(name string, all []Survivor) error {
	slices.SortStableFunc(all, func(a, b Survivor) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, s := range all {
		fmt.Fprintf(&b, "%s:%d\t%s\t%s\t%s\n", s.File, s.Line, s.Change, s.Code, s.Why)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// Join returns the list after a run: a survivor keeps its explanation, although lines have come
// before it, and what was tried and found is no survivor any more.
func Join(known []Survivor, tried []Mutant, survived []Mutant) []Survivor {
	var all []Survivor
	for _, k := range known {
		if !slices.ContainsFunc(tried, k.same) {
			all = append(all, k)
		}
	}
	rest := slices.Clone(known)
	for _, m := range survived {
		s := Survivor{Mutant: m}
		// The same code may stand twice in a file: the first of the list is the first of the file.
		if i := slices.IndexFunc(rest, func(k Survivor) bool { return k.same(m) }); i >= 0 {
			s.Why = rest[i].Why
			rest = slices.Delete(rest, i, i+1)
		}
		all = append(all, s)
	}
	return all
}

func (s Survivor) same(m Mutant) bool {
	return s.File == m.File && s.Change == m.Change && s.Code == m.Code
}
