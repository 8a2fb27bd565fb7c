package naming

import (
	"fmt"
	"io"
)

// String describes the registration in one short line.
func (r *Registration) String() string { return "name " + r.node }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (r *Registration) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }
