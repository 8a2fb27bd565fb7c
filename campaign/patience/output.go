package patience

import (
	"regexp"
	"slices"
	"strings"
)

// Of what a test binary prints with -test.v=test2json: each line of the package testing begins with
// a mark, so that what tests print themselves is not taken for it.
const mark = "\x16"

var (
	started = regexp.MustCompile(mark + `=== (?:RUN|CONT|NAME) +(\S+)`)
	ended   = regexp.MustCompile(mark + `--- (PASS|FAIL|SKIP): (\S+)`)
	tooLong = regexp.MustCompile(`(?m)^panic: test timed out after`)
)

// An output is what the output of a run that has failed says.
type output struct {
	failed []string // tests that have failed, or that ran last; without tests that failed because of a part
	hung   bool
	text   string // without marks
}

// parse reads the output of a run that has failed. If no test has reported a failure, the test that
// ran last has it. If no test ran, the package has it: goleak reports so.
func parse(text string) output {
	o := output{text: strings.ReplaceAll(text, mark, ""), hung: tooLong.MatchString(text)}
	over := map[string]bool{}
	for _, m := range ended.FindAllStringSubmatch(text, -1) {
		over[m[2]] = true
		if m[1] == "FAIL" {
			o.failed = append(o.failed, m[2])
		}
	}
	if len(o.failed) == 0 {
		all := started.FindAllStringSubmatch(text, -1)
		slices.Reverse(all)
		if i := slices.IndexFunc(all, func(m []string) bool { return !over[m[1]] }); i >= 0 {
			o.failed = []string{all[i][1]}
		}
	}
	slices.Sort(o.failed)
	o.failed = slices.Compact(o.failed)
	o.failed = slices.DeleteFunc(o.failed, func(name string) bool {
		return slices.ContainsFunc(o.failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
	return o
}
