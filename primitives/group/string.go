package group

import (
	"fmt"
	"io"

	"github.com/zkactors/zkactors/internal/znode"
)

// String describes the membership in one short line.
func (m *Membership) String() string { return "member " + znode.Join(m.path, m.id) }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (m *Membership) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

// String describes the watcher in one short line.
func (w *Watcher) String() string { return "watcher of group " + w.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watcher) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, w.String()) }
