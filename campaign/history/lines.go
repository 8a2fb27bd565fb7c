package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A line is one record. One of its fields is set, and in a journal the key of an operation.
type line struct {
	Head      *Head      `json:"head,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
	Told      *Told      `json:"told,omitempty"`
	Commit    *Commit    `json:"commit,omitempty"`
	Fault     *Fault     `json:"fault,omitempty"`

	Key     int64 `json:"key,omitempty"`
	Dropped int64 `json:"dropped,omitempty"` // the key of an operation that turned out to be none
}

// moment returns the moment by which lines are ordered.
func (l line) moment() Moment {
	switch {
	case l.Operation != nil:
		return l.Operation.Call
	case l.Told != nil:
		return l.Told.At
	case l.Commit != nil:
		return l.Commit.At
	case l.Fault != nil:
		return l.Fault.At
	}
	return Moment{}
}

// lines returns everything in order.
func (h *History) lines() []line {
	all := []line{{Head: &h.Head}}
	operations, told, commits, faults := h.Operations, h.Told, h.Commits, h.Faults
	for {
		var next line
		closer := func(l line) {
			if next == (line{}) || l.moment().Before(next.moment()) {
				next = l
			}
		}
		if len(operations) > 0 {
			closer(line{Operation: &operations[0]})
		}
		if len(told) > 0 {
			closer(line{Told: &told[0]})
		}
		if len(commits) > 0 {
			closer(line{Commit: &commits[0]})
		}
		if len(faults) > 0 {
			closer(line{Fault: &faults[0]})
		}
		switch {
		case next.Operation != nil:
			operations = operations[1:]
		case next.Told != nil:
			told = told[1:]
		case next.Commit != nil:
			commits = commits[1:]
		case next.Fault != nil:
			faults = faults[1:]
		default:
			return all
		}
		all = append(all, next)
	}
}

// Write writes the history as lines of JSON.
func (h *History) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	for _, l := range h.lines() {
		if err := encoder.Encode(l); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return b.Flush()
}

// Read reads what Write has written.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	decoder := json.NewDecoder(r)
	for {
		var l line
		switch err := decoder.Decode(&l); {
		case errors.Is(err, io.EOF):
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("history: %w", err)
		}
		h.add(l)
	}
}

func (h *History) add(l line) {
	switch {
	case l.Head != nil:
		h.Head = *l.Head
	case l.Operation != nil:
		h.Operations = append(h.Operations, *l.Operation)
	case l.Told != nil:
		h.Told = append(h.Told, *l.Told)
	case l.Commit != nil:
		h.Commits = append(h.Commits, *l.Commit)
	case l.Fault != nil:
		h.Faults = append(h.Faults, *l.Fault)
	}
}
