// Package record keeps the faults that were found in the library, and finds them again: each in
// the code before its mend. README.md says how a fault is entered.
package record

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Fault is a line of faults.tsv.
type Fault struct {
	ID      string // words with hyphens; ID.patch takes the mend out of today's code
	Date    string // of the mend: 2006-01-02
	Package string // that was mended
	Mend    string // commit
	Command string // finds the fault, from the root of the repository; empty: a hole of the campaign
	Said    string // one sentence: what a user saw
}

// A Try is a line of tries.tsv, which only the command writes.
type Try struct {
	ID      string
	Result  Result
	Code    string  // in which the fault was looked for: "COMMIT^", or "COMMIT + ID.patch"
	Date    string  // of the try
	Seconds float64 // that the command ran in that code, without compiling
	Found   string  // the assertion that failed
	Command string
}

// A Result says what has become of a try.
type Result string

// The results of a try.
const (
	Found       Result = "found"
	Hung        Result = "hung"              // the command did not end in time: the fault, or a busy machine
	Missed      Result = "not found"         // the command passes in the code before the mend
	Unbuilt     Result = "does not compile"  // the test does not fit the code before the mend
	Nothing     Result = "no test"           // the command runs nothing
	FailsMended Result = "fails when mended" // the command fails in the code with the mend, too
)

const (
	faultsHeader = "id\tdate\tpackage\tmend\tcommand\tfault"
	triesHeader  = "id\tresult\tcode\ttried\tseconds\tfound\tcommand"
)

//go:embed faults.tsv
var faults string

//go:embed tries.tsv
var tries string

// Tries returns what has become of the commands when they were tried last.
func Tries() ([]Try, error) { return parseTries(tries) }

// Faults returns the record, in the order of the mends.
func Faults() ([]Fault, error) { return parseFaults(faults) }

func parseFaults(text string) ([]Fault, error) {
	rows, err := table(text, faultsHeader)
	if err != nil {
		return nil, fmt.Errorf("faults.tsv: %w", err)
	}
	var all []Fault
	for i, row := range rows {
		f := Fault{ID: row[0], Date: row[1], Package: row[2], Mend: row[3], Command: row[4], Said: row[5]}
		if _, err := time.Parse(time.DateOnly, f.Date); err != nil {
			return nil, fmt.Errorf("faults.tsv:%d: %w", i+2, err)
		}
		if slices.ContainsFunc(all, func(o Fault) bool { return o.ID == f.ID }) {
			return nil, fmt.Errorf("faults.tsv:%d: %s is there twice", i+2, f.ID)
		}
		all = append(all, f)
	}
	return all, nil
}

// Choose returns the faults with these IDs.
func Choose(all []Fault, ids []string) ([]Fault, error) {
	var chosen []Fault
	for _, id := range ids {
		i := slices.IndexFunc(all, func(f Fault) bool { return f.ID == id })
		switch {
		case i < 0:
			return nil, fmt.Errorf("no fault is called %s: see campaign/record/faults.tsv", id)
		case all[i].Command == "":
			return nil, fmt.Errorf("%s is a hole of the campaign: no command finds it", id)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// parseTries reads tries.tsv. Empty text is an empty table.
func parseTries(text string) ([]Try, error) {
	if text == "" {
		return nil, nil
	}
	rows, err := table(text, triesHeader)
	if err != nil {
		return nil, fmt.Errorf("tries.tsv: %w", err)
	}
	var all []Try
	for i, row := range rows {
		t := Try{ID: row[0], Result: Result(row[1]), Code: row[2], Date: row[3], Found: row[5], Command: row[6]}
		if _, err := fmt.Sscanf(row[4], "%g", &t.Seconds); err != nil {
			return nil, fmt.Errorf("tries.tsv:%d: seconds: %w", i+2, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// merge replaces the tries of the same faults, and puts all into the order of the record.
func merge(all []Fault, old, tried []Try) []Try {
	var merged []Try
	for _, f := range all {
		same := func(t Try) bool { return t.ID == f.ID }
		if i := slices.IndexFunc(tried, same); i >= 0 {
			merged = append(merged, tried[i])
		} else if i := slices.IndexFunc(old, same); i >= 0 {
			merged = append(merged, old[i])
		}
	}
	return merged
}

func formatTries(all []Try) string {
	var b strings.Builder
	b.WriteString(triesHeader + "\n")
	for _, t := range all {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%.1f\t%s\t%s\n", t.ID, t.Result, t.Code, t.Date, t.Seconds, t.Found, t.Command)
	}
	return b.String()
}

// table returns the rows below the header.
func table(text, header string) ([][]string, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != header {
		return nil, fmt.Errorf("the first line is %q, not %q", lines[0], header)
	}
	var rows [][]string
	for i, line := range lines[1:] {
		row := strings.Split(line, "\t")
		if len(row) != strings.Count(header, "\t")+1 {
			return nil, fmt.Errorf("line %d has %d columns, not those of the header", i+2, len(row))
		}
		rows = append(rows, row)
	}
	return rows, nil
}
