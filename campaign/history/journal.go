package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// A journal has the records of one process as they are made: an operation at its call, and again at
// its return. What a process has recorded stays when it is killed. The zero journal keeps nothing.
type journal struct {
	encoder *json.Encoder
	err     error // the first
}

func (j *journal) write(l line) {
	if j.encoder != nil && j.err == nil {
		j.err = j.encoder.Encode(l)
	}
}

// NewJournal returns a recorder that also writes each record, at once, to a writer without a
// buffer. Its moments are of a clock that all processes of the history share.
func NewJournal(w io.Writer, now func() time.Duration) *Recorder {
	r := NewRecorder(Head{}, now)
	r.journal.encoder = json.NewEncoder(w)
	r.journal.encoder.SetEscapeHTML(false)
	return r
}

// Err returns why the journal is not complete.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.err
}

// Join adds the records of a journal to the history. The journal of a process that was killed may
// end in the middle of a line. Sort is to be called after the last.
func (h *History) Join(journal io.Reader) error {
	operations := make(map[int64]int) // by key: the index
	dropped := make(map[int64]bool)
	start := len(h.Operations)
	decoder := json.NewDecoder(journal)
	for {
		var l line
		err := decoder.Decode(&l)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("history: a journal: %w", err)
		}
		at, known := operations[l.Key]
		switch {
		case l.Dropped != 0:
			dropped[l.Dropped] = true
		case l.Operation == nil:
			h.add(l)
		case known:
			h.Operations[at] = *l.Operation
		default:
			operations[l.Key] = len(h.Operations)
			h.add(l)
		}
	}
	for key := range dropped {
		h.Operations[operations[key]].Kind = "" // no operation is without
	}
	h.Operations = slices.Concat(h.Operations[:start], slices.DeleteFunc(h.Operations[start:], func(o Operation) bool { return o.Kind == "" }))
	return nil
}

// Sort puts everything in the order of its moments.
func (h *History) Sort() {
	slices.SortStableFunc(h.Operations, func(a, b Operation) int { return a.Call.Compare(b.Call) })
	slices.SortStableFunc(h.Told, func(a, b Told) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(h.Commits, func(a, b Commit) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(h.Faults, func(a, b Fault) int { return a.At.Compare(b.At) })
}
