package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/workload"
)

// A row is the results of one scenario.
type row struct{ histories, voids, operations, violations, crashes, differences int }

// errTooWeak means that a control was found without fault.
var errTooWeak = errors.New("the campaign is too weak: it has found nothing in a lock that is known to fail")

// report prints the table of the scenarios with these names, and returns an error unless all is as
// it should be.
func report(out io.Writer, system workload.System, names []string, rows map[string]*row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "scenario\thistories\tvoid\toperations\twith violations\tcrashes\t")
	var sum row
	for _, name := range names {
		r := rows[name]
		if r == nil {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, r.histories, r.voids, r.operations, r.violations, r.crashes)
		sum = row{sum.histories + r.histories, sum.voids + r.voids, sum.operations + r.operations, sum.violations + r.violations, sum.crashes + r.crashes, sum.differences + r.differences}
	}
	_, _ = fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t%d\t\n", sum.histories, sum.voids, sum.operations, sum.violations, sum.crashes)
	if err := w.Flush(); err != nil {
		return err
	}
	switch judged := sum.histories - sum.voids - sum.crashes; {
	case system != workload.ZKActors && sum.violations == 0:
		return errTooWeak
	case system != workload.ZKActors:
		_, _ = fmt.Fprintf(out, "control %s: violations in %d of %d histories\n", system, sum.violations, judged)
		return nil
	case sum.violations+sum.crashes > 0:
		return fmt.Errorf("%d of %d histories break a promise, %d do not end", sum.violations, judged, sum.crashes)
	case sum.differences > 0:
		return fmt.Errorf("%d histories are others the second time", sum.differences)
	case judged >= ruled:
		_, _ = fmt.Fprintf(out, "no violation in %d histories: by the rule of three, one in less than %.2g %% of such histories, with 95 %% confidence\n", judged, 300/float64(judged))
	}
	return nil
}

// ruled is how many histories are enough for the rule of three, which is an approximation.
const ruled = 30

// list prints violations, up to a number.
func list(out io.Writer, all []judge.Violation, most int) {
	for i, v := range all {
		if i == most {
			_, _ = fmt.Fprintf(out, "  and %d more\n", len(all)-i)
			break
		}
		_, _ = fmt.Fprintf(out, "  %v\n", v)
	}
}
