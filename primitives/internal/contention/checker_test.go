package contention

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file has what must hold, whatever fails:
//
//   - Writes with the guards of two holders that exclude each other do not interleave, by their
//     zxids, and the later holder has the greater token. That holds also if an operator deletes
//     nodes.
//   - No handle is granted what another one holds whose node stands.
//   - The weights of leases whose nodes stand are within the limit.
//   - Each reader of events receives what the grammar says, whether it comes early or late, and
//     however slow it is.

// A tenure is what the guarded writes of one holder say.
type tenure struct {
	holder      string
	token       int64
	first, last int64 // zxids of writes that its guard has let pass
	shared      bool
}

// A claim is what a handle believes to hold.
type claim struct {
	holder string
	shared bool
	weight int
	node   func() string
	done   <-chan struct{}
	lost   *bool // set by the end of its session on the server, before the handle can know
}

// A world is a server, the sessions that contend, and what is known of their grants.
type world struct {
	kit.World

	sessions []*session.Session
	operator *session.Session
	deletes  bool // whether the operator does

	mu      sync.Mutex
	tenures map[string][]tenure // by path
	claims  map[string][]claim  // by path
	ended   map[int64]*bool     // sessions that the server has ended
	touched map[string]bool     // paths below which the operator has deleted nodes
	counts  map[string]int
}

// count counts what has happened, for the log.
func (w *world) count(what string) {
	w.mu.Lock()
	w.counts[what]++
	w.mu.Unlock()
}

// end returns what says whether the server has ended the session.
func (w *world) end(id int64) *bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended[id] == nil {
		w.ended[id] = new(bool)
	}
	return w.ended[id]
}

// write writes to a node of the holder's own behind the guard, and returns the zxid; 0 if that was
// refused. The operator finds out what became of a write without a reply.
func (w *world) write(s *session.Session, guard session.Op, mark string) int64 {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	id := znode.NewGUID()
	results, err := s.Multi(ctx, guard, session.SetOp(mark, []byte(id), session.AnyVersion))
	if err == nil {
		return results[1].Stat.Mzxid
	}
	if data, stat, err := w.operator.Get(w.Context(), mark); err == nil && string(data) == id {
		return stat.Mzxid
	}
	return 0
}

// enter notes the tenure of a holder, if any of its writes has passed.
func (w *world) enter(path string, t tenure) {
	if t.first == 0 {
		return
	}
	t.last = max(t.first, t.last)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tenures[path] = append(w.tenures[path], t)
}

// checkTenures checks the guarded writes of all holders.
func (w *world) checkTenures() {
	for path, all := range w.tenures {
		slices.SortFunc(all, func(a, b tenure) int { return cmp.Compare(a.first, b.first) })
		for i, next := range all {
			for _, former := range all[:i] {
				switch {
				case former.shared && next.shared, former.holder == next.holder:
				case former.last >= next.first:
					w.Errorf("%s: a write of %+v passes after one of %+v", path, former, next)
				case former.token >= next.token:
					w.Errorf("%s: the token of %+v is not greater than that of %+v", path, next, former)
				}
			}
		}
	}
}

// claims checks a grant against those that others hold. The weight of a lock is the limit.
func (w *world) grants(path string, c claim, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.DeleteFunc(w.claims[path], func(c claim) bool { return client.Closed(c.done) })
	defer func() { w.claims[path] = append(all, c) }()
	if client.Closed(c.done) {
		return
	}
	paths := w.Paths()
	stands := func(c claim) bool { _, yes := slices.BinarySearch(paths, c.node()); return yes }
	held := c.weight
	for _, o := range all {
		both := stands(o) && stands(c)
		excused := *o.lost || *c.lost || w.touched[path]
		switch {
		case o.shared && c.shared:
		case both || !excused && limit == c.weight:
			held += o.weight
		}
	}
	if held > limit {
		w.Errorf("%s: %d of %d are held when %s is granted as %s: %v", path, held, limit, c.holder, c.node(), all)
	}
}

func (c claim) String() string { return c.holder + " as " + c.node() }

// grammar is that of locks and leases, a letter for each event.
var grammar = regexp.MustCompile(`^w*((a?v?(sv?rv?)*(sv?)?)?E|F)$`)

var letters = map[string]string{"Waiting": "w", "Acquired": "a", "Suspended": "s", "Resumed": "r", "Revoked": "v", "Released": "E", "Lost": "E", "Failed": "F"}

// follow reads events: from the beginning or later, and quickly or slowly.
func follow[Ev any](w *world, readers *sync.WaitGroup, dice dice, holder string, events func() <-chan Ev) {
	late := time.Duration(0)
	if dice.oneIn(2) {
		late = dice.upTo(4 * time.Second)
	}
	slow := dice.upTo(10 * time.Millisecond)
	readers.Go(func() {
		<-time.After(late)
		var word strings.Builder
		var told []string
		for ev := range events() {
			_, kind, _ := strings.Cut(fmt.Sprintf("%T", ev), ".")
			word.WriteString(letters[kind])
			told = append(told, fmt.Sprint(ev))
			<-time.After(slow)
		}
		if !grammar.MatchString(word.String()) {
			w.Errorf("%s is told %q", holder, told)
		}
	})
}

// checkLeft checks that no contender's node is left, nor any claim.
func (w *world) checkLeft() {
	for _, path := range w.Paths() {
		data, stat, err := w.operator.Get(w.Context(), path)
		if err == nil && stat.EphemeralOwner != 0 {
			w.Errorf("%s of %s is left: made %v ago by session %x; the sessions are %v", path, data, time.Since(time.UnixMilli(stat.Ctime)), stat.EphemeralOwner, w.sessions)
		}
	}
}

// weight returns that in the name of a lease.
func weight(node string) int {
	_, weight, _ := nodes.ParseLease(node[strings.LastIndexByte(node, '/')+1:])
	return weight
}
