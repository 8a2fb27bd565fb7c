package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/zkactors/zkactors/examples/zkactors/internal/grants"
	"github.com/zkactors/zkactors/primitives/inspect"
)

// This file formats surveys as text.

// age returns the time since a moment, in two units at most.
func age(since, now time.Time) string {
	d := max(0, now.Sub(since)) // the servers' clock may be ahead
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// when returns a time of day, with the date if it is not today.
func when(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// shown formats data of a survey, which has its control characters escaped.
func shown(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// text formats names and other raw text of clients on one line.
func text(s string) string {
	if s == "" {
		return "-"
	}
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}

// owner formats the session of a node, which is to have one.
func owner(session string, none bool) string {
	if none {
		return "no session"
	}
	return session
}

// living counts the entries whose nodes have a session: the others are no members.
func living(all []inspect.Entry) (n int) {
	for _, e := range all {
		if !e.NoSession {
			n++
		}
	}
	return n
}

// The orders of recipes.
const (
	byPath = "path"
	byWait = "wait"
)

// A view says how a survey is shown.
type view struct {
	now         time.Time
	past        bool // nothing is known any more: the text speaks of the past
	grants      *grants.Known
	sort        string        // byWait, or byPath
	slow, stuck time.Duration // waits that are colored
	color       bool
}

// validate checks the flags.
func (v *view) validate() error {
	switch {
	case v.sort != byPath && v.sort != byWait:
		return usage("--sort %q is neither path nor wait", v.sort)
	case v.slow <= 0 || v.stuck < v.slow:
		return usage("--slow %v must be positive, and --stuck %v not less", v.slow, v.stuck)
	}
	return nil
}

// order returns the survey with its recipes in the order of the view.
func (v *view) order(survey *inspect.Survey) *inspect.Survey {
	if v.sort != byWait {
		return survey
	}
	sorted := *survey
	sorted.Things = slices.Clone(survey.Things)
	slices.SortStableFunc(sorted.Things, func(a, b inspect.Thing) int {
		return cmp.Compare(longestWait(&b, v.now), longestWait(&a, v.now))
	})
	return &sorted
}

// waitSince calls f with the beginning of each wait: of waiters, of the oldest item of a queue, of
// parties of a double barrier, and of transactions that are undecided. Candidates wait only while
// nobody leads.
func waitSince(t *inspect.Thing, f func(since time.Time)) {
	if t.Leader == nil {
		for _, c := range t.Waiters() {
			f(c.Since)
		}
	}
	if t.Queue != nil && !t.Queue.Oldest.IsZero() {
		f(t.Queue.Oldest)
	}
	if t.Double != nil {
		for _, e := range t.Double.Waiting {
			if !e.NoSession {
				f(e.Since)
			}
		}
	}
	for _, tx := range t.Transactions {
		if tx.InDoubt {
			f(tx.Since)
		}
	}
}

// longestWait returns the longest of the waits, or -1 if there is none.
func longestWait(t *inspect.Thing, now time.Time) time.Duration {
	longest := time.Duration(-1)
	waitSince(t, func(since time.Time) { longest = max(longest, now.Sub(since), 0) })
	return longest
}

// A sheet is a table below a headline.
type sheet struct {
	view
	out    bytes.Buffer
	table  bytes.Buffer
	tab    *tabwriter.Writer
	colors []string // of the rows of the table
}

// The colors of rows.
const (
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	plain  = "\x1b[0m"
)

// row adds a line to the table.
func (w *sheet) row(cells ...string) { w.colored("", cells...) }

// waiting adds a line to the table, in the color for a wait since that moment.
func (w *sheet) waiting(since time.Time, cells ...string) {
	color := ""
	switch wait := w.now.Sub(since); {
	case !w.color || w.past:
	case wait >= w.stuck:
		color = red
	case wait >= w.slow:
		color = yellow
	}
	w.colored(color, cells...)
}

func (w *sheet) colored(color string, cells ...string) {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	w.colors = append(w.colors, color)
	_, _ = fmt.Fprintln(w.tab, "  "+strings.Join(cells, "\t")) // to memory: there is no error
}

// flush moves the table to the text, and begins the next one. The columns of a table are aligned
// before its rows are colored.
func (w *sheet) flush() {
	if w.tab != nil {
		_ = w.tab.Flush() // to memory: there is no error
	}
	i := 0
	for line := range strings.Lines(w.table.String()) {
		if color := w.colors[i]; color != "" {
			line = color + strings.TrimSuffix(line, "\n") + plain + "\n"
		}
		w.out.WriteString(line)
		i++
	}
	w.table.Reset()
	w.colors = w.colors[:0]
	w.tab = tabwriter.NewWriter(&w.table, 0, 0, 2, ' ', 0)
}

// render returns a survey as text.
func render(survey *inspect.Survey, v view) string {
	w := &sheet{view: v}
	switch {
	case !survey.Exists && v.past:
		fmt.Fprintf(&w.out, "There was no node %s.\n", survey.Path)
	case !survey.Exists:
		fmt.Fprintf(&w.out, "There is no node %s.\n", survey.Path)
	case len(survey.Things) == 0 && v.past:
		fmt.Fprintf(&w.out, "Nothing stood below %s.\n", survey.Path)
	case len(survey.Things) == 0:
		fmt.Fprintf(&w.out, "Nothing stands below %s.\n", survey.Path)
	case v.past:
		fmt.Fprintf(&w.out, "This was the state before that:\n\n")
	default:
		w.out.WriteString(summary(survey, v.now) + "\n\n")
	}
	for i := range survey.Things {
		if i > 0 {
			w.out.WriteByte('\n')
		}
		w.thing(&survey.Things[i])
	}
	if survey.Truncated {
		w.out.WriteString("\nThere is more: only so many nodes were read.\n")
	}
	return w.out.String()
}

// summary returns the numbers of recipes by their states, and the longest wait.
func summary(survey *inspect.Survey, now time.Time) string {
	counts := make(map[string]int)
	waits, longest, at := 0, time.Duration(-1), ""
	for i := range survey.Things {
		t := &survey.Things[i]
		for _, state := range statesOf(t) {
			counts[state]++
		}
		if t.Leader == nil {
			waits += t.Line - len(t.Holders())
		}
		if t.Kind != inspect.Transactions && t.Kind != inspect.Queue { // these do not count as waiting
			if wait := longestWait(t, now); wait > longest {
				longest, at = wait, t.Path
			}
		}
	}
	parts := []string{count(len(survey.Things), "recipe")}
	for _, state := range []string{"held", "free", "full", "with room", "led", "without a leader", "raised", "paused", "with dead letters", "with undecided transactions", "unreadable"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", state))
		}
	}
	line := strings.Join(parts, ", ") + "; "
	switch {
	case waits == 0 && longest < 0:
		return line + "nobody waits"
	case longest < 0: // waiters that could not be read
		return line + fmt.Sprint(waits, " waiting")
	}
	return line + fmt.Sprintf("%d waiting, the longest for %s at %s", waits, age(now.Add(-longest), now), text(at))
}

// statesOf returns the states of a recipe that summary counts.
func statesOf(t *inspect.Thing) (states []string) {
	holders := len(t.Holders())
	switch t.Kind {
	case inspect.Lock:
		states = append(states, either(holders > 0, "held", "free"))
	case inspect.Semaphore:
		if t.Limit > 0 {
			states = append(states, either(t.Room <= 0, "full", "with room"))
		}
	case inspect.Election:
		states = append(states, either(t.Leader != nil, "led", "without a leader"))
	case inspect.Barrier:
		states = append(states, "raised")
	case inspect.Unreadable:
		states = append(states, "unreadable")
	case inspect.Transactions:
		if slices.ContainsFunc(t.Transactions, func(tx inspect.Transaction) bool { return tx.InDoubt }) {
			states = append(states, "with undecided transactions")
		}
	case inspect.Queue:
		if t.Queue.Paused {
			states = append(states, "paused")
		}
		if t.Queue.Dead > 0 {
			states = append(states, "with dead letters")
		}
	case inspect.DoubleBarrier, inspect.Group, inspect.Service, inspect.Latch, inspect.Once, inspect.Shards, inspect.Values:
	}
	return states
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func (w *sheet) thing(t *inspect.Thing) {
	head := text(t.Path) + "  " + string(t.Kind)
	if t.Layout != "" && t.Layout != "standard" {
		head += " (" + t.Layout + ")"
	}
	if state := w.state(t); state != "" {
		head += ": " + either(w.past, "was ", "") + state
	}
	if t.Forbidden && t.Kind != inspect.Unreadable {
		head += "; forbidden to read in part"
	}
	w.out.WriteString(head + "\n")
	w.flush()
	w.contenders(t)
	if q := t.Queue; q != nil {
		for _, c := range q.Claims[:min(len(q.Claims), fewWaiters)] {
			w.row("claimed", shown(c.Consumer), "item "+c.Item, age(c.Since, w.now), owner(c.Session, c.NoSession))
		}
	}
	if d := t.Double; d != nil {
		w.entries(either(w.past, "was inside", "inside"), d.Inside)
		for _, e := range d.Waiting {
			w.waiting(e.Since, either(w.past, "waited", "waits"), text(e.Name), shown(e.Data), age(e.Since, w.now), owner(e.Session, e.NoSession))
		}
	}
	w.entries("member", t.Members)
	for _, v := range t.Values {
		w.row(text(v.Name), shown(v.Data), fmt.Sprint("version ", v.Version), age(v.Changed, w.now), v.Session)
	}
	for i := range t.Transactions {
		w.transaction(&t.Transactions[i])
	}
	w.flush()
}

// state returns the state of a thing, for its headline.
func (w *sheet) state(t *inspect.Thing) string {
	holders, waits := len(t.Holders()), t.Line-len(t.Holders())
	switch t.Kind {
	case inspect.Lock:
		return lineState(holders, waits)
	case inspect.Semaphore:
		limit := "?"
		if t.Limit > 0 {
			limit = strconv.Itoa(t.Limit)
		}
		return fmt.Sprintf("%d of %s held, %d waiting", t.Held, limit, waits)
	case inspect.Election:
		if t.Leader == nil {
			return "no leader, " + count(t.Line, "candidate")
		}
		state := fmt.Sprintf("term %d, %s", t.Leader.Term, count(t.Line, "candidate"))
		if t.Leader.Successor != "" {
			state += ", hands over to " + text(t.Leader.Successor)
		}
		return state
	case inspect.Queue:
		q := t.Queue
		state := []string{count(q.Items, "item"), fmt.Sprintf("%d claimed", q.Claimed)}
		if !q.Oldest.IsZero() {
			state[0] += ", the oldest " + age(q.Oldest, w.now)
		}
		if q.Paused {
			state = append([]string{"paused"}, state...)
		}
		for _, more := range []struct {
			n    int
			what string
		}{{q.Dead, "dead"}, {q.Delayed, "delayed"}, {q.Waiting, "waiting for items"}, {q.Producers, "waiting for room"}} {
			if more.n > 0 {
				state = append(state, fmt.Sprintf("%d %s", more.n, more.what))
			}
		}
		return strings.Join(state, ", ")
	case inspect.Barrier:
		state := fmt.Sprintf("raised %s ago", age(t.Barrier.Since, w.now))
		if t.Barrier.Session != "" {
			state += " by session " + t.Barrier.Session
		}
		return state
	case inspect.DoubleBarrier:
		d := t.Double
		return fmt.Sprintf("round %d, %d of %d inside, %d waiting", d.Round, living(d.Inside), d.Parties, living(d.Waiting))
	case inspect.Transactions:
		undecided := 0
		for _, tx := range t.Transactions {
			if tx.InDoubt {
				undecided++
			}
		}
		return fmt.Sprintf("%d, %d undecided", len(t.Transactions), undecided)
	case inspect.Group:
		return count(len(t.Members), "member")
	case inspect.Latch:
		return fmt.Sprintf("%d of %d have arrived", t.Held, t.Limit)
	case inspect.Once:
		return "done"
	case inspect.Shards:
		return fmt.Sprintf("%d, %s", t.Limit, count(living(t.Members), "member"))
	case inspect.Service:
		return count(len(t.Members), "instance")
	case inspect.Values:
		return strconv.Itoa(len(t.Values))
	case inspect.Unreadable:
		if t.Forbidden {
			return "forbidden"
		}
		return t.Problem
	}
	return ""
}

func lineState(holders, waits int) string {
	held := "free"
	switch {
	case holders == 1:
		held = "held"
	case holders > 1:
		held = "shared by " + strconv.Itoa(holders)
	}
	return fmt.Sprintf("%s, %d waiting", held, waits)
}

func (w *sheet) contenders(t *inspect.Thing) {
	for i := range t.Contenders {
		c := &t.Contenders[i]
		what := either(w.past, "waited", "waits")
		switch {
		case c.Holds && t.Kind == inspect.Election:
			what = either(w.past, "led", "leads")
		case c.Holds:
			what = either(w.past, "held", "holds")
		}
		wants := c.Wants
		if c.Priority != 0 {
			wants += fmt.Sprint(" priority ", c.Priority)
		}
		if c.Weight > 1 {
			wants += fmt.Sprint(" of ", c.Weight)
		}
		more := ""
		switch {
		case c.NoSession:
			more = "to be deleted"
		case c.Forbidden:
			more = "forbidden to read"
		case c.Revoked:
			more = "asked to release"
		case c.Holds && t.Leader != nil && t.Leader.Acknowledged:
			more = "acknowledged"
		}
		cells := []string{what, shown(c.Identity), wants, age(c.Since, w.now), owner(c.Session, c.NoSession), more}
		switch {
		case c.Holds:
			cells[3] = w.held(t, c)
			w.row(cells...)
		case t.Leader != nil:
			w.row(cells...)
		default:
			w.waiting(c.Since, cells...)
		}
	}
	if rest := t.Line - len(t.Contenders); rest > 0 {
		w.row(fmt.Sprintf("… and %d more", rest))
	}
}

// held returns for how long a contender has held, with ">" if it was for longer, or "?".
func (w *sheet) held(t *inspect.Thing, c *inspect.Contender) string {
	switch g, known := w.grants.Of(t, c); {
	case !known:
		return "?"
	case g.Seen():
		return age(g.Latest, w.now)
	default:
		return ">" + age(g.Latest, w.now)
	}
}

func (w *sheet) entries(what string, all []inspect.Entry) {
	for _, e := range all {
		w.row(what, text(e.Name), shown(e.Data), age(e.Since, w.now), owner(e.Session, e.NoSession))
	}
}

func (w *sheet) transaction(tx *inspect.Transaction) {
	state := "undecided"
	switch {
	case tx.Committed:
		state = "committed by " + tx.By
	case !tx.InDoubt:
		state = "aborted by " + tx.By + ": " + tx.Reason
	}
	if !tx.Coordinated {
		state += ", no coordinator"
	}
	if cells := []string{text(tx.ID), tx.Mode, state, age(tx.Since, w.now)}; tx.InDoubt {
		w.waiting(tx.Since, cells...)
	} else {
		w.row(cells...)
	}
	for _, site := range tx.Sites {
		vote := site.Vote
		switch {
		case site.Finished:
			vote = "finished"
		case vote == "":
			vote = "has not voted"
		}
		presence := "absent"
		if site.Present {
			presence = "present"
		}
		w.row("  "+text(site.Site), vote, presence)
	}
}

func marshalLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
