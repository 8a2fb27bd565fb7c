//go:build !seeded

package bubble

// Seeded reports whether the runtime's choices follow from the seed.
const Seeded = false

// seedRuntime does nothing: the runtime's choices are its own.
func seedRuntime(uint64) {}
