package line

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
)

// Identity returns what a contender's node carries: the data that the caller has given, or host:pid
// if that is nil. Data that are empty, but not nil, are nothing.
func Identity(given []byte) []byte {
	if given == nil {
		return process() // is never written to
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

// An obstacle is a contender ahead that is watched, as it was read when the watch was set.
type obstacle struct {
	identity string // the beginning of its data; "" if it carries none, or was not read
	since    int64  // when its node was created, in milliseconds by the server's clock
}

// longestIdentity is the number of bytes of another contender's data that are kept.
const longestIdentity = 64

func obstacleOf(data []byte, ctime int64) obstacle {
	return obstacle{string(data[:min(len(data), longestIdentity)]), ctime}
}

// describe says what stands in the way: the contender with the node, and whether it holds.
func (o obstacle) describe(holds bool, node string, now time.Time) string {
	who := o.identity
	switch {
	case who == "":
		who = node
	case !utf8.ValidString(who) || strings.ContainsFunc(who, func(r rune) bool { return !unicode.IsPrint(r) }):
		who = strconv.Quote(who)
	}
	age := max(0, now.Sub(time.UnixMilli(o.since))).Round(time.Millisecond) // clocks differ
	if age > time.Second {
		age = age.Round(time.Second)
	}
	if holds {
		return fmt.Sprintf("held by %s, in line since %v", who, age)
	}
	return fmt.Sprintf("waits behind %s, in line since %v", who, age)
}
