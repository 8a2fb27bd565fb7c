package commit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/session"
)

// The directories beside the transactions. Ids do not begin with _.
const (
	presences = "_sites"
	records   = "_records"
)

// The kinds of a ballot's name, before the name of the site. Kinds in capitals say that the
// node has data.
const (
	unvoted     = "s-"
	yes         = "y-"
	yesWithData = "Y-"
	no          = "n-"
	noWithData  = "N-"
	coordinator = "c-"
)

// A record is the content of a transaction's node: a line of JSON, and then the payload. Its
// outcome is nil until the transaction is decided. A record is not modified.
type record struct {
	id string // the name of the node

	GUID          string        `json:"guid"`
	Mode          Mode          `json:"mode"`
	Sites         []string      `json:"sites"`
	Deadline      time.Duration `json:"deadline"`
	TakeoverAfter time.Duration `json:"takeoverAfter"`
	Keep          bool          `json:"record,omitempty"`
	Outcome       *Outcome      `json:"outcome,omitempty"`
	Payload       []byte        `json:"-"`
}

func (r *record) encode() []byte {
	header, err := json.Marshal(r)
	if err != nil {
		panic("commit: " + err.Error()) // there is nothing in it that cannot be encoded
	}
	return slices.Concat(header, []byte("\n"), r.Payload)
}

// with returns the record with the outcome.
func (r *record) with(o Outcome) *record {
	decided := *r
	decided.Outcome = &o
	return &decided
}

// overdue returns the time after which a coordinator must have decided. Its summands may be as long as a
// [time.Duration] can be.
func (r *record) overdue() time.Duration {
	return r.Deadline + min(r.TakeoverAfter, math.MaxInt64-r.Deadline)
}

// errForeign means that a node is not the record of a transaction.
var errForeign = errors.New("the node is not a transaction's")

func decode(id string, data []byte) (*record, error) {
	header, payload, _ := bytes.Cut(data, []byte("\n"))
	r := &record{}
	if err := json.Unmarshal(header, r); err != nil {
		return nil, fmt.Errorf("%w: the record does not decode: %w", errForeign, err)
	}
	if r.GUID == "" || len(r.Sites) == 0 {
		return nil, fmt.Errorf("%w: the record names no sites", errForeign)
	}
	r.id, r.Payload = id, payload
	return r, nil
}

// A ballot is the state of a site, as the name of its node says.
type ballot struct {
	vote Vote
	data bool // the node has the vote's data
}

// name returns the name of the node for the site.
func (b ballot) name(site string) string {
	switch b {
	case ballot{Yes, false}:
		return yes + site
	case ballot{Yes, true}:
		return yesWithData + site
	case ballot{No, false}:
		return no + site
	case ballot{No, true}:
		return noWithData + site
	}
	return unvoted + site
}

// ballots are all that a list of a transaction's ballots says.
type ballots struct {
	of           map[string]ballot // by site; a site that is not in it has finished
	coordinators int
}

func parse(names []string) ballots {
	b := ballots{of: make(map[string]ballot, len(names))}
	for _, name := range names {
		if len(name) < len(unvoted) {
			continue
		}
		kind, site := name[:len(unvoted)], name[len(unvoted):]
		switch kind {
		case unvoted:
			b.of[site] = ballot{}
		case yes, yesWithData:
			b.of[site] = ballot{Yes, kind == yesWithData}
		case no, noWithData:
			b.of[site] = ballot{No, kind == noWithData}
		case coordinator:
			b.coordinators++
		}
	}
	return b
}

// finished reports whether a site has finished, so that the transaction is decided.
func (b ballots) finished(r *record) bool {
	return slices.ContainsFunc(r.Sites, func(site string) bool { _, there := b.of[site]; return !there })
}

// transactions returns the ids among the names below the parent, in order.
func transactions(names []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "_") })
	slices.Sort(names)
	return names
}

// A place is where the nodes of one transaction are.
type place struct{ parent, id, guid string }

func (p place) record() string            { return session.Join(p.parent, p.id) }
func (p place) dir() string               { return session.Join(p.record(), p.guid) }
func (p place) ballot(name string) string { return session.Join(p.dir(), name) }

// presenceNode returns the node that says that a site is there.
func presenceNode(parent, site string) string {
	return session.Join(session.Join(parent, presences), site)
}

// beginOps returns the transaction that begins another one, with the coordinator's ballot.
func (p place) beginOps(r *record, coordinator string) []session.Op {
	ops := []session.Op{
		session.CreateOp(p.record(), r.encode(), session.Persistent),
		session.CreateOp(p.dir(), nil, session.Persistent),
		session.CreateOp(p.ballot(coordinator), nil, session.Ephemeral),
	}
	for _, site := range r.Sites {
		ops = append(ops, session.CreateOp(p.ballot(unvoted+site), nil, session.Persistent))
	}
	return ops
}

// voteOps returns the transaction that replaces the site's ballot by its vote.
func (p place) voteOps(site string, b ballot, data []byte) []session.Op {
	return []session.Op{
		session.DeleteOp(p.ballot(unvoted+site), 0),
		session.CreateOp(p.ballot(b.name(site)), data, session.Persistent),
	}
}

// decideOps returns the transaction that records the outcome, once.
func (p place) decideOps(r *record, o Outcome) []session.Op {
	return []session.Op{
		session.CheckOp(p.dir(), session.AnyVersion),
		session.SetOp(p.record(), r.with(o).encode(), 0),
	}
}

// finishOps returns the transaction that deletes a ballot. The result of its last operation
// has the number of ballots that are left.
func (p place) finishOps(name string) []session.Op {
	return []session.Op{
		session.DeleteOp(p.ballot(name), session.AnyVersion),
		session.SetOp(p.dir(), nil, session.AnyVersion),
	}
}

// removeOps returns the transaction that removes what is left, unless there is a ballot. The record
// is kept if kept is not nil.
func (p place) removeOps(kept *record) []session.Op {
	ops := []session.Op{
		session.DeleteOp(p.dir(), session.AnyVersion),
		session.DeleteOp(p.record(), session.AnyVersion),
	}
	if kept != nil {
		node := session.Join(session.Join(p.parent, records), p.id+"-"+p.guid)
		ops = append(ops, session.CreateOp(node, kept.encode(), session.Persistent))
	}
	return ops
}
