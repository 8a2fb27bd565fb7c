package queue

import (
	"fmt"
	"io"
)

// String describes the queue in one short line.
func (b *base) String() string { return "queue " + b.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (b *base) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, b.String()) }

// String describes the consumer in one short line.
func (c *Consumer) String() string { return "consumer of queue " + c.base.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (c *Consumer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }
