package nodes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file has the record of a two-phase commit, and the names of its ballots.

// The kinds of a ballot's name, before the name of the site. Kinds in capitals say that the
// node has data.
const (
	Unvoted           = "s-"
	VotedYes          = "y-"
	VotedYesWithData  = "Y-"
	VotedNo           = "n-"
	VotedNoWithData   = "N-"
	CoordinatorPrefix = "c-" // before the name of a coordinator
)

// ParseBallot splits the name of a ballot into its kind and the site. The kind is "" if the name is
// too short.
func ParseBallot(name string) (kind, site string) {
	if len(name) < len(Unvoted) {
		return "", ""
	}
	return name[:len(Unvoted)], name[len(Unvoted):]
}

// A Transaction is the content of the node of a two-phase commit: a line of JSON, and then the
// payload. The types of its mode M and of its outcome O belong to package commit.
type Transaction[M, O any] struct {
	ID string `json:"-"` // the name of the node

	GUID          string        `json:"guid"`
	Mode          M             `json:"mode"`
	Sites         []string      `json:"sites"`
	Deadline      time.Duration `json:"deadline"`
	TakeoverAfter time.Duration `json:"takeoverAfter"`
	Keep          bool          `json:"record,omitempty"`
	Outcome       *O            `json:"outcome,omitempty"` // nil until the transaction is decided
	Payload       []byte        `json:"-"`
}

// TransactionPrefix begins the record of every transaction.
const TransactionPrefix = `{"guid":"`

// Bytes returns the record.
func (r *Transaction[M, O]) Bytes() []byte {
	header, err := json.Marshal(r)
	if err != nil {
		panic("commit: " + err.Error()) // there is nothing in it that cannot be encoded
	}
	return slices.Concat(header, []byte("\n"), r.Payload)
}

// With returns the record with the outcome.
func (r *Transaction[M, O]) With(o O) *Transaction[M, O] {
	decided := *r
	decided.Outcome = &o
	return &decided
}

// ParseTransaction reads the record of the transaction with the id.
func ParseTransaction[M, O any](id string, data []byte) (*Transaction[M, O], error) {
	header, payload, _ := bytes.Cut(data, []byte("\n"))
	r := &Transaction[M, O]{}
	if err := json.Unmarshal(header, r); err != nil {
		return nil, fmt.Errorf("the record does not decode: %w", err)
	}
	if r.GUID == "" || len(r.Sites) == 0 {
		return nil, errors.New("the record names no sites")
	}
	r.ID, r.Payload = id, payload
	return r, nil
}
