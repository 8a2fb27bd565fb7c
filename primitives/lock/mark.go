package lock

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// The marks of revocation, in the data of a contender's node:
//
//	unlock [ " " duration ] [ newline data ]    of the published recipe
//	__REVOKE__                                  of Curator
//
// The duration is after how long the lock will be taken away, as [time.Duration] prints
// it. Both are understood in every layout.
const (
	markPublished = "unlock"
	markCurator   = "__REVOKE__"
)

// unmark reads the data of a node: what its contender stored there, and the mark.
func unmark(data []byte) (own []byte, marked bool, force time.Duration) {
	if string(data) == markCurator {
		return nil, true, 0
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	word, after, timed := strings.Cut(string(first), " ")
	if word != markPublished {
		return data, false, 0
	}
	if timed {
		d, err := time.ParseDuration(after)
		if err != nil || d <= 0 {
			return data, false, 0
		}
		force = d
	}
	return rest, true, force
}

// marked implements [line.Recipe] Marked.
func marked(data []byte) (yes bool, force time.Duration) {
	_, yes, force = unmark(data)
	return yes, force
}

// mark returns the data of a node with the mark of the layout.
func (l Layout) mark(own []byte, force time.Duration) []byte {
	if l == Curator {
		return []byte(markCurator)
	}
	first := markPublished
	if force > 0 {
		first = fmt.Sprintf("%s %v", markPublished, force)
	}
	if len(own) == 0 {
		return []byte(first)
	}
	return append([]byte(first+"\n"), own...)
}
