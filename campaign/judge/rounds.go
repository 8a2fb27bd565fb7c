package judge

import (
	"slices"
	"strings"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of operations of parties of a double barrier. Token is the round.
const (
	Enter = "enter" // Argument is the party's name, Result the names of the members, Limit their number
	Leave = "leave"
	Fall  = "fall" // the party learns that it is not in the round any more
)

// A party is a member of one round.
type party struct {
	enter *history.Operation
	out   history.Moment // when it began to leave, fell out, or died; zero if it never did
	left  *history.Operation
}

// Rounds checks double barriers: all members of a round have come before the first is in, and have
// begun to leave before the first is out; all see the same members, as many as parties were agreed;
// and rounds do not overlap. Rounds during which older data has come back, sessions were ended by
// decree, members were stopped, or an operator has deleted nodes, are not judged: members can be
// out without knowing. The
// server removes the path when it has been empty for a while, and then a number may come again: it
// is that of another round.
func Rounds(h *history.History) []Violation {
	v := verdict{check: "Rounds"}
	ops := byPlace(h, func(o *history.Operation) bool {
		return o.Outcome == history.OK && o.Kind == Enter || o.Kind == Leave || o.Kind == Fall
	})
	lives := livesOf(h)
	for _, p := range places(ops) {
		rounds := roundsOf(h, p.path, ops[p])
		var former []*party
		for _, key := range sortedKeys(rounds) {
			round, number := rounds[key], rounds[key][0].enter.Token
			if disturbed(h, lives, p.path, round) {
				former = nil
				continue
			}
			for _, a := range round {
				if names := strings.Split(a.enter.Result, ","); len(names) != a.enter.Limit || !slices.Contains(names, a.enter.Argument) {
					v.add(p.recipe, p.path, "round %d: %s is in with the members %s", number, a.enter.Handle, a.enter.Result)
				}
				for _, b := range round {
					v.pair(p, number, a, b)
				}
				for _, b := range former {
					if (b.out == history.Moment{}) || a.enter.Return.Before(b.out.Start()) {
						v.add(p.recipe, p.path, "round %d begins at %v, while %s is in the round before", number, a.enter.Return.At, b.enter.Handle)
					}
				}
			}
			former = round
		}
	}
	return v.all
}

// pair judges two members of one round.
func (v *verdict) pair(p place, number int64, a, b *party) {
	if a.enter.Result != b.enter.Result {
		v.add(p.recipe, p.path, "round %d has the members %s, and %s", number, a.enter.Result, b.enter.Result)
	}
	if a.enter.Return.Before(b.enter.Call) {
		v.add(p.recipe, p.path, "round %d: %s is in at %v, before %s came at %v", number, a.enter.Handle, a.enter.Return.At, b.enter.Handle, b.enter.Call.At)
	}
	if a.left != nil && ((b.out == history.Moment{}) || a.left.Return.Before(b.out.Start())) {
		v.add(p.recipe, p.path, "round %d: %s is out at %v, while %s is in", number, a.enter.Handle, a.left.Return.At, b.enter.Handle)
	}
}

// newPath is by how much the keys of rounds grow when the path is made again. No round has such a
// number.
const newPath = 1 << 32

// roundsOf returns the members of the rounds, in the order of their keys.
func roundsOf(h *history.History, path string, ops []*history.Operation) map[int64][]*party {
	rounds := make(map[int64][]*party)
	in := make(map[string]*party) // by handle
	for _, o := range ops {
		switch m := in[o.Handle]; {
		case o.Kind == Enter:
			m = &party{enter: o}
			in[o.Handle] = m
			key := o.Token + newPath*int64(deletions(h, path, o.Return))
			rounds[key] = append(rounds[key], m)
		case m == nil || m.enter.Token != o.Token:
		case o.Kind == Fall:
			m.out = o.Call
		default:
			if m.out == (history.Moment{}) || o.Call.Before(m.out) {
				m.out = o.Call
			}
			if o.Outcome == history.OK {
				m.left = o
			}
		}
	}
	for _, round := range rounds {
		for _, m := range round {
			for _, f := range h.Faults {
				if f.Kind == history.Killed && f.Process == m.enter.Process && (m.out == history.Moment{}) {
					m.out = f.At
				}
			}
		}
	}
	return rounds
}

// deletions counts how often a path had been deleted at a moment.
func deletions(h *history.History, path string, at history.Moment) int {
	n := 0
	for _, c := range h.Commits {
		if at.Before(c.At) {
			break
		}
		for _, ch := range c.Changes {
			if ch.Kind == history.Deleted && ch.Path == path {
				n++
			}
		}
	}
	return n
}

// disturbed reports whether members of a round may be out of it without knowing.
func disturbed(h *history.History, lives map[life]history.Moment, path string, round []*party) bool {
	begin, end := round[0].enter.Call, round[0].enter.Return
	processes := make(map[string]bool)
	for _, m := range round {
		if m.enter.Call.Before(begin) {
			begin = m.enter.Call
		}
		end = latest(end, m.out)
		if m.left != nil {
			end = latest(end, m.left.Return)
		}
		processes[m.enter.Process] = true
	}
	ofMember := func(session int64) bool { // the one that entered may have begun after the call
		return slices.ContainsFunc(round, func(m *party) bool {
			_, is := lives[life{m.enter.Process, session}]
			return is
		})
	}
	return slices.ContainsFunc(h.Faults, func(f history.Fault) bool {
		if f.Kind == history.Restored {
			return true
		}
		if f.At.At+f.For < begin.At || end.Before(f.At) {
			return false
		}
		return f.Kind == history.Expired && ofMember(f.Session) || f.Kind == history.Stopped && f.For >= waking && processes[f.Process] || f.Kind == history.Removed && under(f.Path, path)
	})
}
