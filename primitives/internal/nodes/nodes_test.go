package nodes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func parse(name string) (int32, bool) {
	c, ok := (&Grammar{Separated: true, Marks: []Mark{{Text: "lock-"}}}).Parse(name)
	return c.Number, ok
}

func TestParse(t *testing.T) {
	for name, want := range map[string]int32{
		"lock-0000000000": 0,
		"_c_3f0a1c5e-8f5b-4a26-9d4f-7a8d2f6c1b00-lock-0000000001": 1,
		"_c_3f0a1c5e8f5b4a269d4f7a8d2f6c1b00-lock-0000000017":     17,
		"3f0a1c5e8f5b4a269d4f7a8d2f6c1b00-lock-0000000003":        3,
		"a-lock-b-lock-0000000004":                                4,
		"lock-2147483647":                                         math.MaxInt32,
		"lock--2147483648":                                        math.MinInt32,
		"x-lock--1000000000":                                      -1000000000,
		"x-lock--999999999":                                       -999999999,
		"x-lock--000000001":                                       -1,
	} {
		if got, ok := parse(name); !ok || got != want {
			t.Errorf("parse(%q) = %d, %v, want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"", "config", "_c_", "_c_x", "lock", "lock-", "lock-x", "lock--", "nested", "ключ", "lock-００００００００００",
		"lock-1", "lock-000000001", "lock-00000000011", "lock-2147483648", "lock-9999999999", "lock--2147483649",
		"lock-+000000001", "lock--000000000", "lock--0000000001", "lock--00000001", "lock-0000000001x", "lock-0x00000001",
		"block-0000000001", "__lock__0000000001", "lock-0000000001/nested", "lock-0000000001-", "lock-_000000001",
	} {
		if n, ok := parse(name); ok {
			t.Errorf("%q is taken for contender %d", name, n)
		}
	}
}

// The server's own format is read back, whatever the number.
func TestParseWhatTheServerPrints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		n := int32(r.Uint32()) >> r.IntN(32)
		got, ok := parse(fmt.Sprintf("lock-%010d", n))
		check.Require(t, ok && got == n, "%d is read as %d, %v", n, got, ok)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("lock-0000000001")
	f.Add("_c_x-lock--2147483648")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := parse(name)
		check.False(t, ok && !strings.HasSuffix(name, fmt.Sprintf("lock-%010d", n)), "%q is taken for contender %d", name, n)
	})
}

func TestIsContender(t *testing.T) {
	for name, want := range map[string]bool{
		"lock-0000000001":  true,
		"x-lock-000000001": false,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lock--2147483648": true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-read-0000000001":  true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-write-0000000001": true,

		"_c_01234567-89ab-4cde-8f01-23456789abcd-p1000-write-0000000001": true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-__READ__0000000001":     true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-__WRIT__0000000001":     true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-latch-0000000001":       true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lease-0000000001":       true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lease-7-0000000001":     true,
		"0123456789abcdef0123456789abcdef__lock__0000000001":             true,
		"0123456789abcdef0123456789abcdef__rlock__0000000001":            true,
		"0123456789abcdef0123456789abcdef":                               true,
		"0123456789abcdef0123456789abcdeg":                               false,
		"0123456789abcdef0123456789abcde":                                false,
		"n_0000000001":                                                   true,
		"column_0000000001":                                              false,
		"x-72057594037927936-0000000001":                                 true,
		"x--72057594037927936-0000000001":                                true,
		"x-01a2b3c4d5e6f708-0000000001":                                  true,
		"x-0000000001":                                                   false,
		"x--0000000001":                                                  false,
		"x-y-0000000001":                                                 false,
		"x-1-1":                                                          false,
		"holder":                                                         false,
		"readers":                                                        false,
		"leases":                                                         false,
		"config":                                                         false,
		"relock-0000000001":                                              false,
		"queue-0000000001":                                               false,
		"":                                                               false,
	} {
		check.Equal(t, IsContender(name), want, name)
	}
}

// TestIsUnknown: names that end with a server's number, and are of no layout or recipe.
func TestIsUnknown(t *testing.T) {
	const guid = "_c_01234567-89ab-4cde-8f01-23456789abcd-"
	hex := strings.Repeat("0123456789abcdef", 2)
	for name, want := range map[string]bool{
		"0000000000":                           true,
		"2147483647":                           true,
		"-000000001":                           false,
		"-2147483648":                          true,
		"x-0000000001":                         true,
		"x--2147483648":                        true,
		"client10000000001":                    true,
		"order-0000000001":                     true,
		guid + "foo-0000000003":                true,
		guid + "lock0000000003":                true,
		guid + "p10x0-foo-0000000001":          true,
		"relock-0000000001":                    true,
		"lock-x-0000000001":                    true,
		guid + "lock-0000000001":               false,
		guid + "lock--2147483648":              false,
		guid + "read-0000000001":               false,
		guid + "write-0000000001":              false,
		guid + "__READ__0000000001":            false,
		guid + "__WRIT__0000000001":            false,
		guid + "latch-0000000001":              false,
		guid + "n_0000000001":                  false,
		guid + "lease-0000000001":              false,
		guid + "lease-7-0000000001":            false,
		guid + "p1000-write-0000000001":        false,
		hex + "__lock__0000000001":             false,
		hex + "__rlock__0000000001":            false,
		strings.Repeat("0123456789", 3) + "01": false, // kazoo's lease
		"lock-0000000001":                      false,
		"n_0000000001":                         false,
		"x-93a1-0000000001":                    false,
		"qn-0000000001":                        false,
		"queue-0000000001":                     false,
		"entry-100-0000000001":                 false,
		"member_0000000001":                    false,
		"0000000001 ":                          false,
		"host-123456789":                       false,
		"x-9999999999":                         false,
		"x-000000001":                          false,
		"x-000000000a":                         false,
		"x-000000001-":                         false,
		"+000000001":                           false,
		"config":                               false,
		"_lock-delays":                         false,
		"":                                     false,
	} {
		check.Equal(t, IsUnknown(name), want, name)
	}
}

// BenchmarkIsUnknown: a line may have thousands of contenders, and lists are read often.
func BenchmarkIsUnknown(b *testing.B) {
	for _, name := range []string{
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lock-0000000001", "_c_01234567-89ab-4cde-8f01-23456789abcd-n_0000000001",
		"0123456789abcdef0123456789abcdef__lock__0000000001", "config",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				IsUnknown(name)
			}
		})
	}
}

// TestForeign: the children of other recipes are recognised, and nodes of users' are not.
func TestForeign(t *testing.T) {
	const guid = "_c_01234567-89ab-4cde-8f01-23456789abcd-"
	hex := strings.Repeat("0123456789abcdef", 2)
	for _, c := range []struct {
		own      Recipe
		children string
		found    string // "" for nothing
	}{
		{OfLock, "", ""},
		{OfLock, guid + "lock-0000000001 " + guid + "p1000-write-0000000002 holder", ""},
		{OfLock, guid + "lease-0000000001", "a semaphore"},
		{OfLock, guid + "n_0000000001", "an election"},
		{OfLock, guid + "latch-0000000001", "an election"},
		{OfElection, guid + "lock-0000000001", "a lock"},
		{OfElection, hex + "__rlock__0000000001", "a lock"},
		{OfElection, "x-93a1-0000000001", "a lock"},
		{OfElection, "candidates leader", ""},
		{OfElection, "items receipts", "a queue"},
		{OfElection, "candidates items", "a queue"},
		{OfLock, "items", "a queue"},
		{OfLock, "items prices", ""}, // a directory of a user's
		{OfLock, "prices candidates", ""},
		{OfLock, "prices qn-0000000001", "a queue"},
		{OfLock, "queue-0000000001", "a queue"},
		{OfLock, "entry-100-0000000001", "a queue"},
		{OfLock, "leases", "a semaphore"},
		{OfLock, hex, "a semaphore"},
		{OfLock, "outcome", "a function that runs once"},
		{OfOnce, "outcome runners", ""},
		{OfLock, "plan members records shards", "shards"},
		{OfLock, "_sites", "transactions"},
		{OfTransactions, "_sites _records", ""},
		{OfLock, hex + "__party__", "a group"},
		{OfLock, "x__party__ a", ""},
		{OfLock, "member_0000000001", "a service"},
		{OfLock, "lock- lock-1 member_1 qn-x _c_ entry-1 locksmith", ""},
	} {
		err := Foreign(c.own, strings.Fields(c.children))
		if c.found == "" {
			check.OK(t, err, c.own, "at", c.children)
			continue
		}
		check.Is(t, err, ErrForeign, c.own, "at", c.children)
		check.True(t, strings.Contains(fmt.Sprint(err), "belongs to "+c.found+":"), "%s at %s: %v", c.own, c.children, err)
	}
}

// TestOwner: records are told from data of users'.
func TestOwner(t *testing.T) {
	const guid = "01234567-89ab-4cde-8f01-23456789abcd"
	for data, want := range map[string]Recipe{
		"":                              "",
		"3":                             "", // may be a counter
		"3 unit":                        OfSemaphore,
		PriorityMark:                    OfPriorities,
		string(Latch{N: 2}.Bytes()):     OfLatch,
		Gate(guid):                      OfBarrier,
		"gate-keeper":                   "",
		`{"format":"zkactors shards 1"`: OfPlan,
		`{"guid":"g","sites":["a"]}`:    OfTransaction,
		`{"guid":"g"}`:                  "",
	} {
		check.Equal(t, Owner([]byte(data)), want, data)
	}
	for data, want := range map[string]bool{"": true, Gate(guid): true, "192.0.2.1": true, "::1": true, "mine": false, "gate-keeper": false} {
		check.Equal(t, IsBarrier([]byte(data)), want, data)
	}
}

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
