package config

import (
	"fmt"
	"io"
)

// String describes the handle in one short line.
func (v *Value[T]) String() string { return "config " + v.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (v *Value[T]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }
