package nodes

// This file is the rule by which contenders for a lock share it, or wait for each other. The rule
// of the line decides by it, the rule of locks with priorities, and the lists of contenders that
// packages lock and inspect show. The names by which contenders of a kind are known stand in
// layouts.go.

// A Kind says which other contenders may hold the lock together with a contender.
type Kind int8

// The kinds. An exclusive contender and a writer differ in this alone: only a writer may turn into
// a reader.
const (
	Exclusive Kind = iota
	Read
	Write
)

func (k Kind) String() string { return [...]string{"exclusive", "read", "write"}[k] }

// Excludes reports whether a contender of the kind, ahead in line, has one of the other kind wait.
// Readers do not exclude readers. So a reader waits for the writers and the exclusive contenders
// ahead of it, and all others wait for every contender ahead.
func (k Kind) Excludes(behind Kind) bool { return k != Read || behind != Read }

// Ahead is the number of contenders of each kind that are ahead of one, or hold.
type Ahead [Write + 1]int

// Add counts a contender.
func (a *Ahead) Add(k Kind) { a[k]++ }

// Waits returns for how many of these contenders a contender of the kind waits: it holds, or has
// its turn, when there is none.
func (a *Ahead) Waits(k Kind) (n int) {
	for ahead, count := range a {
		if Kind(ahead).Excludes(k) {
			n += count
		}
	}
	return n
}

// Holds reports whether the next contender in the order of the line holds, and adds it to those
// ahead. It is for locks whose order alone decides.
func (a *Ahead) Holds(next Kind) bool {
	holds := a.Waits(next) == 0
	a.Add(next)
	return holds
}
