package semaphore

import (
	"fmt"
	"io"
)

// String describes the lease in one short line.
func (l *Lease) String() string { return "lease of semaphore " + l.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (l *Lease) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }
