package queue

import (
	"slices"
)

// scattered rotates the places of the first priority, so that rivals begin at different items, and
// do not try the same ones in vain. The order is otherwise kept.
func scattered(places []place, chance uint64) []place {
	n := alike(places, places)
	if n < 2 {
		return places
	}
	// Consecutive chances land far apart.
	const odd = 0x9e3779b97f4a7c15 // Fibonacci hashing
	at := int(chance * odd >> 1 % uint64(n))
	return slices.Concat(places[at:n], places[:at], places[n:])
}

// alike returns the number of places at the beginning that are of the same kind as the first of
// others: items that are put come behind them, or before them all.
func alike(places, others []place) int {
	i := slices.IndexFunc(places, func(p place) bool {
		return p.bucket.priority != others[0].bucket.priority || p.bucket.after != others[0].bucket.after
	})
	if i < 0 {
		return len(places)
	}
	return i
}
