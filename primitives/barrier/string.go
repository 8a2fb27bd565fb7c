package barrier

import (
	"fmt"
	"io"
)

// String describes the barrier in one short line.
func (b *Barrier) String() string { return "barrier " + b.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (b *Barrier) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, b.String()) }

// String describes the gate in one short line.
func (g *Gate) String() string { return "gate of barrier " + g.barrier.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (g *Gate) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, g.String()) }

// String describes the barrier in one short line.
func (d *Double) String() string { return "double barrier " + d.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (d *Double) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }
