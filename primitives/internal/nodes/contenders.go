package nodes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// This file is the grammar of contenders' names, and their order.
//
//	name   = [ anything ] mark number
//	number = what printf("%010d") makes of a signed 32-bit integer
//
// Children with other names are no contenders.

// A Contender is the parsed name of a node in line.
type Contender struct {
	Name   string
	Kind   Kind
	Number int32
}

// A Mark stands before the number in the names of contenders of one kind.
type Mark struct {
	Text string
	Kind Kind
}

// A Grammar is the form of the names of contenders. It is the address that is
// compared.
type Grammar struct {
	Recipe Recipe // of the contenders
	Marks  []Mark

	// Prefix returns the name that begins as the names of all nodes that are created with this
	// GUID, and ends with rest. Separated says that a hyphen stands before every mark.
	Prefix    func(guid, rest string) string
	Separated bool
}

// Name returns the name with which the node of a contender is created; the server appends a number.
func (g *Grammar) Name(guid string, kind Kind) string {
	return g.Prefix(guid, g.mark(kind))
}

// Parse reads the name of a contender.
func (g *Grammar) Parse(name string) (c Contender, ok bool) {
	for _, m := range g.Marks {
		i := strings.LastIndex(name, m.Text)
		if i < 0 || g.Separated && i > 0 && name[i-1] != '-' {
			continue
		}
		if n, ok := ParseNumber(name[i+len(m.Text):]); ok {
			return Contender{Name: name, Kind: m.Kind, Number: n}, true
		}
	}
	return Contender{}, false
}

// Downgraded returns the name of the reader that the writer with the name becomes by a downgrade:
// with the same GUID and number, so that it stands where the writer has stood.
func (g *Grammar) Downgraded(writer string) (reader string, ok bool) {
	mark := g.mark(Write)
	i := strings.LastIndex(writer, mark)
	if i < 0 {
		return "", false
	}
	reader = writer[:i] + g.mark(Read) + writer[i+len(mark):]
	c, ok := g.Parse(reader)
	return reader, ok && c.Kind == Read
}

// mark returns the text of the mark of a kind, which the grammar has.
func (g *Grammar) mark(kind Kind) string {
	return g.Marks[slices.IndexFunc(g.Marks, func(m Mark) bool { return m.Kind == kind })].Text
}

// Line returns the contenders among the children, in the order in which they stand in
// line.
func (g *Grammar) Line(children []string) []Contender {
	var all []Contender
	for _, name := range children {
		if c, ok := g.Parse(name); ok {
			all = append(all, c)
		}
	}
	Sort(all)
	return all
}

// Sort sorts contenders as they stand in line.
func Sort(all []Contender) {
	if len(all) > 0 {
		reference := all[0].Number
		slices.SortFunc(all, func(a, b Contender) int { return Compare(reference, a, b) })
	}
}

// ParseNumber reads the number that the server appends to names.
func ParseNumber(digits string) (number int32, ok bool) {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0, false
	}
	// At least ten characters, no more than it takes, and a sign only if negative.
	switch signed, long := strings.HasPrefix(digits, "-"), len(digits) == 11; {
	case len(digits) < 10, digits[0] == '+', signed != (n < 0), long && (!signed || digits[1] == '0'):
		return 0, false
	}
	return int32(n), len(digits) <= 11
}

// Compare orders two contenders. The numbers that the server hands out wrap
// from 2147483647 to -2147483648; they are compared by their distance from a reference
// among them, which keeps the order as long as the line is shorter than 2³¹.
func Compare(reference int32, a, b Contender) int {
	return cmp.Or(cmp.Compare(a.Number-reference, b.Number-reference), cmp.Compare(a.Name, b.Name))
}
