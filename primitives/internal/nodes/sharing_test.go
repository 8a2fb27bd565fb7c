package nodes

import (
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestExcludes: a reader waits for all contenders ahead but for readers, any other contender for
// all.
func TestExcludes(t *testing.T) {
	for ahead, behind := range map[Kind]map[Kind]bool{
		Exclusive: {Exclusive: true, Read: true, Write: true},
		Read:      {Exclusive: true, Read: false, Write: true},
		Write:     {Exclusive: true, Read: true, Write: true},
	} {
		for kind, want := range behind {
			check.Equal(t, ahead.Excludes(kind), want, kind, "is excluded by", ahead)
		}
	}
}

// TestAhead: the holders are the first contender, or all readers before the first contender that
// excludes them.
func TestAhead(t *testing.T) {
	kinds := map[rune]Kind{'x': Exclusive, 'r': Read, 'w': Write}
	for line, want := range map[string]string{
		"":      "",
		"x":     "+",
		"xr":    "+-",
		"wr":    "+-",
		"ww":    "+-",
		"rrwr":  "++--",
		"rrxrr": "++---",
		"rw":    "+-",
		"wrr":   "+--",
	} {
		var ahead Ahead
		got := ""
		for _, c := range line {
			got += map[bool]string{true: "+", false: "-"}[ahead.Holds(kinds[c])]
		}
		check.Equal(t, got, want, "holders of", line)
	}
}

// TestDowngraded: the reader has the name of the writer, but for the mark.
func TestDowngraded(t *testing.T) {
	const guid = "01234567-89ab-4cde-8f01-23456789abcd"
	for _, g := range []*Grammar{&StandardLock, &CuratorLock, &KazooLock, &PriorityLock} {
		writer, reader := g.Name(guid, Write)+"0000000007", g.Name(guid, Read)+"0000000007"
		if got, ok := g.Downgraded(writer); !ok || got != reader {
			t.Errorf("%s becomes %s, %v, want %s", writer, got, ok, reader)
		}
		for _, other := range []string{reader, "", "config", fmt.Sprint(writer, "x")} {
			if got, ok := g.Downgraded(other); ok {
				t.Errorf("%s becomes %s", other, got)
			}
		}
	}
}

// TestWaits: a reader does not count readers, all others count every contender.
func TestWaits(t *testing.T) {
	var ahead Ahead
	for kind, count := range map[Kind]int{Exclusive: 2, Read: 3, Write: 1} {
		for range count {
			ahead.Add(kind)
		}
	}
	for kind, want := range map[Kind]int{Exclusive: 6, Read: 3, Write: 6} {
		check.Equal(t, ahead.Waits(kind), want, kind, "waits for")
	}
}
