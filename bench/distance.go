package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
)

// A comparison has the results of several distances on one kind of servers.
type comparison struct {
	kind      string          // of servers, without the distance
	distances []time.Duration // in the order of the flag -rtt
	trips     []string        // measured round trips in ms, for each distance
	rows      []comparisonRow
}

// A comparisonRow has one workload that this library has run.
type comparisonRow struct {
	workload workload
	results  map[time.Duration][]result
}

// comparisons returns a comparison for each kind of servers that has several distances.
func (r report) comparisons() (all []*comparison) {
	r.each(func(servers string, w workload, of []result) {
		if servers == "" {
			return
		}
		at := slices.IndexFunc(all, func(c *comparison) bool { return c.kind == of[0].kind })
		if at < 0 {
			at = len(all)
			all = append(all, &comparison{kind: of[0].kind})
		}
		all[at].add(w, of)
	})
	all = slices.DeleteFunc(all, func(c *comparison) bool { return len(c.distances) < 2 })
	for _, c := range all {
		c.rows = slices.DeleteFunc(c.rows, func(row comparisonRow) bool { return !row.compares(c.distances) })
	}
	return all
}

func (c *comparison) add(w workload, of []result) {
	if !slices.Contains(c.distances, of[0].rtt) {
		c.distances = append(c.distances, of[0].rtt)
		c.trips = append(c.trips, figure(of[0].trip))
	}
	at := slices.IndexFunc(c.rows, func(row comparisonRow) bool { return row.workload.name == w.name })
	if at < 0 {
		at = len(c.rows)
		c.rows = append(c.rows, comparisonRow{w, make(map[time.Duration][]result)})
	}
	c.rows[at].results[of[0].rtt] = of
}

// compares reports whether both this library and a peer have a result, at any of the distances.
func (row comparisonRow) compares(distances []time.Duration) bool {
	ours, peers := false, false
	for _, d := range distances {
		_, own := row.ours(d)
		_, other := row.fastestPeer(d)
		ours, peers = ours || own, peers || other
	}
	return ours && peers
}

// ours returns the result of this library: of its first system, which has the defaults.
func (row comparisonRow) ours(d time.Duration) (result, bool) {
	for _, r := range row.results[d] {
		if r.library == peers.ZKActors && !r.Limit {
			return r, r.completed()
		}
	}
	return result{}, false
}

// fastestPeer returns the result of the fastest peer at a distance.
func (row comparisonRow) fastestPeer(d time.Duration) (best result, ok bool) {
	for _, l := range peers.Libraries() {
		if r, has := row.fastest(d, l); has && l != peers.ZKActors && r.OpsPerS > best.OpsPerS {
			best, ok = r, true
		}
	}
	return best, ok
}

// fastest returns the fastest result of a library; of this library, that of its first system.
func (row comparisonRow) fastest(d time.Duration, l peers.Library) (best result, ok bool) {
	if l == peers.ZKActors {
		return row.ours(d)
	}
	for _, r := range row.results[d] {
		if r.library == l && !r.Limit && !r.aside && r.completed() && r.OpsPerS > best.OpsPerS {
			best, ok = r, true
		}
	}
	return best, ok
}

// completed reports whether the system has run to the end. The rate of a system that hung is no
// basis for a ratio.
func (r *result) completed() bool { return r.err == nil && r.OpsPerS > 0 }

// away writes the time of a round trip, as in the name of servers.
func away(d time.Duration) string { return inMilliseconds(d) + "ms" }

func inMilliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}

// column returns the heading of a distance.
func column(d time.Duration) string {
	if d == 0 {
		return "loopback"
	}
	return inMilliseconds(d) + " ms"
}

// head returns the headings of the table by distance.
func (c *comparison) head() []string {
	head := []string{"row", ""}
	for _, d := range c.distances {
		head = append(head, column(d))
	}
	return head
}

// cells returns the lines of one workload. Ratios below 1 are written by slower.
func (c *comparison) cells(row comparisonRow, slower func(string) string) [][]string {
	lines := [][]string{{row.workload.name, "zkactors"}, {"", "fastest peer"}, {"", "ratio"}}
	for _, d := range c.distances {
		ours, has := row.ours(d)
		peer, other := row.fastestPeer(d)
		texts := []string{"", "", ""}
		if has {
			texts[0] = figure(ours.OpsPerS)
		}
		if other {
			texts[1] = figure(peer.OpsPerS) + " " + peer.System
		}
		if has && other {
			texts[2] = figure(ours.OpsPerS / peer.OpsPerS)
			if ours.OpsPerS < peer.OpsPerS {
				texts[2] = slower(texts[2])
			}
		}
		for i, text := range texts {
			lines[i] = append(lines[i], text)
		}
	}
	return lines
}

// conditions says how to read the table.
func (c *comparison) conditions() string {
	return "Operations/s. Ratio: zkactors to the fastest peer. Systems that failed or hung are left out. " +
		"A read took " + strings.Join(c.trips, ", ") + " ms (median)."
}

// text returns the table for a terminal.
func (c *comparison) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nby distance, %s\n  %s\n", c.kind, strings.Join(c.head(), "\t"))
	for _, row := range c.rows {
		for _, line := range c.cells(row, func(s string) string { return s + " slower" }) {
			fmt.Fprintln(&b, "  "+strings.Join(line, "\t"))
		}
	}
	fmt.Fprintln(&b, c.conditions())
	return b.String()
}

// markdown returns the table in Markdown.
func (c *comparison) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## By distance, %s\n\n%s\n\n", c.kind, c.conditions())
	fmt.Fprintf(&b, "| %s |\n|---|---|%s\n", strings.Join(c.head(), " | "), strings.Repeat("---:|", len(c.distances)))
	for _, row := range c.rows {
		for _, line := range c.cells(row, func(s string) string { return "**" + s + "**" }) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		}
	}
	return b.String()
}
