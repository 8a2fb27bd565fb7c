// Package mark reads and writes the marks of revocation, in the data of a contender's node:
//
//	unlock [ " " duration ] [ newline data ]    of the published recipe
//	__REVOKE__                                  of Curator
//
// The duration is after how long the lock will be taken away, as [time.Duration] prints
// it. Both are understood in every layout.
package mark

import (
	"bytes"
	"fmt"
	"time"
)

const (
	published = "unlock"
	curator   = "__REVOKE__"
)

// Split reads the data of a node: the data that its contender stored there, and the mark.
func Split(data []byte) (own []byte, marked bool, force time.Duration) {
	if string(data) == curator {
		return nil, true, 0
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	word, after, timed := bytes.Cut(first, []byte(" "))
	if string(word) != published {
		return data, false, 0
	}
	if timed {
		d, err := time.ParseDuration(string(after))
		if err != nil || d <= 0 {
			return data, false, 0
		}
		force = d
	}
	return rest, true, force
}

// Read reports whether the data carry a mark, and after how long the lock is taken away; 0 for
// never.
func Read(data []byte) (yes bool, force time.Duration) {
	_, yes, force = Split(data)
	return yes, force
}

// Curator returns the data of a node with Curator's mark.
func Curator() []byte { return []byte(curator) }

// Published returns the data of a node with the mark of the published recipe.
func Published(own []byte, force time.Duration) []byte {
	first := published
	if force > 0 {
		first = fmt.Sprintf("%s %v", published, force)
	}
	if len(own) == 0 {
		return []byte(first)
	}
	return append([]byte(first+"\n"), own...)
}
