//go:build seeded

package bubble

import _ "unsafe" // for go:linkname

// Seeded reports whether the runtime's choices follow from the seed.
const Seeded = true

// seedRuntime has all choices of the runtime follow from the seed. The runtime that package overlay
// makes has this function.
//
//go:linkname seedRuntime runtime.seedChoices
func seedRuntime(seed uint64)
