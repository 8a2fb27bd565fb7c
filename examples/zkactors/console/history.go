package console

import (
	"container/list"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
)

// This file has what happened to each recipe within the last hour, as far as the console has seen
// it.

const (
	remembered     = time.Hour
	entriesOfThing = 200      // of one recipe; the oldest one goes first
	historyBytes   = 16 << 20 // of all recipes, as cost counts them; the oldest entry goes first
	longestName    = 200      // bytes of an identity or a name in an entry
)

// An entry is one thing that happened.
type entry struct {
	At   int64  `json:"at"`            // in milliseconds, by the console's clock
	What string `json:"what"`          // "holds", "no longer holds", …
	Who  string `json:"who,omitempty"` // the name of the contender or member
	By   string `json:"by,omitempty"`  // the user of the console who did it
	For  int64  `json:"for,omitempty"` // milliseconds: of the wait before a grant, or of the time since it
	Line int    `json:"line"`          // how many contenders wait after it
}

// cost is at least the memory of an entry, with its places in the list and the index.
func (e *entry) cost(key string) int {
	const fixed = 256
	return fixed + len(e.Who) + len(e.By) + len(key)
}

// A kept is an entry in the list of all.
type kept struct {
	key string
	entry
}

// A history keeps entries. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	all   list.List                  // of kept, the oldest first
	of    map[string][]*list.Element // by the key of the thing, the oldest first
	bytes int                        // the sum of the costs
}

// add appends entries of one thing, and removes what is too old or too much.
func (h *history) add(key string, entries ...entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = make(map[string][]*list.Element)
	}
	for _, e := range entries {
		e.Who, e.By = clip(e.Who), clip(e.By)
		h.bytes += e.cost(key)
		h.of[key] = append(h.of[key], h.all.PushBack(kept{key, e}))
		if len(h.of[key]) > entriesOfThing {
			h.remove(h.of[key][0])
		}
	}
	h.forget()
}

// clip returns a copy of a name that shares no memory with what the name was cut from.
func clip(name string) string {
	return strings.Clone(strings.ToValidUTF8(name[:min(len(name), longestName)], "�"))
}

// forget removes the entries that are too old or too much.
func (h *history) forget() {
	oldest := time.Now().Add(-remembered).UnixMilli()
	for first := h.all.Front(); first != nil && (h.bytes > historyBytes || first.Value.(kept).At < oldest); first = h.all.Front() {
		h.remove(first)
	}
}

// remove removes the oldest entry of a thing.
func (h *history) remove(first *list.Element) {
	k := h.all.Remove(first).(kept)
	h.bytes -= k.cost(k.key)
	if rest := h.of[k.key][1:]; len(rest) > 0 {
		h.of[k.key] = rest
	} else {
		delete(h.of, k.key)
	}
}

// read returns the entries of a thing, the newest first.
func (h *history) read(key string) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	entries := make([]entry, 0, len(h.of[key]))
	for _, el := range slices.Backward(h.of[key]) {
		entries = append(entries, el.Value.(kept).entry)
	}
	return entries
}

// note enters the differences between two surveys in a row.
func (h *history) note(from, to *snapshot) {
	if from.taken == 0 || from.truncated || to.truncated { // there is nothing to compare, or parts of it
		return
	}
	before := make(map[string]*thing, len(from.things))
	for _, t := range from.things {
		before[t.key] = t
	}
	for _, t := range to.things {
		was := before[t.key]
		delete(before, t.key)
		if was != t {
			h.add(t.key, story(was, t, to.taken)...)
		}
	}
	for key, was := range before {
		h.add(key, story(was, nil, to.taken)...)
	}
}

// story returns what happened between two states of a thing. The first is nil if the thing is new,
// the second if it is gone.
func story(was, now *thing, at int64) []entry {
	none := &thing{}
	if was == nil {
		was = none
	}
	if now == nil {
		now = none
	}
	if was.of.Problem != "" || now.of.Problem != "" || was.of.Forbidden != now.of.Forbidden { // parts of it could not be read
		return nil
	}
	kind := now.kind
	if now == none {
		kind = was.kind
	}
	var entries []entry
	switch kind {
	case inspect.Lock, inspect.Semaphore, inspect.Election:
		entries = storyOfLine(was, now, kind == inspect.Election, at)
	case inspect.Queue:
		entries = storyOfQueue(was.of.Queue, now.of.Queue)
	case inspect.Barrier:
		if (was.of.Barrier != nil) != (now.of.Barrier != nil) {
			entries = append(entries, entry{What: either(now.of.Barrier != nil, "raised", "lifted")})
		}
	case inspect.Transactions:
		entries = storyOfTransactions(was.of.Transactions, now.of.Transactions)
	case inspect.Group, inspect.Service, inspect.Shards:
		entries = storyOfMembers(was.of.Members, now.of.Members)
	case inspect.DoubleBarrier, inspect.Latch, inspect.Once, inspect.Values, inspect.Unreadable: // what they are is what the page shows
	}
	for i := range entries {
		entries[i].At = at
	}
	return entries
}

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// storyOfLine: contenders begin to hold and end, and leave. That they join is not told: the wait
// before the grant is.
func storyOfLine(was, now *thing, leads bool, at int64) (entries []entry) {
	type id struct {
		node  string
		czxid int64
	}
	waits := 0
	stand := make(map[id]stander, len(now.line))
	for _, c := range now.line {
		stand[id{c.Node, c.Czxid}] = c
		if !c.Holds {
			waits++
		}
	}
	verb := either(leads, "leads", "holds")
	stood := make(map[id]stander, len(was.line))
	for _, c := range was.line {
		stood[id{c.Node, c.Czxid}] = c
		next, stands := stand[id{c.Node, c.Czxid}]
		switch {
		case c.Holds && !next.Holds:
			entries = append(entries, entry{What: "no longer " + verb, Who: nameOf(c), For: at - c.granted.Latest.UnixMilli()})
		case !c.Holds && !stands && len(was.line) == was.of.Line && len(now.line) == now.of.Line:
			entries = append(entries, entry{What: "left the line", Who: nameOf(c), For: max(0, at-c.Since.UnixMilli())})
		}
	}
	for _, c := range now.line {
		last := stood[id{c.Node, c.Czxid}]
		if c.Holds && !last.Holds {
			entries = append(entries, entry{What: verb, Who: nameOf(c), For: max(0, c.granted.Latest.UnixMilli()-c.Since.UnixMilli())})
		}
		if c.Revoked && !last.Revoked {
			entries = append(entries, entry{What: "was asked to release", Who: nameOf(c)})
		}
	}
	for i := range entries {
		entries[i].Line = waits
	}
	return entries
}

// nameOf is the name of a contender on the page.
func nameOf(c stander) string {
	switch {
	case c.Identity != "":
		return c.Identity
	case c.Session != "":
		return c.Session
	}
	return c.Node[strings.LastIndexByte(c.Node, '/')+1:]
}

func storyOfQueue(was, now *inspect.QueueState) (entries []entry) {
	if was == nil || now == nil {
		return nil
	}
	if was.Paused != now.Paused {
		entries = append(entries, entry{What: either(now.Paused, "paused", "resumed")})
	}
	if was.Dead != now.Dead {
		entries = append(entries, entry{What: fmt.Sprintf("%d dead letters, then %d", was.Dead, now.Dead)})
	}
	if (was.Items == 0) != (now.Items == 0) {
		entries = append(entries, entry{What: either(now.Items == 0, "empty", "items come")})
	}
	return entries
}

func storyOfTransactions(was, now []inspect.Transaction) (entries []entry) {
	doubt := make(map[string]bool)
	for _, x := range was {
		doubt[x.ID] = x.InDoubt
	}
	for _, x := range now {
		before, known := doubt[x.ID]
		switch {
		case !known && x.InDoubt:
			entries = append(entries, entry{What: "begun", Who: x.ID})
		case !x.InDoubt && (before || !known):
			entries = append(entries, entry{What: either(x.Committed, "committed", "aborted"), Who: x.ID})
		}
	}
	return entries
}

func storyOfMembers(was, now []inspect.Entry) (entries []entry) {
	there := func(all []inspect.Entry, e inspect.Entry) bool {
		return slices.ContainsFunc(all, func(x inspect.Entry) bool { return x.Node == e.Node && x.Session == e.Session })
	}
	if len(was) > most || len(now) > most { // too many to compare
		if len(was) != len(now) {
			entries = append(entries, entry{What: fmt.Sprintf("%d members, then %d", len(was), len(now))})
		}
		return entries
	}
	for _, e := range was {
		if !there(now, e) {
			entries = append(entries, entry{What: "left", Who: e.Name})
		}
	}
	for _, e := range now {
		if !there(was, e) {
			entries = append(entries, entry{What: "joined", Who: e.Name})
		}
	}
	return entries
}
