package nodes

import (
	"fmt"
	"strconv"
	"strings"
)

// This file has the record of a double barrier, and the names of its parties.

// Rounds is the record of a double barrier: a first line with the layout, the round and the
// parties, then a name in each line.
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

// partyFields splits the name of a party's node:
//
//	<round>-<ID of the handle>-<number>[-<name of the handle>]
//
// The ID has four hyphens. The number grows with each node of the handle. All are empty if no party
// has such a node.
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

// PartyName returns the name of the handle that has made a party's node, or its ID if it has no
// name. It returns "" if no party has such a node.
func PartyName(node string) string {
	id, _, label, labelled := partyFields(node)
	if labelled {
		return label
	}
	return id
}

// PartyEntry returns the ID of the handle that has made a party's node, and the number of the node
// among the handle's.
func PartyEntry(node string) (id string, entry int) {
	id, number, _, _ := partyFields(node)
	entry, _ = strconv.Atoi(number)
	return id, entry
}
