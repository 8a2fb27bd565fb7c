package layout

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/zkactors/zkactors/session"
)

// A Claimed is an item that a consumer has claimed, or is to claim.
type Claimed struct {
	Place Place
	Data  []byte
	Record
	Since   int64 // when it was first put, in ms by the server's clock
	Version int32 // of the item

	Ephemeral bool // set if the item belongs to its producer's session
}

// ItemOf returns the item that was read. An item of an earlier client has no record: once it was
// written to, the number of its deliveries precedes its data.
func ItemOf(p Place, data []byte, stat *session.Stat) Claimed {
	c := Claimed{Place: p, Data: data, Version: stat.Version, Ephemeral: stat.EphemeralOwner != 0}
	switch InfixOf(p.Name) {
	case ItemInfix:
		c.Record, c.Data = parseRecord(data)
	case EarlierInfix:
		head, rest, ok := bytes.Cut(data, []byte("\n"))
		if n, err := strconv.Atoi(string(head)); ok && err == nil && stat.Version > 0 {
			c.Attempts, c.Data = n, rest
		}
	}
	c.Since = cmp.Or(c.Put, stat.Ctime)
	return c
}

// Written returns the data of the node of an item that has the record. That of an earlier client
// keeps the attempts alone, which those clients read too.
func (c Claimed) Written(r Record) []byte {
	if InfixOf(c.Place.Name) == EarlierInfix {
		return append([]byte(strconv.Itoa(r.Attempts)+"\n"), c.Data...)
	}
	return r.With(c.Data)
}

// Next returns the item as it is after it was claimed. Its record remains the one before the claim,
// with which it is taken back.
func (c Claimed) Next() *Claimed {
	c.Version++
	return &c
}

// Before undoes Next.
func (c Claimed) Before() *Claimed {
	c.Version--
	return &c
}

// attempted returns the record of the item after a reader has received it.
func (c Claimed) attempted() Record {
	c.Attempts++
	c.Tentative = false
	return c.Record
}

// Rejected returns the record of the item after a reader has given it back.
func (c Claimed) Rejected(cause string) Record {
	r := c.attempted()
	r.Cause = Bounded(cause)
	return r
}

// A ClaimID names a claim of a consumer. The version tells two claims of one item apart.
type ClaimID struct {
	place   Place
	version int32
}

// ID returns the name of the claim that the consumer has on the item.
func (c Claimed) ID() ClaimID { return ClaimID{c.Place, c.Version} }
