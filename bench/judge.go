package main

import (
	"fmt"
	"slices"
)

const (
	// floor is the part by which a row may fall behind in any case: a change that only moves code
	// in memory may cost that much.
	floor = 0.05

	// widest is the greatest spread of a row that is found to be level.
	widest = 0.1

	// chance is the greatest probability that the true median is below an interval, and likewise
	// above it.
	chance = 0.025
)

// An interval contains the true median of some ratios with a probability of 95 %, by the sign test,
// which assumes nothing about their distribution. The zero interval says nothing.
type interval struct{ low, median, high float64 }

// intervalOf returns the interval of ratios, or the zero interval if they are fewer than six.
func intervalOf(ratios []float64) interval {
	n, out := len(ratios), outside(len(ratios))
	if out < 0 {
		return interval{}
	}
	sorted := slices.Sorted(slices.Values(ratios))
	return interval{sorted[out], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1-out]}
}

// outside returns how many of n ratios are below their interval, and as many are above it; -1 if n
// is too small. A ratio is below the true median with a probability of a half, so the number of
// ratios below it is binomial.
func outside(n int) int {
	exactly := 1.0 // the probability of exactly k
	for range n {
		exactly /= 2
	}
	atMost := 0.0
	for k := range n {
		if atMost += exactly; atMost > chance {
			return k - 1
		}
		exactly *= float64(n-k) / float64(k+1)
	}
	return -1
}

// spread returns the width of the interval as a part of its median.
func (i interval) spread() float64 { return (i.high - i.low) / i.median }

// width returns the spread for readers.
func (i interval) width() string {
	if i == (interval{}) {
		return "unknown"
	}
	return fmt.Sprintf("%.0f %%", 100*i.spread())
}

// String returns the median, and the interval in parentheses.
func (i interval) String() string {
	if i == (interval{}) {
		return "unknown"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", i.median, i.low, i.high)
}

// A verdict is the outcome of a comparison.
type verdict int

const (
	notJudged verdict = iota // the spread is too large
	level                    // not behind by more than the spread and the floor
	behind                   // behind by more
)

// String returns what the table says.
func (v verdict) String() string { return [...]string{"NOT JUDGED", "level", "BEHIND"}[v] }

// A judgement is the verdict on one figure of a row.
type judgement struct {
	interval

	verdict verdict
}

// A quantity is a figure that the guard compares.
type quantity struct {
	name  string
	of    func(sample) float64
	less  bool   // set if less is better
	loses string // what a row does that is behind; %.0f is by how much
}

// quantities returns the figures that the guard compares.
func quantities() []quantity {
	return []quantity{
		{"operations/s", sample.rate, false, "%.0f %% fewer operations per second"},
		{"client CPU µs", sample.cpu, true, "%.0f %% more client CPU for an operation"},
	}
}

// ratios returns this commit's figure as a part of the accepted commit's, turn by turn.
func (q quantity) ratios(own, before []sample) (all []float64) {
	for turn := range min(len(own), len(before)) {
		if a, b := q.of(own[turn]), q.of(before[turn]); a > 0 && b > 0 {
			all = append(all, a/b)
		}
	}
	return all
}

// judge judges ratios. This commit is behind if its whole interval is, by more than the floor.
// Otherwise a spread that is too large may hide a loss.
func (q quantity) judge(ratios []float64) judgement {
	i := intervalOf(ratios)
	switch {
	case i == (interval{}):
		return judgement{i, notJudged}
	case q.less && i.low > 1+floor, !q.less && i.high < 1-floor:
		return judgement{i, behind}
	case i.spread() > widest:
		return judgement{i, notJudged}
	}
	return judgement{i, level}
}
