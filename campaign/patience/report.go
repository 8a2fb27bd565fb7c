package patience

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Report counts runs that were to be made.
type Report struct {
	Unseen  []string // packages whose phases are not counted here, or not all
	Missing int      // runs, without those of unseen packages

	sums []sum
	rows []row
	runs map[[2]string]int // by package and mode
}

// A sum counts the runs of a phase, with or without the race detector.
type sum struct {
	mode         string
	runs, failed int
	stops        int
	seconds      float64
}

// A row counts the failures of a test, with all its parts.
type row struct {
	pkg, test    string // no test if the package itself has failed
	mode, phase  string
	failed, hung int
	parts        []string
	outputs      string // a folder
}

// Failed returns how many runs have failed.
func (r *Report) Failed() (n int) {
	for _, s := range r.sums {
		n += s.failed
	}
	return n
}

// add counts a run, if it is recorded.
func (r *Report) add(k key, e entry, recorded bool) {
	if !recorded {
		r.Missing++
		return
	}
	i := slices.IndexFunc(r.sums, func(s sum) bool { return s.mode == k.mode() })
	if i < 0 {
		i, r.sums = len(r.sums), append(r.sums, sum{mode: k.mode()})
	}
	if r.runs == nil {
		r.runs = map[[2]string]int{}
	}
	r.runs[[2]string{k.Package, k.mode()}]++
	s := &r.sums[i]
	s.runs, s.seconds, s.stops = s.runs+1, s.seconds+e.Seconds, s.stops+len(e.Stops)
	if e.Outcome == passed {
		return
	}
	s.failed++
	whole := map[string]bool{} // tests, without their parts
	for _, name := range e.Failed {
		test, _, _ := strings.Cut(name, "/")
		whole[test] = true
	}
	if len(whole) == 0 {
		whole[""] = true
	}
	for test := range whole {
		r.row(k, test).count(e)
	}
}

func (r *Report) row(k key, test string) *row {
	i := slices.IndexFunc(r.rows, func(w row) bool { return w.pkg == k.Package && w.mode == k.mode() && w.test == test })
	if i < 0 {
		i, r.rows = len(r.rows), append(r.rows, row{pkg: k.Package, test: test, mode: k.mode(), phase: k.Phase})
	}
	return &r.rows[i]
}

func (w *row) count(e entry) {
	w.failed++
	if e.Outcome == hung {
		w.hung++
	}
	for _, name := range e.Failed {
		if strings.HasPrefix(name, w.test+"/") && !slices.Contains(w.parts, name) {
			w.parts = append(w.parts, name)
		}
	}
	w.outputs = filepath.Dir(e.Output)
}

// Print prints the failures of each test, how to repeat them, and the runs of each phase.
func (r *Report) Print(out io.Writer) error {
	slices.SortFunc(r.rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.test, b.test), strings.Compare(a.mode, b.mode))
	})
	const most = 3 // parts of a test
	for i := range r.rows {
		w := &r.rows[i]
		_, _ = fmt.Fprintf(out, "%s %s: %s: %d of %d runs failed", w.pkg, cmp.Or(w.test, "(no test)"), w.mode, w.failed, r.runs[[2]string{w.pkg, w.mode}])
		if w.hung > 0 {
			_, _ = fmt.Fprintf(out, ", %d of them hung", w.hung)
		}
		_, _ = fmt.Fprintln(out)
		for i, part := range w.parts {
			if i == most {
				_, _ = fmt.Fprintf(out, "    and %d more\n", len(w.parts)-i)
				break
			}
			_, _ = fmt.Fprintf(out, "    %s\n", part)
		}
		_, _ = fmt.Fprintf(out, "    output: %s\n    again:  %s\n", w.outputs, w.again())
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "phase\truns\tfailed\tstops\thours\t")
	for _, s := range r.sums {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.2f\t\n", s.mode, s.runs, s.failed, s.stops, s.seconds/3600)
	}
	return t.Flush()
}

// again returns the command that repeats the runs of a row.
func (w *row) again() string {
	command := "go run ./campaign patience --phase " + w.phase + " --package " + w.pkg
	if w.test != "" {
		command += " --test '^" + w.test + "$'"
	}
	return command
}
