package inspect

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/priority"
)

// This file reads names and data of nodes.

// A species has the names of the contenders of one recipe and layout.
type species struct {
	grammar *nodes.Grammar
	recipe  Kind
	layout  string
	wants   string // [Contender.Wants] of all contenders; "" if their kind says it
}

const (
	wantsLease = "lease"
	wantsLead  = "lead"

	standard    = "standard"
	published   = "published"
	curator     = "curator"
	kazoo       = "kazoo"
	prioritized = "prioritized"
	mixed       = "mixed"
)

// allSpecies are the species whose contenders stand in the order of their numbers. Curator's mutex
// is named as in the published recipe.
//
//nolint:gochecknoglobals // they are constant
var allSpecies = []species{
	{&nodes.StandardLock, Lock, standard, ""},
	{&nodes.CuratorLock, Lock, curator, ""},
	{&nodes.KazooLock, Lock, kazoo, ""},
	{&nodes.CuratorElection, Election, curator, wantsLead},
	{&nodes.StandardElection, Election, published, wantsLead},
	{&nodes.Leases, Semaphore, standard, wantsLease},
}

// A standing is the part of a contender's state that its name shows.
type standing struct {
	nodes.Contender
	*species

	priority int
	weight   int // of a lease
}

// want returns [Contender.Wants].
func (s standing) want() string { return cmp.Or(s.wants, s.Kind.String()) }

// parseStanding reads the name of a contender in line order.
func parseStanding(name string) (standing, bool) {
	if c, weight, ok := nodes.ParseLease(name); ok {
		return standing{Contender: c, species: &allSpecies[len(allSpecies)-1], weight: weight}, true
	}
	for i := range allSpecies {
		if c, ok := allSpecies[i].grammar.Parse(name); ok {
			return standing{Contender: c, species: &allSpecies[i]}, true
		}
	}
	if c, ok := nodes.ParseWriteLock(name); ok {
		return standing{Contender: c, species: &allSpecies[0]}, true
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
		slices.SortFunc(all, func(a, b standing) int { return nodes.Compare(reference, a.Contender, b.Contender) })
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

// ranks returns the contenders of a lock with priorities among the names, in the order in which
// they go.
func ranks(names []string) []standing {
	var all []standing
	for _, r := range priority.Ranks(names) {
		all = append(all, standing{Contender: r.Contender, species: &species{recipe: Lock, layout: prioritized}, priority: r.Priority})
	}
	return all
}

func isPrioritized(data []byte, names []string) bool {
	_, ranked := nodes.ParseRank(firstOr(names, ""))
	return ranked || nodes.IsPriority(data)
}

func firstOr(all []string, or string) string {
	if len(all) == 0 {
		return or
	}
	return all[0]
}

// A txRecord is the content of a transaction's node.
type txRecord = nodes.Transaction[commit.Mode, commit.Outcome]

func parseTransaction(id string, data []byte) (r *txRecord, ok bool) {
	if !bytes.HasPrefix(data, []byte(nodes.TransactionPrefix)) {
		return nil, false
	}
	r, err := nodes.ParseTransaction[commit.Mode, commit.Outcome](id, data)
	return r, err == nil
}

// items are the names of items, of all layouts.
var items = nodes.Grammar{Marks: []nodes.Mark{{Text: "item-"}, {Text: "queue-"}, {Text: "qn-"}, {Text: "-"}}} //nolint:gochecknoglobals // it is constant

func nameOf(node string) string {
	_, name := znode.Split(node)
	return name
}

// longestData is the number of bytes of a node's data that are shown.
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
