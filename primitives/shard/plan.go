package shard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// This file has the plan of the shards, and the records by which members learn of it. Both are
// values; what members do with them is in machine.go.
//
// The plan is one node, which a member replaces at the version that it has read. In the same
// transaction it writes the record of each member for which something differs: the shards that are
// to be its own, and the neighbour whose end it is to notice. So a member that nothing concerns
// reads nothing.

// A plan says which member is to own each shard.
type plan struct {
	shards int
	peers  []Peer   // those that are present, in the order of their IDs
	absent []string // IDs of peers that are gone, the newest last
	owners []int    // by shard: index in peers, -1 for none
	former [][]int  // by shard: indexes, in peers and then absent, of those that had it and are away, in order

	// generation names the plan's child, which each replacement checks. Versions of a plan that was
	// deleted and made again begin anew, so that one alone may be that of another plan. It is "" in
	// plans by older versions of this package.
	generation string
}

// mostAbsent is how many peers that are gone a plan remembers, beside as many as are present.
const mostAbsent = 100

// mostFormer is how many peers a plan remembers of those that had a shard, each while the one
// before was away.
const mostFormer = 3

var errPlan = fmt.Errorf("not a plan of shards: %w", nodes.ErrForeign)

type planData struct {
	Format string   `json:"format"`
	Shards int      `json:"shards"`
	Peers  []Peer   `json:"members"`
	Absent []string `json:"absent,omitempty"`
	Owners []byte   `json:"owners"` // by shard, as unsigned varints: 0 for none, else 1 and the index
	Former []byte   `json:"former"` // by shard: how many, and their indexes

	Generation string `json:"generation,omitempty"`
}

func (p plan) encode() ([]byte, error) {
	d := planData{Format: nodes.ShardsFormat, Shards: p.shards, Peers: p.peers, Absent: p.absent, Generation: p.generation}
	for shard, o := range p.owners {
		d.Owners = binary.AppendUvarint(d.Owners, uint64(o+1))
		d.Former = binary.AppendUvarint(d.Former, uint64(len(p.former[shard])))
		for _, f := range p.former[shard] {
			d.Former = binary.AppendUvarint(d.Former, uint64(f))
		}
	}
	return json.Marshal(d)
}

// numbers reads packed numbers.
type numbers struct {
	rest []byte
	bad  bool
}

// next returns the next number, which must be below limit.
func (n *numbers) next(limit int) int {
	v, size := binary.Uvarint(n.rest)
	if n.bad = n.bad || size <= 0 || v >= uint64(limit); n.bad {
		return 0
	}
	n.rest = n.rest[size:]
	return int(v)
}

func decodePlan(data []byte) (plan, error) {
	var d planData
	if err := json.Unmarshal(data, &d); err != nil || d.Format != nodes.ShardsFormat || d.Shards <= 0 || d.Shards > len(d.Owners) ||
		strings.Contains(d.Generation, "/") {
		return plan{}, errPlan
	}
	p := newPlan(d.Shards)
	p.peers, p.absent, p.generation = d.Peers, d.Absent, d.Generation
	owners, former := numbers{rest: d.Owners}, numbers{rest: d.Former}
	for shard := range p.shards {
		p.owners[shard] = owners.next(len(p.peers)+1) - 1
		for range former.next(mostFormer + 1) {
			p.former[shard] = append(p.former[shard], former.next(len(p.peers)+len(p.absent)))
		}
	}
	if owners.bad || former.bad || len(owners.rest)+len(former.rest) > 0 {
		return plan{}, errPlan
	}
	return p, nil
}

// newPlan returns a plan in which no shard has an owner.
func newPlan(shards int) plan {
	return plan{shards: shards, owners: slices.Repeat([]int{-1}, shards), former: make([][]int, shards)}
}

// peer returns the peer with the ID, if the plan has it.
func (p plan) peer(id string) (Peer, bool) {
	i, ok := slices.BinarySearchFunc(p.peers, id, func(a Peer, id string) int { return strings.Compare(a.ID, id) })
	if !ok {
		return Peer{}, false
	}
	return p.peers[i], true
}

// with returns the plan for those who are present now, in the order of their IDs.
func (p plan) with(now []Peer, place Placement) (plan, error) {
	next := plan{shards: p.shards, peers: now, generation: p.generation}
	index := make(map[string]int, len(now))
	for i, peer := range now {
		index[peer.ID] = i
	}
	for _, id := range p.absent {
		if _, back := index[id]; !back {
			next.absent = append(next.absent, id)
		}
	}
	for _, peer := range p.peers {
		if _, stays := index[peer.ID]; !stays {
			next.absent = append(next.absent, peer.ID)
		}
	}
	next.absent = next.absent[max(0, len(next.absent)-mostAbsent-len(now)):]
	for i, id := range next.absent {
		index[id] = len(now) + i
	}
	at := func(i int) int { // in next, of an index in p
		id := ""
		switch {
		case i < 0:
			return -1
		case i < len(p.peers):
			id = p.peers[i].ID
		default:
			id = p.absent[i-len(p.peers)]
		}
		if j, ok := index[id]; ok {
			return j
		}
		return -1
	}
	away := func(i int) bool { return i < 0 || i >= len(now) || now[i].Weight == 0 }
	c := Cluster{Peers: now}
	before := make([]int, p.shards) // the owners, also those that are gone
	back := make([]int, p.shards)   // the index in next.former of who is back; -1 if there is none
	for shard := range p.shards {
		before[shard] = at(p.owners[shard])
		var former []int
		for _, f := range p.former[shard] {
			if f = at(f); f >= 0 {
				former = append(former, f)
			}
		}
		next.former = append(next.former, former)
		owner, returned := before[shard], -1
		if away(owner) {
			owner = -1
		}
		if back[shard] = slices.IndexFunc(former, func(f int) bool { return !away(f) }); back[shard] >= 0 {
			returned = former[back[shard]]
		}
		c.Owners, c.Former = append(c.Owners, owner), append(c.Former, returned)
	}
	owners, err := place.placed(c)
	if err != nil {
		return plan{}, err
	}
	next.owners = owners
	for shard, was := range before {
		// Others may have the shard until a peer is back that had it when it went. Those that had
		// it after that one have no claim then.
		former := next.former[shard]
		if i := back[shard]; i >= 0 {
			former = former[:i]
		}
		if was >= 0 && away(was) && !slices.Contains(former, was) {
			former = append(former, was)
		}
		next.former[shard] = former[max(0, len(former)-mostFormer):]
		if len(former) == 0 {
			next.former[shard] = nil
		}
	}
	return next, nil
}

// A memberData is the data of the node of a member.
type memberData struct {
	Peer
	Of int `json:"of"` // the number of shards
}

// A record says what a member is to do by the plan.
type record struct {
	Peer
	Of     int    `json:"of"`              // the number of shards of the plan
	Watch  string `json:"watch,omitempty"` // the ID of the neighbour whose end it is to notice; "" for none
	Shards string `json:"shards"`          // as ranges
}

// records returns the record of each member that is present, by its ID.
func (p plan) records() map[string]record {
	all := make(map[string]record, len(p.peers))
	owned := make([][]int, len(p.peers))
	for shard, o := range p.owners {
		if o >= 0 {
			owned[o] = append(owned[o], shard)
		}
	}
	for i, peer := range p.peers {
		r := record{Peer: peer, Of: p.shards, Shards: ranges(owned[i])}
		if n := len(p.peers); n > 1 {
			r.Watch = p.peers[(i+n-1)%n].ID
		}
		all[peer.ID] = r
	}
	return all
}

func decodeRecord(data []byte) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("%w: %w", errPlan, err)
	}
	return r, nil
}

// ranges returns numbers that grow as text, such as "0-4,7".
func ranges(all []int) string {
	var b strings.Builder
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(all[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(all[j]))
		}
		i = j + 1
	}
	return b.String()
}

// parseRanges is the reverse of ranges, for numbers below n.
func parseRanges(text string, n int) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, several := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && several {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b >= n || len(all) > 0 && a <= all[len(all)-1] {
			return nil, fmt.Errorf("%w: shards %q", errPlan, text)
		}
		for ; a <= b; a++ {
			all = append(all, a)
		}
	}
	return all, nil
}

// A write replaces the plan and the records that differ.
type write struct {
	data       []byte // of the plan
	version    int32  // of the plan to be replaced; -1 if there is none
	generation string
	begins     bool // the generation: its node is made, else it is checked
	bare       bool // there is no directory of records: it is made
	set        []recordData
	create     []recordData
	remove     []string // IDs

	unplaced int // shards without an owner, if there is a member whose session has no room for all
}

// concerns reports whether the record of a member is written.
func (w *write) concerns(id string) bool {
	is := func(r recordData) bool { return r.id == id }
	return slices.ContainsFunc(w.set, is) || slices.ContainsFunc(w.create, is)
}

type recordData struct {
	id   string
	data []byte
}

// A sight is what a member sees before it plans, read in this order: so a member that the plan has
// and that is not listed is gone.
type sight struct {
	plan       *plan  // nil if there is none
	version    int32  // of the plan
	generation string // a new one, for a plan that has none
	listed     []string
	records    []string        // the IDs of which there are records
	bare       bool            // there is no directory of records
	ahead      int             // strangers that plan before this member. If there are any, what follows is missing.
	known      map[string]Peer // of those listed that no plan with our number of shards has
	other      bool            // one of those listed has another number of shards
}

// strangers returns those listed that no plan with our number of shards has.
func (s *sight) strangers(shards int) (ids []string) {
	for _, id := range s.listed {
		known := false
		if s.plan != nil && s.plan.shards == shards {
			_, known = s.plan.peer(id)
		}
		if !known {
			ids = append(ids, id)
		}
	}
	return ids
}

// meet notes the node of a stranger.
func (s *sight) meet(id string, data []byte, shards int) {
	var m memberData
	switch {
	case json.Unmarshal(data, &m) != nil || m.ID != id || m.Weight < 0 || m.Weight > mostWeight:
	case m.Of != shards:
		s.other = true
	default:
		s.known[id] = m.Peer
	}
}

// strike takes a member off the list whose node no session owns: it is none.
func (s *sight) strike(id string) {
	s.listed = slices.DeleteFunc(slices.Clone(s.listed), func(other string) bool { return other == id })
}

// errShards means that members disagree about the number of shards.
var errShards = errors.New("members disagree about the number of shards")

// replan returns the write by which the plan follows what was seen, and false if the plan does that
// already. A plan that cannot be sent forgets who had the shards before.
func (s *sight) replan(shards int, self Peer, place Placement, fits func(write) bool) (w write, needed bool, err error) {
	old := newPlan(shards)
	w.version = -1
	if s.plan != nil {
		w.version = s.version
		if s.plan.shards == shards {
			old = *s.plan
		} else if s.other {
			return w, false, fmt.Errorf("%w: %d by the plan, %d here", errShards, s.plan.shards, shards)
		}
	}
	now := []Peer{self}
	for _, id := range s.listed {
		peer, ok := old.peer(id)
		if !ok {
			peer, ok = s.known[id]
		}
		if ok && id != self.ID {
			now = append(now, peer)
		}
	}
	slices.SortFunc(now, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	if s.plan != nil {
		old.generation = s.plan.generation
	}
	if w.begins = old.generation == ""; w.begins {
		old.generation = s.generation
	}
	w.generation, w.bare = old.generation, s.bare
	next, err := old.with(now, place)
	if err != nil {
		return w, false, err
	}
	was, is := old.records(), next.records()
	for _, peer := range next.peers {
		r := is[peer.ID]
		there := slices.Contains(s.records, peer.ID)
		if there && was[peer.ID] == r {
			continue
		}
		data, err := json.Marshal(r)
		if err != nil {
			return w, false, err
		}
		if there {
			w.set = append(w.set, recordData{peer.ID, data})
		} else {
			w.create = append(w.create, recordData{peer.ID, data})
		}
	}
	for _, id := range s.records {
		if _, stays := is[id]; !stays {
			w.remove = append(w.remove, id)
		}
	}
	if slices.ContainsFunc(now, func(p Peer) bool { return p.Weight > 0 && p.Most > 0 }) { // else it is the placement's wish
		for _, o := range next.owners {
			if o < 0 {
				w.unplaced++
			}
		}
	}
	w.data, err = next.encode()
	for _, forget := range []func(){
		func() { next.former = make([][]int, shards) },
		func() { next.absent = nil },
	} {
		if err == nil && fits != nil && !fits(w) {
			forget()
			w.data, err = next.encode()
		}
	}
	return w, s.plan == nil || s.plan.shards != shards || len(w.set)+len(w.create)+len(w.remove) > 0, err
}
