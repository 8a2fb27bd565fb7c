package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
)

// This file judges when the turn of an item of a queue comes: by its priority, and by its delay.

// soon is the time in which a more urgent item is the next, once it is there.
const soon = time.Second

// MostUrgentFirst checks that a take leaves no item behind that is more urgent, has no delay, and
// was there all the time: it was put before, and another take has it later. The server of the taker
// must have known of it for a second, and has if a write of the same session that was called after
// the put has returned. A taker whose session has changed meanwhile has none. Where there were
// consumers, items may have been claimed, and nothing is judged.
func MostUrgentFirst(h *history.History) []Violation {
	v := verdict{check: "MostUrgentFirst"}
	consumed := byPlace(h, func(o *history.Operation) bool { return o.Kind == Deliver })
	all := byPlace(h, func(o *history.Operation) bool {
		return o.Outcome == history.OK && (o.Kind == Put || o.Kind == Take || o.Kind == Drain)
	})
	for _, p := range places(all) {
		if meddled(h, p.path) || consumed[p] != nil {
			continue
		}
		puts, takes := make(map[string]*history.Operation), make(map[string]*history.Operation)
		for _, o := range all[p] {
			if o.Kind == Put {
				puts[o.Argument] = o
			} else {
				takes[o.Result] = o
			}
		}
		for _, take := range all[p] {
			taken := puts[take.Result]
			if take.Kind == Put || taken == nil || take.Session == 0 {
				continue
			}
			known := knownTo(take, all[p])
			for _, put := range all[p] {
				later := takes[put.Argument]
				switch {
				case put.Kind != Put || put.Delay > 0 || put.Priority >= taken.Priority:
				case later == nil || !take.Return.Before(later.Call):
				case known(put):
					v.add(p.recipe, p.path, "%s takes %s of priority %d at %v, and leaves %s of priority %d, put at %v", take.Process,
						take.Result, taken.Priority, take.Return.At, put.Argument, put.Priority, put.Return.At)
				}
			}
		}
	}
	return v.all
}

// knownTo returns whether the server of a taker surely knew of a put in time.
func knownTo(take *history.Operation, all []*history.Operation) func(put *history.Operation) bool {
	own := func(o *history.Operation) bool {
		return o.Process == take.Process && o.Session == take.Session && o.Return.At+soon <= take.Call.At
	}
	var since history.Moment // the call of the last write of the session
	for _, o := range all {
		if own(o) {
			since = latest(since, o.Call)
		}
	}
	return func(put *history.Operation) bool { return own(put) || put.Return.Before(since) }
}

// NotBeforeDue checks that no item is given out before its delay has passed by the servers' clock,
// counted from the call of its put or its rejection. The time at a moment is known from the
// transactions before and after. Nothing is excused, but that an item whose rejection is forgotten
// with older data comes as if it was never rejected.
func NotBeforeDue(h *history.History) []Violation {
	v := verdict{check: "NotBeforeDue"}
	timed := slices.DeleteFunc(slices.Clone(h.Commits), func(c history.Commit) bool { return c.Time == 0 })
	all := byPlace(h, func(o *history.Operation) bool {
		return slices.Contains([]string{Put, Reject, Take, Drain, Deliver}, o.Kind)
	})
	for _, p := range places(all) {
		given := make(map[string][]*history.Operation)
		for _, o := range all[p] {
			switch {
			case o.Kind == Deliver:
				given[o.Argument] = append(given[o.Argument], o)
			case o.Kind != Put && o.Kind != Reject && o.Returned():
				given[o.Result] = append(given[o.Result], o)
			}
		}
		for _, o := range all[p] {
			delayed := o.Kind == Put && o.Outcome != history.Failed || o.Kind == Reject && o.Outcome == history.OK
			if !delayed || o.Delay <= 0 {
				continue
			}
			for _, g := range given[o.Argument] {
				if o.Kind == Reject && !comesAfter(h, o, g) {
					continue
				}
				if passed := atMost(timed, o.Call, g.Return); passed < o.Delay {
					v.add(p.recipe, p.path, "item %s, to be delayed by %v from %v on, is given out at %v, when at most %v have passed", o.Argument, o.Delay, o.Call.At, g.Return.At, passed)
				}
			}
		}
	}
	return v.all
}

// comesAfter reports whether an item was given out after its rejection. A delivery may be received
// later than the next was rejected; its attempt says which it is.
func comesAfter(h *history.History, rejection, given *history.Operation) bool {
	if restores(h, rejection.Call) != restores(h, given.Return) {
		return false
	}
	if given.Kind == Deliver {
		return given.Token > rejection.Token
	}
	return rejection.Return.Before(given.Call)
}

// atMost returns how much time has passed at most between two moments, by the servers' clock. The
// commits are in order, and have times of whole milliseconds.
func atMost(commits []history.Commit, from, until history.Moment) time.Duration {
	after, _ := slices.BinarySearchFunc(commits, from, func(c history.Commit, m history.Moment) int { return cmp.Or(c.At.Compare(m), -1) })
	end, _ := slices.BinarySearchFunc(commits, until, func(c history.Commit, m history.Moment) int { return cmp.Or(c.At.Compare(m), -1) })
	if after == 0 || end == len(commits) {
		return forever
	}
	return time.Duration(commits[end].Time+1-commits[after-1].Time) * time.Millisecond
}

const forever = 1<<63 - 1
