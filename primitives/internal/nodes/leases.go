package nodes

import (
	"strconv"
	"strings"
)

// This file has the names of contenders for a semaphore, and its record.

// LeaseMark begins the end of the name of a contender for a semaphore: the weight follows, unless
// it is 1, and the number.
const LeaseMark = "lease-"

// MaxLimit is the greatest limit of a semaphore, and the greatest weight.
const MaxLimit = 1_000_000_000

// ParseLease reads the name of a contender for a semaphore.
func ParseLease(name string) (c Contender, weight int, ok bool) {
	i := strings.LastIndex(name, LeaseMark)
	if i < 0 || i > 0 && name[i-1] != '-' {
		return Contender{}, 0, false
	}
	rest := name[i+len(LeaseMark):]
	if n, ok := ParseNumber(rest); ok {
		return Contender{Name: name, Number: n}, 1, true
	}
	before, after, _ := strings.Cut(rest, "-")
	weight, ok = ParsePositive(before)
	n, numbered := ParseNumber(after)
	return Contender{Name: name, Number: n}, weight, ok && numbered
}

// ParsePositive reads a positive number up to [MaxLimit] as [strconv.Itoa] writes it.
func ParsePositive(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= MaxLimit && text == strconv.Itoa(n)
}

// A Limit is the record of a semaphore.
type Limit struct {
	Limit int
	Unit  bool // every contender so far had the weight 1. Once cleared, it stays cleared
}

const unitMark = " unit"

// String returns the record.
func (l Limit) String() string {
	if l.Unit {
		return strconv.Itoa(l.Limit) + unitMark
	}
	return strconv.Itoa(l.Limit)
}

// ParseLimit reads the record of a semaphore.
func ParseLimit(data string) (l Limit, ok bool) {
	text, unit := strings.CutSuffix(strings.TrimSpace(data), unitMark)
	if l.Limit, ok = ParsePositive(text); !ok {
		return Limit{}, false
	}
	l.Unit = unit
	return l, true
}
