package layout

import (
	"slices"
)

// Scattered rotates the places of the first priority, so that rivals begin at different items, and
// do not try the same ones in vain. The order is otherwise kept.
func Scattered(places []Place, chance uint64) []Place {
	n := Alike(places, places)
	if n < 2 {
		return places
	}
	// Consecutive chances land far apart.
	const odd = 0x9e3779b97f4a7c15 // Fibonacci hashing
	at := int(chance * odd >> 1 % uint64(n))
	return slices.Concat(places[at:n], places[:at], places[n:])
}

// Alike returns the number of places at the beginning that are of the same kind as the first of
// others: items that are put come behind them, or before them all.
func Alike(places, others []Place) int {
	i := slices.IndexFunc(places, func(p Place) bool {
		return p.Bucket.Priority != others[0].Bucket.Priority || p.Bucket.After != others[0].Bucket.After
	})
	if i < 0 {
		return len(places)
	}
	return i
}
