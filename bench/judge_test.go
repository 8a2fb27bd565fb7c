package main

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// around returns n ratios around a median, at even distances. The smallest and the greatest are
// that far from it.
func around(median, far float64, n int) (ratios []float64) {
	for i := range n {
		ratios = append(ratios, median+far*(2*float64(i)/float64(n-1)-1))
	}
	return ratios
}

// TestJudge: a loss is reported if it is greater than the spread and the floor, and a spread that
// may hide one is, too.
func TestJudge(t *testing.T) {
	speed, cpu := quantities()[0], quantities()[1]
	for _, row := range []struct {
		name   string
		ratios []float64
		speed  verdict
		cpu    verdict
	}{
		{"the same in each turn", around(1, 0, 12), level, level},
		{"a spread of nearly a tenth", around(1, 0.075, 12), level, level},
		{"twice as large a spread", around(1, 0.15, 12), notJudged, notJudged},
		{"the same in five times as many turns", around(1, 0.15, 60), level, level},
		{"within the floor below", around(0.96, 0.01, 12), level, level},
		{"within the floor above", around(1.04, 0.01, 12), level, level},
		{"beyond the floor, and not by more than the spread", around(0.93, 0.07, 12), level, level},
		{"a tenth less", around(0.90, 0.04, 12), behind, level},
		{"a tenth more", around(1.10, 0.04, 12), level, behind},
		{"a third less, with a large spread", around(0.66, 0.3, 12), behind, notJudged},
		{"a half more, with a large spread", around(1.5, 0.5, 12), notJudged, behind},
		{"one turn that was stopped", append(around(1, 0.02, 11), 0.01), level, level},
		{"one turn in six that was stopped", append(around(1, 0.02, 5), 0.01), notJudged, notJudged},
		{"too few turns", around(0.5, 0, 5), notJudged, notJudged},
		{"none", nil, notJudged, notJudged},
	} {
		check.Equal(t, speed.judge(row.ratios).verdict, row.speed, row.name, "as a speed")
		check.Equal(t, cpu.judge(row.ratios).verdict, row.cpu, row.name, "as CPU time")
	}
}

// TestOutside: the numbers are those of tables of the sign test.
func TestOutside(t *testing.T) {
	for n, want := range map[int]int{0: -1, 5: -1, 6: 0, 8: 0, 9: 1, 12: 2, 20: 5, 25: 7, 30: 9, 40: 13} {
		check.Equal(t, outside(n), want, n)
	}
}

func TestInterval(t *testing.T) {
	ratios := []float64{1.2, 0.7, 1.0, 0.9, 1.1, 0.8, 1.3, 1.4, 1.5}
	before := slices.Clone(ratios)
	check.Equal(t, intervalOf(ratios), interval{0.8, 1.1, 1.4})
	check.Equal(t, intervalOf(append(ratios, 2)).String(), "1.15 (0.80 to 1.50)")
	check.EqualSlices(t, ratios, before)
}
