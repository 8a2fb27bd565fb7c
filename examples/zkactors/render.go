package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

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

// text formats data of other clients as one word on one line.
func text(s string) string {
	if s == "" {
		return "-"
	}
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}

// A sheet is a table below a headline.
type sheet struct {
	out bytes.Buffer
	tab *tabwriter.Writer
	now time.Time
}

// row adds a line to the table.
func (w *sheet) row(cells ...string) {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	_, _ = fmt.Fprintln(w.tab, "  "+strings.Join(cells, "\t")) // to memory: there is no error
}

// render returns a survey as text.
func render(survey *inspect.Survey, now time.Time) string {
	w := &sheet{now: now}
	switch {
	case !survey.Exists:
		fmt.Fprintf(&w.out, "There is no node %s.\n", survey.Path)
	case len(survey.Things) == 0:
		fmt.Fprintf(&w.out, "Nothing stands below %s.\n", survey.Path)
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

func (w *sheet) thing(t *inspect.Thing) {
	head := text(t.Path) + "  " + string(t.Kind)
	if t.Layout != "" && t.Layout != "standard" {
		head += " (" + t.Layout + ")"
	}
	if state := w.state(t); state != "" {
		head += ": " + state
	}
	if t.Forbidden && t.Kind != inspect.Unreadable {
		head += "; forbidden to read in part"
	}
	w.out.WriteString(head + "\n")
	w.tab = tabwriter.NewWriter(&w.out, 0, 0, 2, ' ', 0)
	w.contenders(t)
	if q := t.Queue; q != nil {
		for _, c := range q.Claims[:min(len(q.Claims), fewWaiters)] {
			w.row("claimed", text(c.Consumer), "item "+c.Item, age(c.Since, w.now), c.Session)
		}
	}
	if d := t.Double; d != nil {
		w.entries("inside", d.Inside)
		w.entries("waits", d.Waiting)
	}
	w.entries("member", t.Members)
	for _, v := range t.Values {
		w.row(text(v.Name), text(v.Data), fmt.Sprint("version ", v.Version), age(v.Changed, w.now), v.Session)
	}
	for i := range t.Transactions {
		w.transaction(&t.Transactions[i])
	}
	_ = w.tab.Flush() // to memory: there is no error
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
		return fmt.Sprintf("round %d, %d of %d inside, %d waiting", d.Round, len(d.Inside), d.Parties, len(d.Waiting))
	case inspect.Transactions:
		doubt := 0
		for _, tx := range t.Transactions {
			if tx.InDoubt {
				doubt++
			}
		}
		return fmt.Sprintf("%d, %d in doubt", len(t.Transactions), doubt)
	case inspect.Group:
		return count(len(t.Members), "member")
	case inspect.Latch:
		return fmt.Sprintf("%d of %d have arrived", t.Held, t.Limit)
	case inspect.Once:
		return "done"
	case inspect.Shards:
		return fmt.Sprintf("%d, %s", t.Limit, count(len(t.Members), "member"))
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
	for _, c := range t.Contenders {
		what := "waits"
		switch {
		case c.Holds && t.Kind == inspect.Election:
			what = "leads"
		case c.Holds:
			what = "holds"
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
		case c.Forbidden:
			more = "forbidden to read"
		case c.Revoked:
			more = "asked to release"
		case c.Holds && t.Leader != nil && t.Leader.Acknowledged:
			more = "acknowledged"
		}
		w.row(what, text(c.Identity), wants, age(c.Since, w.now), c.Session, more)
	}
	if rest := t.Line - len(t.Contenders); rest > 0 {
		w.row(fmt.Sprintf("… and %d more", rest))
	}
}

func (w *sheet) entries(what string, all []inspect.Entry) {
	for _, e := range all {
		w.row(what, text(e.Name), text(e.Data), age(e.Since, w.now), e.Session)
	}
}

func (w *sheet) transaction(tx *inspect.Transaction) {
	state := "in doubt"
	switch {
	case tx.Committed:
		state = "committed by " + tx.By
	case !tx.InDoubt:
		state = "aborted by " + tx.By + ": " + tx.Reason
	}
	if !tx.Coordinated {
		state += ", no coordinator"
	}
	w.row(text(tx.ID), tx.Mode, state, age(tx.Since, w.now))
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
