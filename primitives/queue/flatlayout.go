package queue

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
)

// A Layout determines which nodes are the items of a [Flat].
type Layout int

const (
	// Curator is the layout of Curator's SimpleDistributedQueue, and of ZooKeeper's own recipe:
	// qn-<sequence> under the path.
	Curator Layout = iota + 1

	// Kazoo is the layout of kazoo's Queue: entry-100-<sequence> under the path, where 100 is the
	// priority. Items with another priority are taken in their order. The path stays when it is
	// empty. kazoo's LockingQueue has a different layout, which this package does not have.
	Kazoo
)

// prefix returns the prefix of the items that are put.
func (l Layout) prefix() string {
	return [...]string{Curator: "qn-", Kazoo: "entry-100-"}[l]
}

// owns reports whether an item has the name.
func (l Layout) owns(name string) bool {
	prefix := l.prefix()
	if l == Kazoo {
		rest, ok := strings.CutPrefix(name, "entry-")
		priority, _, _ := strings.Cut(rest, "-")
		if _, err := strconv.ParseUint(priority, 10, 31); !ok || err != nil || len(priority) < 3 {
			return false
		}
		prefix = "entry-" + priority + "-"
	}
	sequence, ok := strings.CutPrefix(name, prefix)
	_, err := strconv.ParseInt(sequence, 10, 32)
	return ok && err == nil && len(sequence) >= layout.Digits
}

// sort sorts the names of items in the order in which they are taken. It returns a name that is no
// item's, if there is one.
func (l Layout) sort(names []string) (foreign string) {
	if i := slices.IndexFunc(names, func(name string) bool { return !l.owns(name) }); i >= 0 {
		return names[i]
	}
	layout.SortItems(names)
	if l == Kazoo {
		slices.SortStableFunc(names, func(a, b string) int { return kazooPriority(a) - kazooPriority(b) })
	}
	return ""
}

func kazooPriority(name string) int {
	n, _ := strconv.Atoi(strings.Split(name, "-")[1])
	return n
}
