package lock

import (
	"fmt"
	"io"
)

// String describes the lock in one short line.
func (l *Lock) String() string { return "lock " + l.site.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (l *Lock) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// String describes the mutex in one short line.
func (m *Mutex) String() string { return "mutex " + m.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (m *Mutex) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }
