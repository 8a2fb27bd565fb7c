package nodes

// This file is the rule by which contenders for a lock share it, or wait for each other. The rule of
// the line decides by it, that of locks with priorities, and the lists of contenders that packages lock and
// inspect show. The names by which contenders of a kind are known stand in layouts.go.

// A Kind says which other contenders may hold the lock together with a contender.
type Kind int8

// The kinds. An exclusive contender and a writer differ in this alone: only a writer may turn into a reader.
const (
	Exclusive Kind = iota
	Read
	Write
)

func (k Kind) String() string { return [...]string{"exclusive", "read", "write"}[k] }

// Excludes reports whether a contender of the kind, ahead in line, has one of the other kind wait. Readers do not
// exclude readers. So a reader waits for the writers and the exclusive contenders ahead of it, and all
// others wait for every contender ahead.
func (k Kind) Excludes(behind Kind) bool { return k != Read || behind != Read }

// A Front finds the holders of a lock whose order alone decides. It is given the kinds of the contenders
// in the order in which they stand in line.
type Front struct {
	seen [Write + 1]bool // set for the kinds of the contenders so far
}

// Holds reports whether the next contender in line holds: it waits for no contender ahead of it.
func (f *Front) Holds(next Kind) bool {
	holds := true
	for kind, ahead := range f.seen {
		holds = holds && (!ahead || !Kind(kind).Excludes(next))
	}
	f.seen[next] = true
	return holds
}
