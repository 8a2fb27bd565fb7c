package watch

import (
	"fmt"
	"io"
)

// String describes the watch in one short line.
func (w *Watch[S]) String() string { return "watch " + w.name }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watch[S]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, w.String()) }

// String describes the cache in one short line.
func (c *Cache) String() string { return "tree " + c.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (c *Cache) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }
