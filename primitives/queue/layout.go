package queue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// The nodes of a queue in the standard layout:
//
//	<path>                              a container, like every directory below it
//	<path>/items/<bucket>               some of the items of one priority
//	<path>/items/<bucket>/<item>        persistent: its record, and its data
//	<path>/items/paused                 persistent: nothing is claimed or taken
//	<path>/claims/<id>                  ephemeral: a consumer works on the item
//	<path>/receipts/<receipt>           ephemeral: says of a client's newest transaction that it was done
//	<path>/waiters/<waiter>             ephemeral: a consumer, or Take, waits for items
//	<path>/producers/<waiter>           ephemeral: a producer waits for room
//	<path>/dead                         the queue of the dead letters, unless that is elsewhere
//
// A bucket is named <priority>-<number>, ten digits each, with an offset that makes the order of
// the names the order of the priorities. An item is named _c_<id>-item-<sequence>, like the
// sequential nodes of the other recipes. Its data begins with its record (record.go). Items named
// _c_<id>-queue-<sequence>, or _c_<id>-after-<ms>-queue-<sequence>, were put by earlier clients,
// which refuse today's names. They have no record: once they were written to, their data begins
// with the number of deliveries, and a newline.
//
// Producers create items. The transaction checks that the bucket has version 0. A write to the
// bucket seals it: the same transaction makes the next bucket, and its first item. So no item can
// be put behind an item of a later bucket. The seal is also written to the directory of the items:
// a producer that makes a bucket without a seal, because it has found none to seal, checks its
// version. Consumers delete a sealed bucket that is empty; the server deletes an unsealed bucket
// that is empty, as a container.
//
// Delayed items stand in buckets named <priority>-after-<minute>, which are never sealed. The
// minute, counted since 1970, is the minute in which they are due. When that bucket is full, they
// stand in buckets of their second, <priority>-after-<minute>-<second>-<number>: in number 0, then
// 1, and so on. So a minute can have any number of items, and only the buckets whose time has come
// are listed. The names of delayed items are _c_<id>-after-<ms>-item-<sequence>. They come before
// the other items of their priority when they are due. Consumers delete an empty bucket whose time
// is over: a producer that is late makes it again.
//
// Take deletes an item, at its version. If the version is not 0, its transaction creates the claim
// and deletes it again, and is refused if a consumer has a claim. Consumers claim items: the
// transaction creates the claim, and writes the record of the item. So each claim has
// the version of its item: only its consumer can acknowledge it, by a transaction that deletes the
// claim, and the item at that version.
//
// Producers of a bounded queue write to <path>/receipts, at the version at which they have counted
// the items. So no two of them put items that were counted together. The receipt of the transaction
// was there before the count: the directory was not deleted, and made again, meanwhile. The data
// are the number of items, at most, and whether producers may stand in line. The name of
// a producer in line is _c_<id>-waiter-<sequence>, or _c_<id>-for-<n>-waiter-<sequence> if it has n
// items.
//
// Each transaction begins with a write of its number to a receipt of its client, which is a marker
// of package once. So it cannot be done twice, and the receipt says whether it was done.
//
// A crash leaves, until the server expires the session, the client's receipts and claims. Every
// other write is one transaction: it leaves an item where it was, or where it belongs. An unsealed
// bucket without a successor takes items. The next producer gives a sealed bucket a successor.
const (
	itemsDir     = "items"
	claimsDir    = "claims"
	receiptsDir  = "receipts"
	waitersDir   = "waiters"
	producersDir = "producers"
	deadDir      = "dead"
	pausedNode   = "paused"
	itemInfix    = "-item-"
	earlierInfix = "-queue-" // of items of earlier clients
	waiterName   = "waiter-"
	wantsInfix   = "-for-" // before the number of items that a producer wants to put
	guidLength   = 36
	digits       = 10
	second       = 1_000  // ms
	minute       = 60_000 // ms

	// bucketSize is about the number of items that are put into a bucket before it is sealed: items
	// that are on their way come too, a few transactions of each handle. A list of a full bucket
	// takes 64 KiB.
	bucketSize = 1000
)

// A bucket is a directory of items.
type bucket struct {
	priority int32
	number   int  // the minute in which its items are due, if they are delayed
	after    bool // whether they are
	second   int  // of the minute
	part     int  // of the second, counted from 1; 0 for the bucket of the minute
}

// delayed returns the first bucket of the items that are due at the time, in ms since 1970.
func delayed(priority int32, due int64) bucket {
	return bucket{priority: priority, number: int(due / minute), after: true}
}

// overflow returns the bucket of the items that are due at the time when this one is full.
func (b bucket) overflow(due int64) bucket {
	b.second = secondOf(due)
	b.part++
	return b
}

// first returns the bucket by which the handle knows where the items of its minute, or second, go.
func (b bucket) first() bucket {
	b.part = min(b.part, 1)
	return b
}

func secondOf(due int64) int { return int(due % minute / second) }

// begins returns the time, in ms since 1970, before which no item of a delayed bucket is due.
func (b bucket) begins() int64 { return int64(b.number)*minute + int64(b.second)*second }

// ends returns the time at which all its items are due.
func (b bucket) ends() int64 {
	if b.part == 0 {
		return b.begins() + minute
	}
	return b.begins() + second
}

// name returns the name of its node.
func (b bucket) name() string {
	return nodes.Bucket{Priority: b.priority, Number: b.number, After: b.after, Second: b.second, Part: b.part}.String()
}

// parseBucket returns the bucket with the name, and false if no bucket has it.
func parseBucket(name string) (bucket, bool) {
	b, ok := nodes.ParseBucket(name)
	return bucket{b.Priority, b.Number, b.After, b.Second, b.Part}, ok
}

// compare orders buckets as their items are delivered.
func (b bucket) compare(c bucket) int {
	switch {
	case b.priority != c.priority:
		return cmp.Compare(b.priority, c.priority)
	case b.after != c.after && b.after:
		return -1
	case b.after != c.after:
		return 1
	}
	return cmp.Or(cmp.Compare(b.number, c.number), cmp.Compare(b.second, c.second), cmp.Compare(b.part, c.part))
}

// A place is the path of an item, and the bucket that it stands in.
type place struct {
	bucket bucket
	name   string // of its node
}

// turn returns the bucket as which the item is delivered: an item of the bucket of a minute comes
// before those of the buckets of its second.
func (p place) turn() bucket {
	b := p.bucket
	if b.after && b.part == 0 {
		b.second = secondOf(dueOf(p.name))
	}
	return b
}

// compare orders items as they are delivered.
func (p place) compare(q place) int {
	return cmp.Or(p.turn().compare(q.turn()), cmp.Compare(dueOf(p.name), dueOf(q.name)), int(sequenceOf(p.name)-sequenceOf(q.name)))
}

// itemName returns the name of an item, without the sequence. It is due at the time, or not delayed
// if the time is 0.
func itemName(id string, due int64) string {
	if due > 0 {
		return znode.GUIDName(id, fmt.Sprintf("%s%d%s", nodes.AfterInfix[1:], due, itemInfix))
	}
	return znode.GUIDName(id, itemInfix[1:])
}

// dueOf returns the time at which an item is due, and 0 if it is not delayed.
func dueOf(name string) int64 {
	_, rest, _ := strings.Cut(name, nodes.AfterInfix)
	due, _, _ := strings.Cut(rest, "-")
	ms, _ := strconv.ParseInt(due, 10, 64)
	return ms
}

// id returns the ID of an item in the standard layout.
func (p place) id() string {
	return strings.TrimPrefix(p.name, "_c_")[:guidLength]
}

// longestPlace returns the place of an item whose path is as long as it can be.
func longestPlace(id string) place {
	return place{bucket{0, math.MaxInt32, true, 59, math.MaxInt32}, itemName(id, math.MaxInt64) + "-2147483648"}
}

// parseItem reports whether an item of the standard layout has the name.
func parseItem(name string) bool { return infixOf(name) != "" }

// infixOf returns the part of the name of an item that says which clients have put it, and "" if no
// item of the standard layout has the name.
func infixOf(name string) string {
	rest, ok := strings.CutPrefix(name, "_c_")
	if !ok || len(rest) < guidLength {
		return ""
	}
	rest = rest[guidLength:]
	if after, ok := strings.CutPrefix(rest, nodes.AfterInfix); ok {
		due, _, _ := strings.Cut(after, "-")
		if _, err := strconv.ParseUint(due, 10, 63); err != nil {
			return ""
		}
		rest = after[len(due):]
	}
	for _, infix := range []string{itemInfix, earlierInfix} {
		if sequence, ok := strings.CutPrefix(rest, infix); ok {
			if _, err := strconv.ParseInt(sequence, 10, 32); err == nil {
				return infix
			}
		}
	}
	return ""
}

// waiterOf returns the name of a waiter, without the sequence. A producer says how many items it
// wants to put, if these are several.
func waiterOf(id string, wants int) string {
	if wants > 1 {
		return znode.GUIDName(id, fmt.Sprintf("%s%d-%s", wantsInfix[1:], wants, waiterName))
	}
	return znode.GUIDName(id, waiterName)
}

// parseWaiter returns how many items the waiter with the name wants to put, at least 1, and whether
// a waiter has the name.
func parseWaiter(name string) (wants int, ok bool) {
	rest, ok := strings.CutPrefix(name, "_c_")
	if !ok || len(rest) < guidLength {
		return 0, false
	}
	rest, wants = rest[guidLength:], 1
	if several, ok := strings.CutPrefix(rest, wantsInfix); ok {
		number, _, _ := strings.Cut(several, "-")
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return 0, false
		}
		rest, wants = several[len(number):], int(n)
	}
	sequence, ok := strings.CutPrefix(rest, "-"+waiterName)
	_, err := strconv.ParseInt(sequence, 10, 32)
	return wants, ok && err == nil
}

// isWaiter reports whether a waiter has the name.
func isWaiter(name string) bool {
	_, ok := parseWaiter(name)
	return ok
}

// sequenceOf returns the number that the server has given to a node.
func sequenceOf(name string) int32 {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	if i > 1 && name[i-1] == '-' && name[i-2] == '-' {
		i--
	}
	n, _ := strconv.ParseInt(name[i:], 10, 64)
	return int32(n)
}

// sortItems sorts the names of one directory in the order in which the server has numbered them,
// which goes on from 2147483647 to -2147483648.
func sortItems(names []string) {
	type numbered struct {
		n    int32
		name string
	}
	all := make([]numbered, len(names))
	for i, name := range names {
		all[i] = numbered{sequenceOf(name), name}
	}
	slices.SortFunc(all, func(a, b numbered) int { return int(a.n - b.n) })
	for i := range all {
		names[i] = all[i].name
	}
}

// foreign returns an error that names a node that does not belong to the layout.
func foreign(dir, name string) error {
	return fmt.Errorf("%w: %s", ErrLayout, znode.Join(dir, name))
}

// A tally is what producers of a bounded queue write to the directory of the receipts.
type tally struct {
	counted bool // whether the count is known
	count   int  // of the items, at most
	lined   bool // whether producers may stand in line
}

// inLine is the word for a line in the data of a tally.
const inLine = "line"

// data returns the data of the directory.
func (t tally) data() []byte {
	var words []string
	if t.counted {
		words = append(words, strconv.Itoa(t.count))
	}
	if t.lined {
		words = append(words, inLine)
	}
	return []byte(strings.Join(words, " "))
}

// parseTally reads a tally. Nothing is known from data that no producer has written.
func parseTally(data []byte) tally {
	count, rest, _ := strings.Cut(string(data), " ")
	n, err := strconv.ParseUint(count, 10, 31)
	return tally{err == nil, int(n), rest == inLine || count == inLine}
}
