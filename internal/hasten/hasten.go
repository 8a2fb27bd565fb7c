// Package hasten is for the TestMain of packages whose tests make much garbage.
package hasten

import (
	"flag"
	"runtime/debug"
)

// percent is by how much the heap grows between two collections. Hardly anything of a world in a
// test lives, and collections took a third of the time.
const percent = 800

// Tests has little garbage collected, unless there are benchmarks to run. It parses the flags.
func Tests() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}
