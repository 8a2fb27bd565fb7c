package mutation

// A Target is a package that is mutated.
type Target struct {
	Package string
	// Tests are the packages whose tests may notice what its own tests do not.
	Tests []string
}

// Targets returns the machines, the performers, and the rules of the session.
func Targets() []Target {
	return []Target{
		{"primitives/internal/line", []string{"primitives/internal/contender", "primitives/lock", "primitives/semaphore"}},
		{"primitives/internal/claim", []string{"primitives/election", "primitives/lock"}},
		{"primitives/internal/once", []string{"primitives/config", "primitives/queue"}},
		{"primitives/internal/presence", []string{"primitives/group", "primitives/naming"}},
		{"primitives/internal/priority", []string{"primitives/lock"}},
		{"primitives/internal/contender", []string{"primitives/internal/line", "primitives/lock", "primitives/election"}},
		{"primitives/internal/owned", []string{"primitives/lock", "primitives/group"}},
		{"primitives/lock", nil},
		{"primitives/semaphore", nil},
		{"primitives/barrier", nil},
		{"primitives/commit", nil},
		{"primitives/queue", nil},
		{"primitives/election", nil},
		{"primitives/shard", nil},
		{"primitives/config", nil},
		{"session/internal/lease", []string{"session/internal/conn"}},
		{"session/internal/order", []string{"session"}},
		{"session/internal/window", []string{"session"}},
		{"session/internal/watches", []string{"watch", "session"}},
		{"session/internal/servers", []string{"session"}},
	}
}
