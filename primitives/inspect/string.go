package inspect

import (
	"fmt"
	"io"
)

// String describes the watcher in one short line.
func (w *Watcher) String() string { return "watcher of what stands below " + w.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watcher) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, w.String()) }
