package commit

import (
	"fmt"
	"io"
)

// String describes the transaction in one short line.
func (t *Transaction) String() string { return "transaction " + t.place.record() }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (t *Transaction) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// String describes the participant in one short line.
func (p *Participant) String() string { return "site " + p.site + " of " + p.parent }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (p *Participant) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }
