package election

import (
	"fmt"
	"io"
)

// String describes the candidate in one short line.
func (c *Candidate) String() string { return "candidate of election " + c.place.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (c *Candidate) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// String describes the observer in one short line.
func (o *Observer) String() string { return "observer of election " + o.place.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (o *Observer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }
