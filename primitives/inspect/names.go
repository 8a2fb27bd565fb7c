package inspect

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/session"
)

// This file reads names and data of nodes.

// A species is how the contenders of one recipe and layout are named.
type species struct {
	grammar line.Grammar
	recipe  Kind
	layout  string
	wants   string
}

func named(separated bool, text string, recipe Kind, layout, wants string) species {
	kind := line.Exclusive
	if wants == wantsRead {
		kind = line.Read
	}
	return species{line.Grammar{Separated: separated, Marks: []line.Mark{{Text: text, Kind: kind}}}, recipe, layout, wants}
}

const (
	wantsExclusive = "exclusive"
	wantsRead      = "read"
	wantsWrite     = "write"
	wantsLease     = "lease"
	wantsLead      = "lead"

	standard    = "standard"
	published   = "published"
	curator     = "curator"
	kazoo       = "kazoo"
	prioritized = "prioritized"
	mixed       = "mixed"
)

// allSpecies are those whose contenders stand in the order of their numbers. Curator's mutex is named as in
// the published recipe.
//
//nolint:gochecknoglobals // they are constant
var allSpecies = []species{
	named(true, "lock-", Lock, standard, wantsExclusive),
	named(true, "read-", Lock, standard, wantsRead),
	named(true, "write-", Lock, standard, wantsWrite),
	named(true, "__READ__", Lock, curator, wantsRead),
	named(true, "__WRIT__", Lock, curator, wantsWrite),
	named(false, "__lock__", Lock, kazoo, wantsExclusive),
	named(false, "__rlock__", Lock, kazoo, wantsRead),
	named(true, "latch-", Election, curator, wantsLead),
	named(true, "n_", Election, published, wantsLead),
	named(true, "lease-", Semaphore, standard, wantsLease),
}

// A standing is what a name says of a contender.
type standing struct {
	line.Contender
	*species

	priority int
	weight   int // of a lease
}

// parseStanding reads the name of a contender in line order.
func parseStanding(name string) (standing, bool) {
	if c, weight, ok := parseLease(name); ok {
		return standing{Contender: c, species: &allSpecies[len(allSpecies)-1], weight: weight}, true
	}
	for i := range allSpecies {
		if c, ok := allSpecies[i].grammar.Parse(name); ok {
			return standing{Contender: c, species: &allSpecies[i]}, true
		}
	}
	if strings.HasPrefix(name, "x-") && line.IsContender(name) { // of ZooKeeper's WriteLock
		number, _ := line.ParseNumber(name[strings.LastIndexByte(name, '-')+1:])
		return standing{Contender: line.Contender{Name: name, Number: number}, species: &allSpecies[0]}, true
	}
	return standing{}, false
}

// standings returns the contenders among the names, in line order.
func standings(names []string) []standing {
	var all []standing
	for _, name := range names {
		if s, ok := parseStanding(name); ok {
			all = append(all, s)
		}
	}
	if len(all) > 0 {
		reference := all[0].Number
		slices.SortFunc(all, func(a, b standing) int { return line.Compare(reference, a.Contender, b.Contender) })
	}
	return all
}

// layoutOf returns the recipe and the layout of contenders that stand together.
func layoutOf(all []standing) (Kind, string) {
	recipe, layout := all[0].recipe, all[0].layout
	for _, s := range all[1:] {
		switch {
		case s.layout == layout && s.recipe == recipe:
		case s.recipe == Lock && recipe == Lock && s.layout != kazoo && layout != kazoo: // Curator's mutex beside its other locks
			layout = curator
		default:
			return recipe, mixed
		}
	}
	return recipe, layout
}

// ranks returns the contenders of a lock with priorities among the names, in the order in which they go.
func ranks(names []string) []standing {
	var all []standing
	for _, r := range priority.Ranks(names) {
		s := species{recipe: Lock, layout: prioritized, wants: wantsWrite}
		if r.Kind == line.Read {
			s.wants = wantsRead
		}
		all = append(all, standing{Contender: r.Contender, species: &s, priority: r.Priority})
	}
	return all
}

func isPrioritized(data []byte, names []string) bool {
	first, _, _ := strings.Cut(string(data), "\n")
	_, ranked := priority.ParseRank(firstOr(names, ""))
	return first == "priority 1" || ranked
}

func firstOr(all []string, or string) string {
	if len(all) == 0 {
		return or
	}
	return all[0]
}

// parseLease reads the name of a contender for a semaphore.
func parseLease(name string) (c line.Contender, weight int, ok bool) {
	const mark = "lease-"
	i := strings.LastIndex(name, mark)
	if i < 0 || i > 0 && name[i-1] != '-' {
		return c, 0, false
	}
	rest := name[i+len(mark):]
	if n, ok := line.ParseNumber(rest); ok {
		return line.Contender{Name: name, Number: n}, 1, true
	}
	before, after, _ := strings.Cut(rest, "-")
	weight, ok = parsePositive(before)
	n, numbered := line.ParseNumber(after)
	return line.Contender{Name: name, Number: n}, weight, ok && numbered
}

func parsePositive(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && text == strconv.Itoa(n)
}

// parseLimit reads the recorded limit of a semaphore. Unit says that nothing else is written like this.
func parseLimit(data []byte) (limit int, unit bool) {
	text, unit := strings.CutSuffix(strings.TrimSpace(string(data)), " unit")
	limit, ok := parsePositive(text)
	return limit, ok && unit
}

// A leaderRecord is what the leader's node of an election says.
type leaderRecord struct {
	node, successor, data string
	acknowledged          bool
}

func parseLeader(data []byte) (r leaderRecord, ok bool) {
	header, rest, _ := strings.Cut(string(data), "\n\n")
	lines := strings.Split(header, "\n")
	if lines[0] != "leader 1" {
		return r, false
	}
	r.data = rest
	for _, line := range lines[1:] {
		switch word, node, _ := strings.Cut(line, " "); word {
		case "node":
			r.node = node
		case "successor":
			r.successor = node
		case "acknowledged":
			r.acknowledged = true
		}
	}
	return r, r.node != ""
}

// parseRounds reads the record of a double barrier.
func parseRounds(data []byte) (round, parties int, ok bool) {
	first, _, _ := strings.Cut(string(data), "\n")
	var is string
	n, _ := fmt.Sscan(first, &is, &round, &parties)
	return round, parties, n == 3 && is == "double-barrier-1"
}

// partyName returns the name that a party of a double barrier was given, the rest of the name of its node, or its ID if it
// was given none.
func partyName(node string) string {
	const id = len("0000000000-")
	const before = id + len("00000000-0000-0000-0000-000000000000-")
	if len(node) < before {
		return node
	}
	if _, name, named := strings.Cut(node[before:], "-"); named { // after the number of the attempt
		return name
	}
	return node[id : before-1]
}

// A txRecord is what the node of a transaction says.
type txRecord struct {
	GUID    string          `json:"guid"`
	Mode    commit.Mode     `json:"mode"`
	Sites   []string        `json:"sites"`
	Outcome *commit.Outcome `json:"outcome"`
}

func parseTransaction(data []byte) (r txRecord, ok bool) {
	header, _, _ := strings.Cut(string(data), "\n")
	if !strings.HasPrefix(header, `{"guid":"`) || json.Unmarshal([]byte(header), &r) != nil {
		return txRecord{}, false
	}
	return r, r.GUID != "" && len(r.Sites) > 0
}

// parseBucket reports whether a directory of items has the name, and whether they are delayed.
func parseBucket(name string) (delayed, ok bool) {
	priority, number, delayed := strings.Cut(name, "-after-")
	if !delayed {
		priority, number, _ = strings.Cut(name, "-")
	}
	p, err := strconv.ParseInt(priority, 10, 64)
	_, err2 := strconv.ParseUint(number, 10, 63)
	return delayed, err == nil && err2 == nil && len(priority) == 10 && p >= 0 && p <= math.MaxUint32
}

// flatItem returns the layout of the queue of which a node of the name would be an item.
func flatItem(name string) string {
	rest, layout := name, ""
	if after, ok := strings.CutPrefix(name, "queue-"); ok {
		rest, layout = after, published
	} else if after, ok := strings.CutPrefix(name, "qn-"); ok {
		rest, layout = after, curator
	} else if after, ok := strings.CutPrefix(name, "entry-"); ok {
		if _, after, ok := strings.Cut(after, "-"); ok {
			rest, layout = after, kazoo
		}
	}
	if _, ok := line.ParseNumber(rest); !ok {
		return ""
	}
	return layout
}

// isKazooLease recognises the leases of kazoo's semaphore.
func isKazooLease(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

func nameOf(node string) string {
	_, name := session.Split(node)
	return name
}

// longestData is how much of a node's data is shown.
const longestData = 256

// identity returns the data of a contender's node, and whether it was asked to release.
func identity(data []byte) (string, bool) {
	own, marked, _ := mark.Split(data)
	return text(own), marked
}

// text returns data as a line of text.
func text(data []byte) string {
	s := string(data[:min(len(data), longestData)])
	for _, r := range s {
		if r == '\uFFFD' || !strconv.IsPrint(r) {
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}
