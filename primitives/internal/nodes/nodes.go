// Package nodes has the names and the contents of nodes that packages beside the recipe itself read:
// package inspect does. It says which contenders for a lock share it, as several packages show that. What
// the other words mean stands in the recipes.
package nodes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LeaseMark stands before the weight, if that is not 1, and the number in the name of a contender for a semaphore.
const LeaseMark = "lease-"

// MaxLimit is the greatest limit of a semaphore, and weight, that there can be.
const MaxLimit = 1_000_000_000

// ParseLease reads the name of a contender for a semaphore.
func ParseLease(name string) (c Contender, weight int, ok bool) {
	i := strings.LastIndex(name, LeaseMark)
	if i < 0 || i > 0 && name[i-1] != '-' {
		return Contender{}, 0, false
	}
	rest := name[i+len(LeaseMark):]
	if n, ok := ParseNumber(rest); ok {
		return Contender{Name: name, Number: n}, 1, true
	}
	before, after, _ := strings.Cut(rest, "-")
	weight, ok = ParsePositive(before)
	n, numbered := ParseNumber(after)
	return Contender{Name: name, Number: n}, weight, ok && numbered
}

// ParsePositive reads a positive number up to [MaxLimit] as [strconv.Itoa] writes it.
func ParsePositive(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= MaxLimit && text == strconv.Itoa(n)
}

// A Limit is the record of a semaphore.
type Limit struct {
	Limit int
	Unit  bool // no contender has had another weight than 1 since it was made; once taken back, for good
}

const unitMark = " unit"

// String returns the record.
func (l Limit) String() string {
	if l.Unit {
		return strconv.Itoa(l.Limit) + unitMark
	}
	return strconv.Itoa(l.Limit)
}

// ParseLimit reads the record of a semaphore.
func ParseLimit(data string) (l Limit, ok bool) {
	text, unit := strings.CutSuffix(strings.TrimSpace(data), unitMark)
	if l.Limit, ok = ParsePositive(text); !ok {
		return Limit{}, false
	}
	l.Unit = unit
	return l, true
}

// A Leader is the record of an election's leader:
//
//	leader 1
//	node _c_<uuid>-n_<number>
//	acknowledged
//	successor _c_<uuid>-n_<number>
//
//	data of the leader
//
// The first line is the format and its version, the second names the candidate; the others
// are there if they apply. After an empty line come the leader's data as they are. Other
// lines are for later versions, and ignored. The term is not written down: it is the
// czxid of the node.
type Leader struct {
	Node         string // of the leader, among the candidates
	Acknowledged bool
	Successor    string // the candidate that the leader hands over to; "" while it leads
	Data         string
}

const (
	leaderFormat       = "leader 1"
	leaderNode         = "node "
	leaderAcknowledged = "acknowledged"
	leaderSuccessor    = "successor "
)

// Bytes returns the record.
func (l Leader) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(leaderFormat + "\n" + leaderNode + l.Node + "\n")
	if l.Acknowledged {
		b.WriteString(leaderAcknowledged + "\n")
	}
	if l.Successor != "" {
		b.WriteString(leaderSuccessor + l.Successor + "\n")
	}
	b.WriteString("\n" + l.Data)
	return b.Bytes()
}

// ParseLeader reads the record of a leader. It returns the zero Leader for any other data.
func ParseLeader(data []byte) (l Leader) {
	header, rest, whole := strings.Cut(string(data), "\n\n")
	lines := strings.Split(header, "\n")
	if !whole || lines[0] != leaderFormat {
		return Leader{}
	}
	l.Data = rest
	for _, line := range lines[1:] {
		if node, ok := strings.CutPrefix(line, leaderNode); ok {
			l.Node = node
		} else if node, ok := strings.CutPrefix(line, leaderSuccessor); ok {
			l.Successor = node
		} else if line == leaderAcknowledged {
			l.Acknowledged = true
		}
	}
	if l.Node == "" {
		return Leader{}
	}
	return l
}

// Rounds is the record of a double barrier: a first line with the layout, the round and the parties, then a
// name in each line.
type Rounds struct {
	Round, Parties int
	Members        []string // names of nodes
}

// RoundsLayout is the first word of the record of a double barrier.
const RoundsLayout = "double-barrier-1"

// Bytes returns the record.
func (r Rounds) Bytes() []byte {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %d %d\n", RoundsLayout, r.Round, r.Parties)
	for _, name := range r.Members {
		s.WriteString(name + "\n")
	}
	return []byte(s.String())
}

// ParseRounds reads the record of a double barrier.
func ParseRounds(data []byte) (r Rounds, ok bool) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	var is string
	if n, _ := fmt.Sscan(lines[0], &is, &r.Round, &r.Parties); n != 3 || is != RoundsLayout || r.Round < 0 || r.Parties < 1 {
		return Rounds{}, false
	}
	r.Members = lines[1:]
	return r, true
}

// partyFields splits the name of a party's node. Its parts are a round, the ID of the handle, a number, and the name of the
// handle. Hyphens are between them, and four in the ID. The number grows with each node of the handle. The name may be
// absent. All are empty if no party has such a node.
func partyFields(node string) (id, entry, label string, labelled bool) {
	const before, fields = 1, 5 // fields of the ID
	begins, ends, hyphens := 0, 0, 0
	for i := range len(node) {
		if node[i] != '-' {
			continue
		}
		switch hyphens++; hyphens {
		case before:
			begins = i + 1
		case before + fields:
			ends = i
		case before + fields + 1:
			return node[begins:ends], node[ends+1 : i], node[i+1:], true
		}
	}
	if hyphens < before+fields {
		return "", "", "", false
	}
	return node[begins:ends], node[ends+1:], "", false
}

// PartyName returns what the name of a party's node says to people: the name of the handle, or its ID. It returns
// "" if no party has such a node.
func PartyName(node string) string {
	id, _, label, labelled := partyFields(node)
	if labelled {
		return label
	}
	return id
}

// PartyEntry returns the ID of the handle that has made a party's node, and the number of the node among those of the handle.
func PartyEntry(node string) (id string, entry int) {
	id, number, _, _ := partyFields(node)
	entry, _ = strconv.Atoi(number)
	return id, entry
}

// A Bucket is the name of a directory with items of a queue.
type Bucket struct {
	Priority int32
	Number   int  // the minute in which its items are due, if they are delayed
	After    bool // whether they are
}

// AfterInfix stands behind the priority in the names of buckets of delayed items.
const AfterInfix = "-after-"

// String returns the name: with an offset that makes the order of the names the order of the priorities.
func (b Bucket) String() string {
	const digits = 10
	infix := "-"
	if b.After {
		infix = AfterInfix
	}
	return fmt.Sprintf("%0*d%s%0*d", digits, int64(b.Priority)-math.MinInt32, infix, digits, b.Number)
}

// ParseBucket returns the bucket with the name, and false if no bucket has it.
func ParseBucket(name string) (Bucket, bool) {
	priority, number, after := strings.Cut(name, AfterInfix)
	if !after {
		priority, number, _ = strings.Cut(name, "-")
	}
	p, err := strconv.ParseInt(priority, 10, 64)
	n, err2 := strconv.ParseInt(number, 10, 64)
	if err != nil || err2 != nil || p < 0 || p > math.MaxUint32 || n < 0 {
		return Bucket{}, false
	}
	b := Bucket{int32(p + math.MinInt32), int(n), after}
	return b, b.String() == name
}

// The directories beside values of package config and beside queues.
const (
	ConfigMarkers = "_config-markers"
	QueueReceipts = "_queue-receipts"
)

// The directories beside the transactions of package commit. The ids of transactions do not begin with _.
const (
	Sites              = "_sites"   // has a node for each site that a process acts for
	TransactionRecords = "_records" // has what is kept of transactions that are over
)

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

// ParseBallot splits the name of a ballot into its kind and the site. The kind is "" if the name is too short.
func ParseBallot(name string) (kind, site string) {
	if len(name) < len(Unvoted) {
		return "", ""
	}
	return name[:len(Unvoted)], name[len(Unvoted):]
}

// A Transaction is the content of the node of a two-phase commit: a line of JSON, and then the payload. The types of
// its mode M and of its outcome O belong to package commit.
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
