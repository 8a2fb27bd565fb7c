package inspect

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
)

// This file recognises recipes in nodes that have been read, as a pure function: it returns the
// things, or the nodes that have to be read first.

// A key names a read: of the data of a node, or of the names of its children.
type key struct {
	path   string
	aspect session.Aspect
}

// A care says how long the result of a read is good for.
type care int8

const (
	forever care = iota // a contender's node: it has a name of its own
	polled              // it is read again for the next survey
	watched
)

// A found is the result of a read. It is not modified.
type found struct {
	data  []byte
	names []string // sorted
	stat  *session.Stat
	err   error // why it could not be read; the Stat may be there all the same
}

func (f *found) gone() bool      { return errors.Is(f.err, session.ErrNoNode) }
func (f *found) forbidden() bool { return errors.Is(f.err, session.ErrNoAuth) }

// A recogniser makes a survey of the nodes that were read.
type recogniser struct {
	limit int                    // of nodes
	waits int                    // how many waiters of a line; 0 for all
	read  func(key, care) *found // nil if it was not read yet
	live  bool                   // the nodes are watched: a node without children may have some later
	kept  *parts                 // nil if nothing is kept from one survey to the next

	asked     map[key]care // all reads, made or not
	wants     map[key]care // the reads that are to be made
	truncated bool
	things    []Thing
	part      *part // the recipe that is being recognised; nil between recipes, and if nothing is kept
}

func newRecogniser(o Options, live bool, read func(key, care) *found) *recogniser {
	return &recogniser{limit: o.MaxNodes, waits: o.MaxWaiters, read: read, live: live, asked: make(map[key]care), wants: make(map[key]care)}
}

// The owners of nodes that stay when their session ends: of containers, and in the upper eight bits
// of nodes with a TTL.
const (
	containerOwner   = -1 << 63
	ephemeralSpecial = 0xff
)

// sessionOf returns the session with which a node goes, 0 if it stays.
func sessionOf(stat *session.Stat) int64 {
	if stat.EphemeralOwner == containerOwner || uint64(stat.EphemeralOwner)>>56 == ephemeralSpecial {
		return 0
	}
	return stat.EphemeralOwner
}

func sessionText(id int64) string {
	if id == 0 {
		return ""
	}
	return znode.SessionID(id)
}

func since(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// get returns the result of a read, and nil if the read is to be made.
func (r *recogniser) get(path string, aspect session.Aspect, c care) *found {
	k := key{path, aspect}
	if _, again := r.asked[k]; !again && len(r.asked) == r.limit {
		r.truncated = true
		return &found{err: errTooMany}
	}
	r.asked[k] = max(r.asked[k], c)
	f := r.read(k, c)
	if f == nil {
		r.wants[k] = max(r.wants[k], c)
	}
	if r.part != nil {
		r.part.reads = append(r.part.reads, reading{k, c, f})
	}
	return f
}

var errTooMany = errors.New("not read: too many nodes")

func (r *recogniser) node(path string, c care) *found { return r.get(path, session.AspectData, c) }
func (r *recogniser) list(path string) *found         { return r.get(path, session.AspectChildren, watched) }

// standing returns the node at the path; nil if it is to be read, or does not stand.
func (r *recogniser) standing(path string, c care) *found {
	if n := r.node(path, c); n != nil && !n.gone() && n.stat != nil {
		return n
	}
	return nil
}

// names returns the names of the children; none if they are to be read, or cannot be.
func (r *recogniser) names(path string) []string {
	if l := r.list(path); l != nil && l.err == nil {
		return l.names
	}
	return nil
}

// survey recognises all below the path. It is complete if there are no wants.
func (r *recogniser) survey(path string) *Survey {
	n, leaf := r.describe(path)
	if leaf {
		r.leaves(path, []leafNode{{path, n}})
	}
	slices.SortStableFunc(r.things, func(a, b Thing) int { return strings.Compare(a.Path, b.Path) })
	exists := n != nil && !n.gone()
	return &Survey{Path: path, Exists: exists, Things: r.things, Truncated: r.truncated}
}

func (r *recogniser) add(t Thing) { r.things = append(r.things, t) }

// unreadable adds a directory that cannot be read, and reports whether it is such a directory.
func (r *recogniser) unreadable(path string, f *found) bool {
	switch {
	case f.err == nil, errors.Is(f.err, errTooMany):
		return f.err != nil
	case !f.gone():
		r.add(Thing{Path: path, Kind: Unreadable, Forbidden: f.forbidden(), Problem: f.err.Error()})
	}
	return true
}

// describe adds the things at the path and below it. A leaf is for the caller to describe.
func (r *recogniser) describe(path string) (n *found, leaf bool) {
	n = r.node(path, watched)
	if n == nil {
		return nil, false
	}
	if r.unreadable(path, n) {
		return n, false
	}
	if sessionOf(n.stat) != 0 || !r.live && n.stat.NumChildren == 0 {
		return n, !r.empty(path, n)
	}
	l := r.list(path)
	switch {
	case l == nil:
		return n, false
	case r.unreadable(path, l):
		return n, false
	case len(l.names) == 0:
		return n.emptied(l), !r.empty(path, n)
	}
	if !r.keep(path, n, l) {
		r.directory(path, l.names)
	}
	return n, false
}

// emptied returns a node without children as its list shows it: a watch on the data of a node does
// not report that it had children since.
func (f *found) emptied(list *found) *found {
	if f.stat == nil || list.stat == nil || list.stat.Cversion <= f.stat.Cversion {
		return f
	}
	now, stat := *f, *f.stat
	now.stat, stat.Cversion = &stat, list.stat.Cversion
	return &now
}

// empty adds a recipe that is recognised without children.
func (r *recogniser) empty(path string, n *found) bool {
	limit, limited := nodes.ParseLimit(string(n.data))
	rounds, double := nodes.ParseRounds(n.data)
	latch, latched := nodes.ParseLatch(n.data)
	switch {
	case latched:
		r.latch(path, latch)
	case limited && limit.Unit: // a number alone may be anything
		r.add(Thing{Path: path, Kind: Semaphore, Layout: standard, Limit: limit.Limit, Room: limit.Limit})
	case double:
		r.add(Thing{Path: path, Kind: DoubleBarrier, Layout: standard, Double: &Rounds{Round: rounds.Round, Parties: rounds.Parties}})
	case isPrioritized(n.data, nil):
		r.add(Thing{Path: path, Kind: Lock, Layout: prioritized})
	default:
		return false
	}
	return true
}

// recipe adds the recipe whose path it is, and reports whether there is a recipe.
func (r *recogniser) recipe(path string, n *found, names []string) bool {
	has := func(name string) bool { return slices.Contains(names, name) }
	_, double := nodes.ParseRounds(n.data)
	latch, latched := nodes.ParseLatch(n.data)
	switch {
	case latched:
		r.latch(path, latch)
		own := latch.Arrived
		if has(openNode) {
			own++
		}
		if len(names) > own {
			r.beside(path, names, func(name string) bool { return r.isLeaf(znode.Join(path, name)) })
		}
	case has(nodes.Outcome) && r.once(path, names): // it has no other children
	case isPrioritized(n.data, names):
		r.prioritized(path, names)
		r.beside(path, names, func(name string) bool {
			_, ranked := nodes.ParseRank(name)
			return ranked || name == nodes.PriorityHolder || name == nodes.PriorityReaders
		})
	case double:
		r.double(path, n)
		r.beside(path, names, isNumber)
	case has("plan") && r.shards(path, names):
		r.beside(path, names, oneOf("plan", "members", "shards"))
	case has("leases"):
		r.semaphore(path, n, names)
		r.beside(path, names, oneOf("leases", "locks", "numbers"))
		r.below(path, names, "leases", "locks")
	case has("candidates"):
		r.election(path, names)
		r.beside(path, names, oneOf("candidates", "leader", "successors"))
		r.below(path, names, "candidates")
	case r.queue(path, names): // it has no other children
	case r.flat(path, names):
		r.beside(path, names, func(name string) bool { return name == "entries" || name == "taken" || nodes.FlatItem(name) != "" })
	case slices.ContainsFunc(names, nodes.IsKazooLease) && !has(readyNode):
		r.kazooSemaphore(path, n, names)
		r.beside(path, names, nodes.IsKazooLease)
	case len(standings(names)) > 0:
		r.line(path, names)
		r.beside(path, names, stands)
	default:
		return false
	}
	return true
}

// beside adds the children of a recipe's path that are no part of the recipe.
func (r *recogniser) beside(path string, names []string, own func(name string) bool) {
	if others := slices.DeleteFunc(slices.Clone(names), own); len(others) > 0 {
		r.directory(path, others)
	}
}

// below adds what stands beside the contenders in the directories of a recipe.
func (r *recogniser) below(path string, names []string, dirs ...string) {
	for _, dir := range dirs {
		if slices.Contains(names, dir) {
			dir = znode.Join(path, dir)
			r.beside(dir, r.names(dir), stands)
		}
	}
}

// stands reports whether it is the name of a contender.
func stands(name string) bool {
	_, is := parseStanding(name)
	return is
}

func oneOf(own ...string) func(name string) bool {
	return func(name string) bool { return slices.Contains(own, name) }
}

// isNumber reports whether the directory of a round of a double barrier has the name.
func isNumber(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// isLeaf reports whether a node has no children, as far as it was read.
func (r *recogniser) isLeaf(path string) bool {
	n := r.standing(path, watched)
	return n == nil || n.stat.NumChildren == 0
}

// contenders reads the nodes of contenders, and adds them to the line of the thing. So many are
// known to hold, and stand first.
func (r *recogniser) contenders(t *Thing, dir string, all []standing, hold int) []Contender {
	t.Line += len(all)
	if r.waits > 0 {
		all = all[:min(len(all), hold+r.waits)]
	}
	var read []Contender
	for i, s := range all {
		c := forever
		if i < min(hold, most) { // their data changes
			c = watched
		}
		node := znode.Join(dir, s.Name)
		n := r.standing(node, c)
		if n == nil {
			continue
		}
		one := Contender{
			Node: node, Wants: s.want(), Session: sessionText(sessionOf(n.stat)), Since: since(n.stat.Ctime),
			Priority: s.priority, Weight: s.weight, Czxid: n.stat.Czxid, Forbidden: n.err != nil, NoSession: sessionOf(n.stat) == 0,
		}
		one.Identity, one.Revoked = identity(n.data)
		read = append(read, one)
	}
	return read
}

// most is the number of holders that are watched.
const most = 16

// line adds the contenders of a lock or an election that stand under the path itself.
func (r *recogniser) line(path string, names []string) {
	all := standings(names)
	kind, layout := layoutOf(all)
	t := Thing{Path: path, Kind: kind, Layout: layout}
	var ahead, read nodes.Ahead
	hold := 0
	for hold < len(all) && ahead.Holds(all[hold].Kind) {
		hold++
	}
	t.Contenders = r.contenders(&t, path, all, hold)
	for i := range t.Contenders {
		c := &t.Contenders[i]
		s, _ := parseStanding(nameOf(c.Node))
		c.Holds = read.Holds(s.Kind)
	}
	switch {
	case kind == Semaphore: // the limit stands elsewhere
		t.Held = t.hold()
	case kind == Election && len(t.Contenders) > 0:
		c := t.Contenders[0]
		t.Leader = &Leader{Node: c.Node, Identity: c.Identity, Term: c.Czxid, Since: c.Since}
	}
	r.add(t)
}

// prioritized adds a lock with priorities, whose holders have a node beside their own.
func (r *recogniser) prioritized(path string, names []string) {
	const holder, readers = nodes.PriorityHolder, nodes.PriorityReaders
	claims := make(map[string]string)
	if slices.Contains(names, holder) {
		node := znode.Join(path, holder)
		if n := r.node(node, watched); n != nil && n.err == nil {
			claims[string(n.data)] = node
		}
	}
	if slices.Contains(names, readers) {
		dir := znode.Join(path, readers)
		for _, name := range r.names(dir) {
			claims[name] = znode.Join(dir, name)
		}
	}
	line := ranks(names)
	holds, waits := line[:0:0], line[:0:0]
	for _, s := range line {
		if claims[s.Name] != "" {
			holds = append(holds, s)
		} else {
			waits = append(waits, s)
		}
	}
	t := Thing{Path: path, Kind: Lock, Layout: prioritized}
	t.Contenders = r.contenders(&t, path, append(holds, waits...), len(claims))
	for i := range t.Contenders {
		c := &t.Contenders[i]
		if c.Claim = claims[nameOf(c.Node)]; c.Claim != "" {
			c.Holds = true
		}
	}
	r.add(t)
}

// semaphore adds a semaphore of this library, or of Curator.
func (r *recogniser) semaphore(path string, n *found, names []string) {
	dir := znode.Join(path, "leases")
	t := Thing{Path: path, Kind: Semaphore, Layout: standard}
	record, limited := nodes.ParseLimit(string(n.data))
	t.Limit = record.Limit
	l := r.list(dir)
	if l == nil {
		return
	}
	t.Forbidden = l.forbidden()
	all := standings(l.names)
	mutex := slices.Contains(names, "locks")
	if mutex || !limited && len(all) > 0 { // servers remove the mutex when no client waits
		t.Layout, t.Limit = curator, 0
		var line []standing
		if mutex {
			line = standings(r.names(znode.Join(path, "locks")))
		}
		r.curatorSemaphore(path, all, line, &t)
		r.add(t)
		return
	}
	front, sum := 0, 0
	for ; front < len(all) && sum < t.Limit; front++ {
		sum += all[front].weight
	}
	t.Contenders = r.contenders(&t, dir, all, front)
	sum = 0
	for i := range t.Contenders {
		c := &t.Contenders[i]
		sum += c.Weight
		n := r.standing(c.Node, forever)
		announced := n != nil && n.stat.Version > 0
		if c.Holds = announced || sum <= t.Limit; c.Holds {
			t.Held += c.Weight
		}
	}
	t.Room = t.Limit - t.Held
	r.add(t)
}

// curatorSemaphore adds the leases of Curator's semaphore. Its contenders queue for a mutex, and
// its holder waits among the leases.
func (r *recogniser) curatorSemaphore(path string, all, line []standing, t *Thing) {
	t.Contenders = r.contenders(t, znode.Join(path, "leases"), all, len(all))
	t.Held = len(t.Contenders)
	t.hold()
	queue := r.contenders(t, znode.Join(path, "locks"), line, 0)
	for i := range slices.Backward(t.Contenders) {
		if c := &t.Contenders[i]; len(queue) > 0 && c.Session == queue[0].Session {
			c.Holds = false
			queue = queue[1:] // it stands twice
			t.Line--
			t.Held--
			break
		}
	}
	t.queue(queue)
}

// hold notes that all contenders so far hold, and returns their weight.
func (t *Thing) hold() (weight int) {
	for i := range t.Contenders {
		t.Contenders[i].Holds = true
		weight += t.Contenders[i].Weight
	}
	return weight
}

// queue adds contenders for a lease that stand in the line of a lock.
func (t *Thing) queue(all []Contender) {
	for _, c := range all {
		c.Wants = wantsLease
		t.Contenders = append(t.Contenders, c)
	}
}

// kazooSemaphore adds a semaphore of kazoo: leases under the path, and beside it a lock for the
// contenders that want one.
func (r *recogniser) kazooSemaphore(path string, n *found, names []string) {
	t := Thing{Path: path, Kind: Semaphore, Layout: kazoo}
	t.Limit, _ = nodes.ParsePositive(strings.TrimSpace(string(n.data)))
	lease := species{wants: wantsLease}
	var leases []standing
	for _, name := range names {
		if nodes.IsKazooLease(name) {
			leases = append(leases, standing{species: &lease, weight: 1})
			leases[len(leases)-1].Name = name
		}
	}
	t.Contenders = r.contenders(&t, path, leases, len(leases))
	t.Held = t.hold()
	t.Room = t.Limit - t.Held
	dir := path + semaphoreLock
	t.queue(r.contenders(&t, dir, standings(r.names(dir)), 0))
	slices.SortStableFunc(t.Contenders, func(a, b Contender) int { return a.Since.Compare(b.Since) })
	r.add(t)
}

// election adds an election of this library.
func (r *recogniser) election(path string, names []string) {
	dir := znode.Join(path, "candidates")
	t := Thing{Path: path, Kind: Election, Layout: standard}
	l := r.list(dir)
	if l == nil {
		return
	}
	t.Forbidden = l.forbidden()
	t.Contenders = r.contenders(&t, dir, standings(l.names), 1)
	if slices.Contains(names, "leader") {
		node := znode.Join(path, "leader")
		n := r.node(node, watched)
		if n == nil {
			return
		}
		t.Forbidden = t.Forbidden || n.forbidden()
		if record := nodes.ParseLeader(n.data); record.Node != "" && n.stat != nil && sessionOf(n.stat) != 0 { // candidates replace one of no session
			t.Leader = &Leader{
				Node: znode.Join(dir, record.Node), Identity: text([]byte(record.Data)), Term: record.TermOf(n.stat.Czxid),
				Since: since(n.stat.Ctime), Acknowledged: record.Acknowledged,
			}
			if record.Successor != "" {
				t.Leader.Successor = znode.Join(dir, record.Successor)
			}
			for i := range t.Contenders {
				if c := &t.Contenders[i]; c.Node == t.Leader.Node && record.Successor == "" {
					c.Holds, c.Claim = true, node
				}
			}
		}
	}
	r.add(t)
}

// shards adds shards, and reports whether there is a plan of them. Their lines are not read: there
// may be thousands.
func (r *recogniser) shards(path string, names []string) bool {
	plan := r.node(znode.Join(path, "plan"), watched)
	if plan == nil {
		return true // it is read
	}
	owners, err := shard.ParsePlan(plan.data)
	if err != nil {
		return false
	}
	counts := make(map[string]int)
	for _, id := range owners {
		counts[id]++
	}
	t := Thing{Path: path, Kind: Shards, Limit: len(owners), Held: len(owners) - counts[""], Room: counts[""]}
	if dir := znode.Join(path, "members"); slices.Contains(names, "members") {
		for _, id := range r.names(dir) {
			node := znode.Join(dir, id)
			if n := r.standing(node, watched); n != nil {
				e := mortal(id, node, n)
				e.Data = strconv.Itoa(counts[id])
				t.Members = append(t.Members, e)
			}
		}
	}
	r.add(t)
	return true
}

func (r *recogniser) latch(path string, l nodes.Latch) {
	r.add(Thing{Path: path, Kind: Latch, Limit: l.N, Held: l.Arrived, Room: l.N - l.Arrived})
}

// once adds a function that has run once, and reports whether there is nothing else at the path.
func (r *recogniser) once(path string, names []string) bool {
	if slices.ContainsFunc(names, func(name string) bool { return name != nodes.Outcome && name != nodes.Runners }) {
		return false
	}
	node := znode.Join(path, nodes.Outcome)
	if n := r.standing(node, watched); n != nil {
		r.add(Thing{Path: path, Kind: Once, Values: []Entry{entry(nodes.Outcome, node, n)}})
	}
	if slices.Contains(names, nodes.Runners) {
		r.describe(znode.Join(path, nodes.Runners))
	}
	return true
}

// double adds a double barrier of this library.
func (r *recogniser) double(path string, n *found) {
	record, _ := nodes.ParseRounds(n.data)
	t := Thing{Path: path, Kind: DoubleBarrier, Layout: standard, Double: &Rounds{Round: record.Round, Parties: record.Parties}}
	parties := func(round int) (all []Entry) {
		dir := znode.Join(znode.Join(path, strconv.Itoa(round)), "in")
		for _, name := range r.names(dir) {
			node := znode.Join(dir, name)
			if n := r.standing(node, forever); n != nil {
				all = append(all, mortal(cmp.Or(nodes.PartyName(name), name), node, n))
			}
		}
		slices.SortStableFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		return all
	}
	if t.Double.Round > 0 {
		t.Double.Inside = parties(t.Double.Round)
	}
	t.Double.Waiting = parties(t.Double.Round + 1)
	r.add(t)
}

// manyClaims is the number of claims of a queue that are read, and manyBuckets of its buckets that
// are watched.
const (
	manyClaims  = 1000
	manyBuckets = 16
)

// queue adds a queue of this library, and reports whether there is one.
func (r *recogniser) queue(path string, names []string) bool {
	const dead, keys, paused = "dead", "keys", "paused"
	ours := []string{"items", "claims", "receipts", "waiters", "producers"}
	is := func(name string) bool { return slices.Contains(ours, name) }
	if slices.ContainsFunc(names, func(name string) bool { return !is(name) && name != dead && name != keys }) {
		return false
	}
	// The keys of PutOnce outlive the other directories of a queue that has nothing to do. Their
	// nodes look like leases of kazoo's semaphore.
	if !slices.ContainsFunc(names, is) && (!slices.Contains(names, keys) || !r.shardsOfKeys(znode.Join(path, keys))) {
		return false
	}
	lists := make(map[string][]string)
	for _, name := range names {
		if is(name) {
			lists[name] = r.names(znode.Join(path, name))
		}
	}
	i := slices.Index(lists["items"], paused)
	if i >= 0 {
		lists["items"] = slices.Delete(slices.Clone(lists["items"]), i, i+1)
	}
	q := &QueueState{
		Paused: i >= 0, Buckets: len(lists["items"]), Claimed: len(lists["claims"]), Waiting: len(lists["waiters"]), Producers: len(lists["producers"]),
	}
	items := znode.Join(path, "items")
	searched := make(map[int32]bool) // priorities whose oldest item is known
	for i, name := range lists["items"] {
		bucket, ok := nodes.ParseBucket(name)
		if !ok {
			return false
		}
		dir := znode.Join(items, name)
		n := r.count(dir, i < manyBuckets || i >= q.Buckets-manyBuckets)
		q.Items += n
		switch {
		case bucket.After:
			q.Delayed += n
		case n > 0 && i < manyBuckets && !searched[bucket.Priority]:
			searched[bucket.Priority] = true
			q.Oldest = earlier(q.Oldest, r.oldest(dir, r.names(dir)))
		}
	}
	claims := znode.Join(path, "claims")
	for _, id := range lists["claims"][:min(len(lists["claims"]), manyClaims)] {
		if n := r.standing(znode.Join(claims, id), polled); n != nil {
			owner := sessionOf(n.stat)
			q.Claims = append(q.Claims, Claim{id, text(n.data), sessionText(owner), since(n.stat.Ctime), owner == 0})
		}
	}
	slices.SortStableFunc(q.Claims, func(a, b Claim) int { return a.Since.Compare(b.Since) })
	r.add(Thing{Path: path, Kind: Queue, Layout: standard, Queue: q})
	if slices.Contains(names, dead) {
		graves := znode.Join(path, dead)
		r.describe(graves)
		for _, t := range r.things {
			if t.Path == graves && t.Queue != nil {
				q.Dead = t.Queue.Items
			}
		}
	}
	return true
}

// shardsOfKeys reports whether a directory has the shards of a queue's keys, and nothing else.
func (r *recogniser) shardsOfKeys(dir string) bool {
	names := r.names(dir)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !nodes.IsKeyShard(name) })
}

// count returns how many children a node has. It lists them only if it is watched.
func (r *recogniser) count(path string, watch bool) int {
	if r.live && watch {
		return len(r.names(path))
	}
	if n := r.standing(path, polled); n != nil {
		return int(n.stat.NumChildren)
	}
	return 0
}

// flat adds a queue whose items stand under the path itself, and reports whether there is one.
func (r *recogniser) flat(path string, names []string) bool {
	if slices.Contains(names, "entries") && slices.Contains(names, "taken") { // kazoo's LockingQueue
		entries := znode.Join(path, "entries")
		q := &QueueState{Items: r.count(entries, true), Claimed: r.count(znode.Join(path, "taken"), true), Oldest: r.oldest(entries, r.names(entries))}
		r.add(Thing{Path: path, Kind: Queue, Layout: kazoo, Queue: q})
		return true
	}
	layout := nodes.FlatItem(names[0])
	if layout == "" || slices.ContainsFunc(names, func(name string) bool { return nodes.FlatItem(name) != layout }) {
		return false
	}
	r.add(Thing{Path: path, Kind: Queue, Layout: layout, Queue: &QueueState{Items: len(names), Oldest: r.oldest(path, names)}})
	return true
}

// oldest returns when the oldest of the items was put. The first of them may have been taken since
// they were listed.
func (r *recogniser) oldest(dir string, names []string) time.Time {
	const first = 8
	all := items.Line(names)
	for _, item := range all[:min(len(all), first)] {
		n := r.node(znode.Join(dir, item.Name), forever)
		switch {
		case n == nil: // it is read
			return time.Time{}
		case n.stat != nil:
			return since(n.stat.Ctime)
		}
	}
	return time.Time{}
}

// earlier returns the earlier of two times. The zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A leafNode has no children, and no recipe has it.
type leafNode struct {
	path string
	*found
}

// The names of nodes beside recipes, and of directories that are no recipe's.
const (
	systemNodes = "/zookeeper"

	semaphoreLock = "-__lock__" // ends the name of the lock beside a semaphore of kazoo

	openNode = "open" // beside the arrivals at a latch that is open

	readyNode = "ready" // beside the members of a double barrier of the published recipe, when all are in
)

// directory adds the things below a path that is no recipe's.
func (r *recogniser) directory(path string, names []string) {
	var leaves []leafNode
	var txs []string
	for _, name := range names {
		node := znode.Join(path, name)
		base, beside := strings.CutSuffix(name, semaphoreLock)
		if beside && slices.Contains(names, base) || node == systemNodes || nodes.Beside(name) {
			continue
		}
		if n := r.node(node, watched); n != nil && n.err == nil {
			if _, ok := parseTransaction(name, n.data); ok {
				txs = append(txs, name)
				continue
			}
		}
		if n, leaf := r.describe(node); leaf {
			leaves = append(leaves, leafNode{node, n})
		}
	}
	if len(txs) > 0 || slices.Contains(names, nodes.Sites) {
		r.transactions(path, names, txs)
	}
	r.leaves(path, leaves)
}

// transactions adds the transactions below a path.
func (r *recogniser) transactions(path string, names, ids []string) {
	t := Thing{Path: path, Kind: Transactions}
	var present []string
	if slices.Contains(names, nodes.Sites) {
		if l := r.list(znode.Join(path, nodes.Sites)); l != nil {
			present, t.Forbidden = l.names, l.forbidden()
		}
	}
	for _, id := range ids {
		node := znode.Join(path, id)
		n := r.node(node, watched)
		if n == nil || n.err != nil {
			continue
		}
		record, ok := parseTransaction(id, n.data)
		if !ok {
			continue
		}
		l := r.list(znode.Join(node, record.GUID))
		if l == nil || l.gone() {
			continue
		}
		t.Transactions = append(t.Transactions, transaction(record, n.stat, l.names, present))
	}
	r.add(t)
}

func transaction(record *txRecord, stat *session.Stat, ballots, present []string) Transaction {
	tx := Transaction{ID: record.ID, Mode: record.Mode.String(), Since: since(stat.Ctime), InDoubt: record.Outcome == nil}
	if o := record.Outcome; o != nil {
		tx.Committed, tx.Reason, tx.By = o.Committed, string(o.Reason), o.By
	}
	votes := make(map[string]string)
	for _, name := range ballots {
		switch kind, site := nodes.ParseBallot(name); kind {
		case nodes.Unvoted:
			votes[site] = ""
		case nodes.VotedYes, nodes.VotedYesWithData:
			votes[site] = commit.Yes.String()
		case nodes.VotedNo, nodes.VotedNoWithData:
			votes[site] = commit.No.String()
		case nodes.CoordinatorPrefix:
			tx.Coordinated = true
		}
	}
	for _, site := range record.Sites {
		vote, there := votes[site]
		tx.Sites = append(tx.Sites, Site{Site: site, Vote: vote, Finished: !there, Present: slices.Contains(present, site)})
	}
	return tx
}

func entry(name, path string, n *found) Entry {
	return Entry{
		Name: name, Node: path, Data: text(n.data), Session: sessionText(sessionOf(n.stat)), Since: since(n.stat.Ctime),
		Changed: since(n.stat.Mtime), Version: n.stat.Version, Forbidden: n.err != nil,
	}
}

// mortal returns the entry of a node that is to go with a session.
func mortal(name, path string, n *found) Entry {
	e := entry(name, path, n)
	e.NoSession = e.Session == ""
	return e
}

// leaves adds nodes without children: barriers, the members of a group, or values.
func (r *recogniser) leaves(path string, all []leafNode) {
	group := Thing{Path: path, Kind: Group}
	values := Thing{Path: path, Kind: Values}
	ready := slices.ContainsFunc(all, func(n leafNode) bool { return nameOf(n.path) == readyNode })
	for _, n := range all {
		name, owner := nameOf(n.path), sessionOf(n.stat)
		switch {
		case name == readyNode && len(all) > 1:
		case isBarrier(n):
			b := &Raised{Token: n.stat.Czxid, Since: since(n.stat.Ctime), Session: sessionText(owner)}
			r.add(Thing{Path: n.path, Kind: Barrier, Barrier: b})
		case owner != 0:
			group.Members = append(group.Members, entry(name, n.path, n.found))
		case len(n.data) > 0:
			values.Values = append(values.Values, entry(name, n.path, n.found))
		}
	}
	switch layout := serviceLayout(all); {
	case layout != "":
		service := Thing{Path: path, Kind: Service, Layout: layout, Members: append(group.Members, values.Values...)}
		slices.SortFunc(service.Members, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		r.add(service)
	case len(values.Values) > 0: // names may live with sessions, too
		values.Values = append(values.Values, group.Members...)
		slices.SortFunc(values.Values, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		r.add(values)
	case len(group.Members) > 0 && ready:
		t := Thing{Path: path, Kind: DoubleBarrier, Layout: published, Double: &Rounds{}}
		t.Double.Inside = group.Members
		r.add(t)
	case len(group.Members) > 0:
		r.add(group)
	}
}

// serviceLayout returns how the instances of a service are written, and "" if the nodes are no such
// instances.
func serviceLayout(all []leafNode) string {
	for layout, format := range map[string]discovery.Format{curator: discovery.Curator, "serverset": discovery.ServerSet} {
		if len(all) > 0 && !slices.ContainsFunc(all, func(n leafNode) bool {
			_, err := format.Decode("", nameOf(n.path), n.data)
			return err != nil
		}) {
			return layout
		}
	}
	return ""
}

// isBarrier recognises a barrier, and the gate of a session: that carries an id, and was written
// once.
func isBarrier(n leafNode) bool {
	if sessionOf(n.stat) != 0 {
		return nodes.IsGate(n.data) && n.stat.Version == 1
	}
	return len(n.data) == 0 && n.stat.EphemeralOwner == 0 && n.stat.Cversion == 0 // else it had children
}
