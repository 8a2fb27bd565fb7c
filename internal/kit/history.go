package kit

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// shown is the number of transactions that a test prints when it fails.
const shown = 30

// A history keeps the newest transactions of a server.
type history struct {
	mu    sync.Mutex
	begun time.Time
	lines [shown]entry // a ring
	n     int          // all so far
}

// An entry is a transaction, and its time.
type entry struct {
	at time.Duration
	zktest.Transaction
}

// watch has a test that fails print the newest transactions of a server with the configuration, and
// the command that repeats the test.
func watch(t *testing.T, config *zktest.Config) {
	t.Helper()
	h, then := &history{begun: time.Now()}, config.Committed
	config.Committed = func(tx zktest.Transaction) {
		h.add(tx)
		if then != nil {
			then(tx)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\n%s", h, check.Guide(t))
		}
	})
}

func (h *history) add(tx zktest.Transaction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines[h.n%shown] = entry{time.Since(h.begun), tx}
	h.n++
}

// String has a line for each transaction.
func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := []string{fmt.Sprintf("the server's %d transactions, the newest %d of them:", h.n, min(h.n, shown))}
	for i := max(0, h.n-shown); i < h.n; i++ {
		lines = append(lines, h.lines[i%shown].String())
	}
	return strings.Join(lines, "\n")
}

// String describes the transaction in one line.
func (e entry) String() string {
	text := fmt.Sprintf("    %8v  %#x", e.at.Round(time.Millisecond), e.Zxid)
	if e.Restored {
		return fmt.Sprintf("%s  restored, %d nodes", text, len(e.Changes))
	}
	if e.Closes != 0 {
		text += fmt.Sprintf("  ends session %#x", uint64(e.Closes))
	}
	for _, c := range e.Changes {
		switch c.Kind {
		case zktest.Created:
			text += fmt.Sprintf("  creates %s %.40q", c.Path, c.Data)
			if c.Owner != 0 {
				text += fmt.Sprintf(" of %#x", uint64(c.Owner))
			}
		case zktest.DataSet:
			text += fmt.Sprintf("  sets %s %.40q", c.Path, c.Data)
		case zktest.Deleted:
			text += "  deletes " + c.Path
		}
	}
	return text
}
