package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of operations on what is held: locks, leases, leaderships, shards.
const (
	Acquire = "acquire" // returns when the grant is received, with Token, Node, Weight and Limit; Result is its number, if it has one
	End     = "end"     // from the call of a release, or from the instant at which a loss is received
	Write   = "write"   // behind the guard of a grant, with its Token; Argument is unique
)

// A tenure is one grant, from its request until the holder knows that it is over.
type tenure struct {
	grant   *history.Operation
	over    bool
	from    history.Moment // of the end: when the holder gave the grant up, or learned of the loss
	until   history.Moment
	excused bool // what ended it was no promise of the recipe
	era     int  // how often servers had come back with older data before the grant
	between bool // they did so while the grant was requested
}

// tenuresOf returns the grants by place.
func tenuresOf(h *history.History) map[place][]*tenure {
	killed := make(map[string]history.Moment)
	for _, f := range h.Faults {
		if f.Kind == history.Killed {
			killed[f.Process] = f.At
		}
	}
	ends := make(map[string]*history.Operation)
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Kind == End {
			ends[o.Handle] = o
		}
	}
	all := make(map[place][]*tenure)
	granted := byPlace(h, func(o *history.Operation) bool { return o.Kind == Acquire && o.Outcome == history.OK })
	for p, grants := range granted {
		for _, g := range grants {
			t := &tenure{grant: g, era: restores(h, g.Return)}
			t.between = t.era != restores(h, g.Call)
			dead, isDead := killed[g.Process]
			if end := ends[g.Handle]; end != nil {
				t.over, t.from, t.until = true, end.Call, end.Return
			}
			if isDead && (!t.over || dead.Before(t.from)) {
				t.over, t.from, t.until = true, dead, dead
			}
			t.excused = excused(h, t)
			if t.over {
				t.from = unaware(h, t)
			}
			all[p] = append(all[p], t)
		}
	}
	return all
}

// waking is the time that a process that goes on needs to learn of the losses meanwhile.
const waking = 100 * time.Millisecond

// unaware returns since when the process of a grant could not learn of its end, because it was
// stopped, or once more when it had hardly gone on: the end may have been from then on.
func unaware(h *history.History, t *tenure) history.Moment {
	since := t.from
	for _, f := range slices.Backward(h.Faults) {
		if f.Kind == history.Stopped && f.Process == t.grant.Process && f.At.Before(since) && since.At <= f.At.At+f.For+waking {
			since = f.At
		}
	}
	return since
}

// excused reports whether the nodes of a grant were taken from it in a way that recipes do not
// bear.
func excused(h *history.History, t *tenure) bool {
	return slices.ContainsFunc(h.Faults, func(f history.Fault) bool {
		if f.At.Before(t.grant.Call) || t.over && t.from.Before(f.At) {
			return false
		}
		switch f.Kind {
		case history.Expired:
			return f.Session == t.grant.Session
		case history.Removed:
			return under(f.Path, t.grant.Path) || under(t.grant.Path, f.Path)
		case history.Restored:
			return true
		case history.Disturbed, history.Killed, history.Stopped, history.Healed:
		}
		return false
	})
}

// A move is a grant, or its end, for porcupine.
type move struct {
	*tenure
	ends bool
}

// A holding is the state of a place: who holds, and the greatest tokens so far.
type holding struct {
	handles   string // in order, each behind a space
	sum       int
	all       bool // one of them holds everything
	era       int
	exclusive int64 // the greatest token of a holder of everything
	any       int64
}

// A specification says what may be held together.
type specification struct {
	tokens bool // grow with every grant of everything
}

// specifications of the recipes.
func specifications() map[string]specification {
	return map[string]specification{
		"lock":      {tokens: true},
		"readwrite": {tokens: true},
		"semaphore": {},
		"election":  {tokens: true},
		"shard":     {tokens: true},
		"once":      {tokens: true},
		"gate":      {tokens: true},
	}
}

func (s specification) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holding{} },
		Step: func(state, input, _ any) (bool, any) {
			m, ok := input.(move)
			h, isHolding := state.(holding)
			if !ok || !isHolding {
				return false, state
			}
			return s.step(h, m)
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
}

func (s specification) step(h holding, m move) (bool, any) {
	g, name := m.grant, " "+m.grant.Handle
	everything := g.Weight == 0
	if m.ends {
		at := slices.Index(strings.Fields(h.handles), g.Handle)
		if at < 0 {
			return false, h
		}
		h.handles = strings.Replace(h.handles+" ", name+" ", " ", 1)
		h.handles = strings.TrimSuffix(h.handles, " ")
		h.sum -= g.Weight
		h.all = h.all && !everything
		return true, h
	}
	if h.all || everything && h.handles != "" || !everything && h.sum+g.Weight > g.Limit {
		return false, h
	}
	if m.era > h.era {
		h.era, h.exclusive, h.any = m.era, 0, 0
	}
	if s.tokens && m.era == h.era && !m.between {
		if g.Token <= h.exclusive || everything && g.Token <= h.any {
			return false, h
		}
		h.any = max(h.any, g.Token)
		if everything {
			h.exclusive = g.Token
		}
	}
	held := append(strings.Fields(h.handles), g.Handle)
	slices.Sort(held)
	h.handles = " " + strings.Join(held, " ")
	h.sum += g.Weight
	h.all = everything
	return true, h
}

// patience bounds what porcupine does for one place. No history of the campaign comes near to it; a
// history that does is reported.
const patience = time.Minute

// Exclusive checks that grants that exclude each other do not overlap, that weights stay within
// their limit, and that tokens grow, as far as holders can see: from the event of the grant to the
// call of the release, or to the event of the loss.
func Exclusive(h *history.History) []Violation {
	v := verdict{check: "Exclusive"}
	all := tenuresOf(h)
	for _, p := range places(all) {
		spec, ok := specifications()[family(p.recipe)]
		if !ok {
			continue
		}
		switch porcupine.CheckOperationsTimeout(spec.model(), moves(all[p]), patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			v.add(p.recipe, p.path, "%s", overlap(spec, all[p]))
		case porcupine.Unknown:
			v.add(p.recipe, p.path, "not decided within %v", patience)
		}
	}
	return v.all
}

// moves returns what porcupine is to order. Its times are places in the order of moments.
func moves(all []*tenure) []porcupine.Operation {
	var moments []history.Moment
	for _, t := range all {
		moments = append(moments, t.grant.Call, t.grant.Return, t.from, t.until)
	}
	slices.SortFunc(moments, history.Moment.Compare)
	moments = slices.Compact(moments)
	rank := func(m history.Moment) int64 {
		i, _ := slices.BinarySearchFunc(moments, m, history.Moment.Compare)
		return int64(i)
	}
	end := int64(len(moments))
	var ops []porcupine.Operation
	for i, t := range all {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: move{t, false}, Call: rank(t.grant.Call), Return: rank(t.grant.Return)})
		if !t.over {
			continue
		}
		from, until := t.from, rank(t.until)
		if t.excused {
			from = t.grant.Call
		}
		if (t.until == history.Moment{}) { // the release has not returned
			until = end
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: move{t, true}, Call: rank(from), Return: until})
	}
	return ops
}

// overlap describes two grants that cannot both be, for people. Porcupine decides.
func overlap(s specification, all []*tenure) string {
	byGrant := slices.Clone(all)
	slices.SortFunc(byGrant, func(a, b *tenure) int { return a.grant.Return.Compare(b.grant.Return) })
	for i, next := range byGrant {
		for _, former := range byGrant[:i] {
			shared := former.grant.Weight != 0 && next.grant.Weight != 0
			switch {
			case shared || former.excused:
			case !former.over || next.grant.Return.Before(former.from):
				return fmt.Sprintf("%s is granted at %v, while %s holds", describe(next), next.grant.Return.At, describe(former))
			case s.tokens && former.era == next.era && next.grant.Token <= former.grant.Token:
				return fmt.Sprintf("the token of %s is not greater than that of %s", describe(next), describe(former))
			}
		}
	}
	return fmt.Sprintf("%d grants have no order that the recipe allows", len(all))
}

func describe(t *tenure) string {
	end := "the end"
	if t.over {
		end = t.from.At.String()
	}
	return fmt.Sprintf("%s (token %d, from %v to %s)", t.grant.Handle, t.grant.Token, t.grant.Return.At, end)
}

// Guarded checks the writes behind guards, in the order in which the servers applied them: a write
// of an earlier holder never passes after a write of a later one. That holds whatever is deleted.
func Guarded(h *history.History) []Violation {
	v := verdict{check: "Guarded"}
	type applied struct {
		zxid int64
		era  int
	}
	at, era := make(map[string]applied), 0
	for _, c := range h.Commits {
		if c.Restored {
			era++
		}
		for _, ch := range c.Changes {
			if _, known := at[ch.Data]; ch.Data != "" && !known && !c.Restored {
				at[ch.Data] = applied{c.Zxid, era}
			}
		}
	}
	writes := byPlace(h, func(o *history.Operation) bool { return o.Kind == Write })
	for _, p := range places(writes) {
		if !specifications()[family(p.recipe)].tokens {
			continue
		}
		passed := slices.DeleteFunc(writes[p], func(o *history.Operation) bool {
			_, ok := at[o.Argument]
			return !ok
		})
		slices.SortFunc(passed, func(a, b *history.Operation) int {
			x, y := at[a.Argument], at[b.Argument]
			return cmp.Or(cmp.Compare(x.era, y.era), cmp.Compare(x.zxid, y.zxid))
		})
		var exclusive, newest *history.Operation
		for _, o := range passed {
			if newest != nil && at[newest.Argument].era != at[o.Argument].era {
				exclusive, newest = nil, nil
			}
			switch {
			case exclusive != nil && o.Token < exclusive.Token:
				v.add(p.recipe, p.path, "a write of %s with token %d passes after one of %s with %d", o.Handle, o.Token, exclusive.Handle, exclusive.Token)
			case o.Weight == 0 && newest != nil && o.Token < newest.Token:
				v.add(p.recipe, p.path, "a write of %s with token %d passes after one of %s with %d", o.Handle, o.Token, newest.Handle, newest.Token)
			}
			if o.Weight == 0 {
				exclusive = o
			}
			if newest == nil || o.Token > newest.Token {
				newest = o
			}
		}
	}
	return v.all
}

// ToldBeforeNextGrant checks that a holder learns of the end of its session no later than the
// servers delete its node: nothing can be granted to another before.
func ToldBeforeNextGrant(h *history.History) []Violation {
	v := verdict{check: "ToldBeforeNextGrant"}
	gone := make(map[string]history.Moment)
	for _, c := range h.Commits {
		for _, ch := range c.Changes {
			if ch.Kind == history.Deleted && c.Closes != 0 {
				gone[ch.Path] = c.At
			}
		}
	}
	all := tenuresOf(h)
	for _, p := range places(all) {
		for _, t := range all[p] {
			deleted, ok := gone[t.grant.Node]
			if !ok || t.grant.Node == "" || t.excused || deleted.Before(t.grant.Return) {
				continue
			}
			if !t.over || deleted.At < t.from.At {
				v.add(p.recipe, p.path, "the node of %s is deleted with its session at %v, and the holder knows nothing", describe(t), deleted.At)
			}
		}
	}
	return v.all
}
