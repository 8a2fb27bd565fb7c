package queue

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/zkactors/zkactors/session"
)

// A claimed is an item that a consumer has claimed, or is to claim.
type claimed struct {
	place place
	data  []byte
	record
	since   int64 // when it was first put, in ms by the server's clock
	version int32 // of the item

	ephemeral bool // set if the item belongs to its producer's session
}

// itemOf returns the item that was read. An item of an earlier client has no record: once it was
// written to, the number of its deliveries precedes its data.
func itemOf(p place, data []byte, stat *session.Stat) claimed {
	c := claimed{place: p, data: data, version: stat.Version, ephemeral: stat.EphemeralOwner != 0}
	switch infixOf(p.name) {
	case itemInfix:
		c.record, c.data = parseRecord(data)
	case earlierInfix:
		head, rest, ok := bytes.Cut(data, []byte("\n"))
		if n, err := strconv.Atoi(string(head)); ok && err == nil && stat.Version > 0 {
			c.Attempts, c.data = n, rest
		}
	}
	c.since = cmp.Or(c.Put, stat.Ctime)
	return c
}

// written returns the data of the node of an item that has the record. That of an earlier client
// keeps the attempts alone, which those clients read too.
func (c claimed) written(r record) []byte {
	if infixOf(c.place.name) == earlierInfix {
		return append([]byte(strconv.Itoa(r.Attempts)+"\n"), c.data...)
	}
	return r.with(c.data)
}

// next returns the item as it is after it was claimed. Its record remains the one before the claim,
// with which it is taken back.
func (c claimed) next() claimed {
	c.version++
	return c
}

// before undoes next.
func (c claimed) before() claimed {
	c.version--
	return c
}

// attempted returns the record of the item after a reader has received it.
func (c claimed) attempted() record {
	c.Attempts++
	c.Tentative = false
	return c.record
}

// rejected returns the record of the item after a reader has given it back.
func (c claimed) rejected(cause string) record {
	r := c.attempted()
	r.Cause = bounded(cause)
	return r
}

// A claimID names a claim of a consumer. The version tells two claims of one item apart.
type claimID struct {
	place   place
	version int32
}

// id returns the name of the claim that the consumer has on the item.
func (c claimed) id() claimID { return claimID{c.place, c.version} }
