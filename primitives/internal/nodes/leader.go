package nodes

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// This file has the record of the leader of an election.

// A Leader is the record of an election's leader:
//
//	leader 1
//	node _c_<uuid>-n_<number>
//	acknowledged
//	succeeds
//	successor _c_<uuid>-n_<number>
//	term <number>
//
//	data of the leader
//
// The first line is the format and its version, the second names the candidate; the others
// are there if they apply. After an empty line come the leader's data as they are. Other
// lines are for later versions, and ignored. The term is the czxid of the node, unless it is
// written down: see [Leader.TermOf].
type Leader struct {
	Node         string // of the leader, among the candidates
	Acknowledged bool
	Succeeds     bool   // another leader has handed over to it: its guard is the node of that name among the successors
	Successor    string // the candidate that the leader hands over to; "" while it leads
	Term         int64  // if it is not the czxid of the node, or is known in any case; else 0
	Data         string
}

// TermOf returns the term of the leader whose node has the czxid.
func (l Leader) TermOf(czxid int64) int64 { return cmp.Or(l.Term, czxid) }

const (
	leaderFormat       = "leader 1"
	leaderNode         = "node "
	leaderAcknowledged = "acknowledged"
	leaderSucceeds     = "succeeds"
	leaderSuccessor    = "successor "
	leaderTerm         = "term "
)

// Bytes returns the record.
func (l Leader) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(leaderFormat + "\n" + leaderNode + l.Node + "\n")
	if l.Acknowledged {
		b.WriteString(leaderAcknowledged + "\n")
	}
	if l.Succeeds {
		b.WriteString(leaderSucceeds + "\n")
	}
	if l.Successor != "" {
		b.WriteString(leaderSuccessor + l.Successor + "\n")
	}
	if l.Term != 0 {
		b.WriteString(leaderTerm + strconv.FormatInt(l.Term, 10) + "\n")
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
		} else if term, ok := strings.CutPrefix(line, leaderTerm); ok {
			l.Term, _ = strconv.ParseInt(term, 10, 64) // 0 if it is not a number
		}
		l.Acknowledged = l.Acknowledged || line == leaderAcknowledged
		l.Succeeds = l.Succeeds || line == leaderSucceeds
	}
	if l.Node == "" {
		return Leader{}
	}
	return l
}
