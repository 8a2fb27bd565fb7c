// Package layout says which nodes a queue has, what they are named, and what stands in them.
package layout

import (
	"cmp"
	"errors"
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
//	<path>/keys/<shard>/<hash>          persistent: an item was put with the ID of a caller
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
// The ID that a caller gives to an item has a node with the hash of the ID as its name. Its data
// are the ID of the item, a newline, and the caller's ID. The transaction that puts the item
// creates the node, at a place that every client knows: so only one of many succeeds. The node is
// never written to. When it is old, any client deletes it, by a transaction that writes to its
// shard, at the version that the shard had before the node was read: so the node was not deleted,
// and made again, meanwhile. The shard is persistent, as the versions of a container would begin
// anew, and has the time as data at which a client has last looked for old nodes, in ms by the
// server's clock.
//
// Each transaction begins with a write of its number to a receipt of its client, which is a marker
// of package once. So it cannot be done twice, and the receipt says whether it was done.
//
// A crash leaves, until the server expires the session, the client's receipts and claims. Every
// other write is one transaction: it leaves an item where it was, or where it belongs. An unsealed
// bucket without a successor takes items. The next producer gives a sealed bucket a successor.
const (
	ItemsDir     = "items"
	ClaimsDir    = "claims"
	ReceiptsDir  = "receipts"
	WaitersDir   = "waiters"
	ProducersDir = "producers"
	KeysDir      = "keys"
	DeadDir      = "dead"
	PausedNode   = "paused"
	ItemInfix    = "-item-"
	EarlierInfix = "-queue-" // of items of earlier clients
	waiterName   = "waiter-"
	wantsInfix   = "-for-" // before the number of items that a producer wants to put
	GUIDLength   = 36
	Digits       = 10
	second       = 1_000  // ms
	Minute       = 60_000 // ms

	// BucketSize is about the number of items that are put into a bucket before it is sealed: items
	// that are on their way come too, a few transactions of each handle. A list of a full bucket
	// takes 64 KiB.
	BucketSize = 1000
)

// A Bucket is a directory of items.
type Bucket struct {
	Priority int32
	Number   int  // the minute in which its items are due, if they are delayed
	After    bool // whether they are
	Second   int  // of the minute
	Part     int  // of the second, counted from 1; 0 for the bucket of the minute
}

// Delayed returns the first bucket of the items that are due at the time, in ms since 1970.
func Delayed(priority int32, due int64) Bucket {
	return Bucket{Priority: priority, Number: int(due / Minute), After: true}
}

// Overflow returns the bucket of the items that are due at the time when this one is full.
func (b Bucket) Overflow(due int64) Bucket {
	b.Second = secondOf(due)
	b.Part++
	return b
}

// First returns the bucket by which the handle knows where the items of its minute, or second, go.
func (b Bucket) First() Bucket {
	b.Part = min(b.Part, 1)
	return b
}

func secondOf(due int64) int { return int(due % Minute / second) }

// Begins returns the time, in ms since 1970, before which no item of a delayed bucket is due.
func (b Bucket) Begins() int64 { return int64(b.Number)*Minute + int64(b.Second)*second }

// Ends returns the time at which all its items are due.
func (b Bucket) Ends() int64 {
	if b.Part == 0 {
		return b.Begins() + Minute
	}
	return b.Begins() + second
}

// Name returns the name of its node.
func (b Bucket) Name() string {
	return nodes.Bucket{Priority: b.Priority, Number: b.Number, After: b.After, Second: b.Second, Part: b.Part}.String()
}

// ParseBucket returns the bucket with the name, and false if no bucket has it.
func ParseBucket(name string) (Bucket, bool) {
	b, ok := nodes.ParseBucket(name)
	return Bucket{b.Priority, b.Number, b.After, b.Second, b.Part}, ok
}

// Compare orders buckets as their items are delivered.
func (b Bucket) Compare(c Bucket) int {
	switch {
	case b.Priority != c.Priority:
		return cmp.Compare(b.Priority, c.Priority)
	case b.After != c.After && b.After:
		return -1
	case b.After != c.After:
		return 1
	}
	return cmp.Or(cmp.Compare(b.Number, c.Number), cmp.Compare(b.Second, c.Second), cmp.Compare(b.Part, c.Part))
}

// A Place is the path of an item, and the bucket that it stands in.
type Place struct {
	Bucket Bucket
	Name   string // of its node
}

// Turn returns the bucket as which the item is delivered: an item of the bucket of a minute comes
// before those of the buckets of its second.
func (p Place) Turn() Bucket {
	b := p.Bucket
	if b.After && b.Part == 0 {
		b.Second = secondOf(DueOf(p.Name))
	}
	return b
}

// Compare orders items as they are delivered.
func (p Place) Compare(q Place) int {
	return cmp.Or(p.Turn().Compare(q.Turn()), cmp.Compare(DueOf(p.Name), DueOf(q.Name)), int(SequenceOf(p.Name)-SequenceOf(q.Name)))
}

// ItemName returns the name of an item, without the sequence. It is due at the time, or not delayed
// if the time is 0.
func ItemName(id string, due int64) string {
	if due > 0 {
		return znode.GUIDName(id, fmt.Sprintf("%s%d%s", nodes.AfterInfix[1:], due, ItemInfix))
	}
	return znode.GUIDName(id, ItemInfix[1:])
}

// DueOf returns the time at which an item is due, and 0 if it is not delayed.
func DueOf(name string) int64 {
	_, rest, _ := strings.Cut(name, nodes.AfterInfix)
	due, _, _ := strings.Cut(rest, "-")
	ms, _ := strconv.ParseInt(due, 10, 64)
	return ms
}

// ID returns the ID of an item in the standard layout.
func (p Place) ID() string {
	return strings.TrimPrefix(p.Name, "_c_")[:GUIDLength]
}

// LongestPlace returns the place of an item whose path is as long as it can be.
func LongestPlace(id string) Place {
	return Place{Bucket{0, math.MaxInt32, true, 59, math.MaxInt32}, ItemName(id, math.MaxInt64) + "-2147483648"}
}

// ParseItem reports whether an item of the standard layout has the name.
func ParseItem(name string) bool { return InfixOf(name) != "" }

// InfixOf returns the part of the name of an item that says which clients have put it, and "" if no
// item of the standard layout has the name.
func InfixOf(name string) string {
	rest, ok := strings.CutPrefix(name, "_c_")
	if !ok || len(rest) < GUIDLength {
		return ""
	}
	rest = rest[GUIDLength:]
	if after, ok := strings.CutPrefix(rest, nodes.AfterInfix); ok {
		due, _, _ := strings.Cut(after, "-")
		if _, err := strconv.ParseUint(due, 10, 63); err != nil {
			return ""
		}
		rest = after[len(due):]
	}
	for _, infix := range []string{ItemInfix, EarlierInfix} {
		if sequence, ok := strings.CutPrefix(rest, infix); ok {
			if _, err := strconv.ParseInt(sequence, 10, 32); err == nil {
				return infix
			}
		}
	}
	return ""
}

// WaiterOf returns the name of a waiter, without the sequence. A producer says how many items it
// wants to put, if these are several.
func WaiterOf(id string, wants int) string {
	if wants > 1 {
		return znode.GUIDName(id, fmt.Sprintf("%s%d-%s", wantsInfix[1:], wants, waiterName))
	}
	return znode.GUIDName(id, waiterName)
}

// ParseWaiter returns how many items the waiter with the name wants to put, at least 1, and whether
// a waiter has the name.
func ParseWaiter(name string) (wants int, ok bool) {
	rest, ok := strings.CutPrefix(name, "_c_")
	if !ok || len(rest) < GUIDLength {
		return 0, false
	}
	rest, wants = rest[GUIDLength:], 1
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

// IsWaiter reports whether a waiter has the name.
func IsWaiter(name string) bool {
	_, ok := ParseWaiter(name)
	return ok
}

// SequenceOf returns the number that the server has given to a node.
func SequenceOf(name string) int32 {
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

// SortItems sorts the names of one directory in the order in which the server has numbered them,
// which goes on from 2147483647 to -2147483648.
func SortItems(names []string) {
	type numbered struct {
		n    int32
		name string
	}
	all := make([]numbered, len(names))
	for i, name := range names {
		all[i] = numbered{SequenceOf(name), name}
	}
	slices.SortFunc(all, func(a, b numbered) int { return int(a.n - b.n) })
	for i := range all {
		names[i] = all[i].name
	}
}

// ErrForeign means that a node does not belong to the layout.
var ErrForeign = errors.New("not a queue of this layout")

// Foreign returns an error that names a node that does not belong to the layout.
func Foreign(dir, name string) error {
	return fmt.Errorf("%w: %s", ErrForeign, znode.Join(dir, name))
}

// ForeignChild is Foreign for a child of the path of a queue, which may show another recipe.
func ForeignChild(path, name string) error {
	if owner, _ := nodes.Whose(name); owner == nodes.OfQueue {
		return Foreign(path, name)
	}
	return fmt.Errorf("%w: %s: %w", ErrForeign, znode.Join(path, name), nodes.ForeignChild(name))
}

// ForeignData returns an error if the data of the path of a queue is the record of another recipe.
func ForeignData(data []byte) error {
	if nodes.Owner(data) == "" {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrForeign, nodes.ForeignData(data))
}

// A Tally is what producers of a bounded queue write to the directory of the receipts.
type Tally struct {
	Counted bool // whether the count is known
	Count   int  // of the items, at most
	Lined   bool // whether producers may stand in line
}

// inLine is the word for a line in the data of a tally.
const inLine = "line"

// Data returns the data of the directory.
func (t Tally) Data() []byte {
	var words []string
	if t.Counted {
		words = append(words, strconv.Itoa(t.Count))
	}
	if t.Lined {
		words = append(words, inLine)
	}
	return []byte(strings.Join(words, " "))
}

// ParseTally reads a tally. Nothing is known from data that no producer has written.
func ParseTally(data []byte) Tally {
	count, rest, _ := strings.Cut(string(data), " ")
	n, err := strconv.ParseUint(count, 10, 31)
	return Tally{err == nil, int(n), rest == inLine || count == inLine}
}
