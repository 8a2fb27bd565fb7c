package contender

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zkactors/zkactors/primitives/internal/line"
)

// Identity returns the data for a contender's node: the caller's data, or host:pid if that is nil.
// Data that is empty, but not nil, stays empty.
func Identity(given []byte) []byte {
	if given == nil {
		return process() // it is never written to
	}
	return slices.Clone(given)
}

// process is the identity of this process.
var process = sync.OnceValue(func() []byte { //nolint:gochecknoglobals // it is constant
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Appendf(nil, "%s:%d", host, os.Getpid())
})

// longestIdentity is the number of bytes that are kept of another contender's data.
const longestIdentity = 64

func obstacleOf(data []byte, ctime int64) line.Obstacle {
	return line.Obstacle{Identity: string(data[:min(len(data), longestIdentity)]), Since: ctime}
}

// describe describes the contender ahead for an error text: its identity, and whether it holds.
func describe(o line.Obstacle, holds bool, node string, now time.Time) string {
	who := o.Identity
	switch {
	case who == "":
		who = node
	case !utf8.ValidString(who) || strings.ContainsFunc(who, func(r rune) bool { return !unicode.IsPrint(r) }):
		who = strconv.Quote(who)
	}
	if o.NoSession {
		once := ""
		if who != node {
			once = ", once of " + who
		}
		who = "the node " + node + " of no session, which has to be deleted" + once
	}
	age := max(0, now.Sub(time.UnixMilli(o.Since))).Round(time.Millisecond) // clocks differ
	if age > time.Second {
		age = age.Round(time.Second)
	}
	if holds {
		return fmt.Sprintf("held by %s, in line since %v", who, age)
	}
	return fmt.Sprintf("waits behind %s, in line since %v", who, age)
}
