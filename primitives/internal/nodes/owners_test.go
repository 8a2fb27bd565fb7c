package nodes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

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
