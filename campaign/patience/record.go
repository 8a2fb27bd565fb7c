package patience

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// An outcome says how a run ended.
type outcome string

const (
	passed outcome = "passed"
	failed outcome = "failed"
	hung   outcome = "hung" // it reached the limit of its time
)

// A key names a run: of the same tests, whatever the commit is.
type key struct {
	Package string `json:"package"`
	Hash    string `json:"hash"`
	Phase   string `json:"phase"`
	Race    bool   `json:"race"`
	Tests   string `json:"tests,omitempty"`
	Number  int    `json:"number"`
}

func (k key) mode() string {
	if k.Race {
		return k.Phase + ", -race -short"
	}
	return k.Phase
}

// An entry is a line of the record: what came of a run.
type entry struct {
	key
	Commit  string    `json:"commit"`
	Begin   time.Time `json:"begin"`
	Seconds float64   `json:"seconds"`
	Outcome outcome   `json:"outcome"`
	Failed  []string  `json:"failed,omitempty"` // tests
	Seed    uint64    `json:"seed"`
	Stops   []float64 `json:"stops,omitempty"`  // when the process was stopped, in seconds from its start
	Output  string    `json:"output,omitempty"` // a file, if the run has not passed
}

// A record is a file with an entry in each line. It is safe for concurrent use.
type record struct {
	mu      sync.Mutex
	file    *os.File
	entries map[key]entry
}

// openRecord opens a record, or creates it.
func openRecord(name string) (_ *record, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	r := &record{entries: map[key]entry{}}
	if r.file, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(r.file)
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, errors.Join(fmt.Errorf("%s:%d: %w", name, n, err), r.close())
		}
		r.entries[e.key] = e
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), r.close())
	}
	return r, nil
}

func (r *record) find(k key) (entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, is := r.entries[k]
	return e, is
}

// add writes an entry at once.
func (r *record) add(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[e.key] = e
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func (r *record) close() error { return r.file.Close() }
