package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the outcome of a bench.
type report struct {
	when    time.Time
	machine string
	results []result
	load    load
	opts    options
}

// write writes the files that the flags name.
func (r report) write() error {
	var errs []error
	if r.opts.json != "" {
		results := r.results
		if results == nil {
			results = []result{} // write an empty array, and not null
		}
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(r.opts.json, append(text, '\n'), 0o644)
		}
		errs = append(errs, err)
	}
	var pictures []picture
	if r.opts.plots != "" {
		var err error
		pictures, err = r.plot(r.opts.plots)
		errs = append(errs, err)
	}
	if r.opts.markdown != "" {
		old, err := os.ReadFile(r.opts.markdown)
		errs = append(errs, err, os.WriteFile(r.opts.markdown, []byte(between(string(old), r.markdownText(pictures))), 0o644))
	}
	return errors.Join(errs...)
}

// In a file with other text the results stand between these marks.
const (
	beginMark = "<!-- results: written by go run ./bench -markdown -->\n"
	endMark   = "<!-- end of results -->\n"
)

// between returns the old text with the results between its marks, or only the results if the old
// text has no marks.
func between(old, results string) string {
	if text, ok := replaced(old, beginMark, results, endMark); ok {
		return text
	}
	return results
}

// replaced returns the old text with the results between two marks. It reports whether the old text
// has the marks.
func replaced(old, begin, results, end string) (text string, ok bool) {
	before, rest, ok := strings.Cut(old, begin)
	_, after, closed := strings.Cut(rest, end)
	return before + begin + "\n" + results + "\n" + end + after, ok && closed
}

// head returns the headings of the table's columns.
func head() []string {
	return []string{"system", "operations/s", "±", "p50 ms", "p99 ms", "client CPU µs", "requests", "proposals", "round trips", "deletions seen", ""}
}

// cells returns the row of a result.
func (r *result) cells() []string {
	row := []string{r.System, blank(r.OpsPerS), "", blank(r.P50), blank(r.P99), blank(r.CPU), optional(r.Requests), optional(r.Proposals), optional(r.RoundTrips), "", r.remarks()}
	if r.Spread > 0 {
		row[2] = fmt.Sprintf("%.0f %%", 50*r.Spread)
	}
	if r.Events >= 0.005 {
		row[9] = fmt.Sprintf("%.2f, max %.0f", r.Events, r.MaxEvents)
	}
	return row
}

// remarks returns the numbers that have no column, the remark and the note.
func (r *result) remarks() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Extras)) {
		all = append(all, strings.ReplaceAll(name, "_", " ")+" "+figure(r.Extras[name]))
	}
	if r.workload.family == "barrier" && r.OpsPerS > 0 {
		all = append(all, figure(r.OpsPerS/float64(2*r.workload.size))+" rounds/s")
	}
	for _, text := range []string{r.Remark, r.Note} {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// figure formats a number with three significant digits; large numbers in full.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1000:
		return thousands(int(math.Round(x)))
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
}

func blank(x float64) string {
	if x == 0 {
		return ""
	}
	return figure(x)
}

func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', -1, 64)
}

func join(all []string) string { return strings.Join(all, ",") }

// each calls f with the results of every workload, on every fleet.
func (r report) each(f func(servers string, w workload, of []result)) {
	for rest := r.results; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Servers == rest[0].Servers && rest[n].Workload == rest[0].Workload {
			n++
		}
		f(rest[0].Servers, rest[0].workload, rest[:n])
		rest = rest[n:]
	}
}

// print prints the table.
func (r report) print(out io.Writer) error {
	var text strings.Builder
	r.each(func(servers string, w workload, of []result) {
		where := "counted only"
		if servers != "" {
			where = servers
		}
		fmt.Fprintf(&text, "\n%s: %s (%s; operation: %s)\n", w.name, w.title, where, w.unit)
		fmt.Fprintln(&text, "  "+strings.Join(head(), "\t"))
		for _, row := range of {
			fmt.Fprintln(&text, "  "+strings.Join(row.cells(), "\t"))
		}
	})
	for _, c := range r.comparisons() {
		text.WriteString(c.text())
	}
	fmt.Fprintf(&text, "\n%s\nother load: %v\n", r.machine, r.load)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(table, text.String())
	return errors.Join(err, table.Flush())
}

// markdownText returns the results in Markdown, as in bench/README.md.
func (r report) markdownText(pictures []picture) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s. Turns of %v, %d of them, of which the median counts; ± is half the distance between the extremes. ",
		r.when.UTC().Format("2006-01-02"), r.machine, r.opts.duration, r.opts.turns)
	fmt.Fprintf(&b, "Other load of the machine (median): %v.\n", r.load)
	fmt.Fprintf(&b, "Requests, proposals and blocking round trips per operation were counted on the server in memory, %v away; ", oneWay)
	b.WriteString("*deletions seen* is how many watches the deletion of nodes fired on the servers per operation.\n")
	for _, c := range r.comparisons() {
		b.WriteString(c.markdown())
		r.show(&b, pictures, c.kind, byDistance)
	}
	before := ""
	r.each(func(servers string, w workload, of []result) {
		if servers != before {
			before = servers
			fmt.Fprintf(&b, "\n## %s\n", servers)
		}
		fmt.Fprintf(&b, "\n### %s\n\n`%s`; operation: %s\n\n", w.title, w.name, w.unit)
		fmt.Fprintf(&b, "| %s |\n|---|%s\n", strings.Join(head(), " | "), strings.Repeat("---:|", len(head())-2)+"---|")
		for _, row := range of {
			fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(row.cells(), " | "), "\n", " "))
		}
		r.show(&b, pictures, servers, w.name)
	})
	return b.String()
}

// show writes the pictures that follow a table.
func (r report) show(b *strings.Builder, pictures []picture, servers, after string) {
	for _, p := range pictures {
		switch {
		case p.servers != servers || p.after != after:
		case p.dark != "":
			fmt.Fprintf(b, "\n<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"%s\"><img src=\"%s\" alt=\"%s\"></picture>\n",
				r.link(p.dark), r.link(p.file), p.title)
		default:
			fmt.Fprintf(b, "\n![%s](%s)\n", p.title, r.link(p.file))
		}
	}
}

// link returns the path of a picture relative to the file that shows it.
func (r report) link(file string) string {
	rel, err := filepath.Rel(filepath.Dir(r.opts.markdown), file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}
