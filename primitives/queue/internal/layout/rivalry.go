package layout

import "slices"

// A Rivalry is where a client begins in its lists once another client had an item first: somewhere
// among the most urgent, so that rivals do not try the same ones in vain. It goes on from there in
// later lists, until it has used up one, or meets a rival again.
type Rivalry struct {
	Chance uint64 // where to begin; begins at random, and grows with each use
	Met    bool   // set when another client had an item first, cleared by the next list

	lasts bool  // set with Met, cleared when a list is used up or empty
	next  Place // the first that was left of the last list; the zero Place before all others
	left  bool  // set when places were left, cleared by the next list
}

// Meet notes that another client had an item first. The rest of the list may be gone too.
func (r *Rivalry) Meet() { r.Met, r.lasts = true, true }

// Lasts reports whether the client has met a rival, and has not used up a list since.
func (r *Rivalry) Lasts() bool { return r.lasts }

// Leave notes that a list is given up, of which the places are left. Several users of the list may
// say so.
func (r *Rivalry) Leave(left []Place) {
	if len(left) > 0 && (!r.left || left[0].Compare(r.next) < 0) {
		r.next, r.left = left[0], true
	}
}

// UseUp notes that nothing is left of a list. After one that rivals have cut, more is left of the
// queue.
func (r *Rivalry) UseUp() { r.lasts = r.lasts && r.Met }

// Order returns the places of a new list in the order in which to try them. Only the order of the
// first priority changes: the places before the first to try come after the others.
func (r *Rivalry) Order(places []Place) []Place {
	n := 0
	if len(places) > 0 {
		n = Alike(places, places)
	}
	at := 0
	switch {
	case n == 0:
		r.lasts = false
	case !r.lasts:
	case r.Met:
		// Consecutive chances land far apart.
		const odd = 0x9e3779b97f4a7c15 // Fibonacci hashing
		r.Chance++
		at = int(r.Chance * odd >> 1 % uint64(n))
	default:
		at = max(0, slices.IndexFunc(places[:n], func(p Place) bool { return p.Compare(r.next) >= 0 }))
	}
	r.Met, r.left = false, false
	if at == 0 {
		return places
	}
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
