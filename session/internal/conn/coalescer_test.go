package conn

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/clock"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/fifo"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// A bench has callers, an epoch, and a server that does what the frames of its connection ask for,
// step by step.
type bench struct {
	t     *testing.T
	rand  *rand.Rand
	s     *Session
	e     *Epoch
	l     *connection
	lanes []*caller
	asked []*ask

	next    int      // the first of pending that the server has not executed
	replies [][]byte // of those that it has
	zxid    int64
	done    []string       // the requests that were done, as they name themselves
	most    int            // shared transactions in flight
	shared  int            // transactions with several members
	wasted  map[string]int // shared transactions that failed, by the names of their members
	blamed  map[string]int // by the one at which they failed
	calm    bool           // no connection is cut, no server is busy, no caller gives up, no epoch ends
	healed  bool           // set when the last fault has been
}

// A caller has a lane, and numbers what it asks for.
type caller struct {
	n, asked int
	lane     Lane
	standing []string // nodes that it may delete
}

// An ask is a request of a caller.
type ask struct {
	name    string // "caller/number"
	caller  *caller
	bad     bool
	read    bool
	call    *probe // that may be given up; or nil
	left    bool   // it was cancelled, before it was sent
	answers int
	err     error
}

func newBench(t *testing.T, seed uint64) *bench {
	t.Helper()
	s := &Session{
		Options: Options{MaxRequest: 1 << 20, MaxReply: 1 << 20, Timeout: time.Second}, Owner: still{},
		Clock: clock.New(), Order: order.New(func() {}), Workers: workers.New(), Logger: slog.New(slog.DiscardHandler),
		Servers: servers.New([]string{"localhost:1"}, servers.Options{Timeout: time.Second, Log: func(slog.Level, string, ...any) {}}),
		Wake:    make(chan struct{}, 1),
	}
	b := &bench{t: t, rand: rand.New(rand.NewPCG(seed, 14)), s: s, zxid: 1 << 32, wasted: map[string]int{}, blamed: map[string]int{}}
	b.e = newEpoch(s, 1)
	b.e.retire = func() {}
	b.e.timeout = time.Second
	b.e.coalescer.limits = shareLimits{ops: 7, bytes: 500}
	b.connect()
	for n := range 6 {
		b.lanes = append(b.lanes, &caller{n: n})
	}
	return b
}

func (b *bench) connect() {
	socket, _ := net.Pipe()
	b.l = newConnection(b.e, "localhost:1", socket)
	b.l.phase, b.l.synced = phaseOpen, true
	b.next, b.replies = 0, nil
	b.e.mu.Lock()
	b.e.current, b.e.open = b.l, b.l
	b.e.advance()
	b.e.mu.Unlock()
}

// submit has a caller ask for something.
func (b *bench) submit() {
	c := b.lanes[b.rand.IntN(len(b.lanes))]
	c.asked++
	a := &ask{name: fmt.Sprintf("%d/%d", c.n, c.asked), caller: c}
	b.asked = append(b.asked, a)
	name := fmt.Sprintf("%d_%d", c.n, c.asked)
	parent := fmt.Sprintf("/p%d", b.rand.IntN(5))
	answered := func(err error) { a.answers, a.err = a.answers+1, err }
	switch kind := b.rand.IntN(10); {
	case kind < 2:
		a.read = true
		b.children(&c.lane, "/read/"+name, func(_ *probe, err error) { answered(err) })
	case kind < 5 && len(c.standing) > 0:
		node := c.standing[0]
		c.standing = c.standing[1:]
		if a.bad = b.rand.IntN(4) == 0; a.bad {
			node = "/none/bad"
		}
		told := b.e.newest
		a.call = b.remove(&c.lane, node+"@"+name, func(p *probe, err error) {
			if answered(err); p.Since < told && (err == nil || inDoubt(err)) {
				b.t.Errorf("%s: %d was known when it was sent, and %d before", a.name, p.Since, told)
			}
		})
	default:
		if a.bad = b.rand.IntN(6) == 0; a.bad {
			parent = "/bad" + parent[1:]
		}
		node := parent + "/" + name + "-"
		a.call = b.multi(&c.lane, func(p *probe, err error) {
			answered(err)
			switch results := p.results; {
			case err != nil:
			case len(results) != 2 || results[0].Path != node+"0000000000" || results[1].Stat.Mzxid == 0:
				b.t.Errorf("%s: %+v", a.name, results)
			default:
				c.standing = append(c.standing, parent)
			}
		}, createOp(node, make([]byte, b.rand.IntN(60)), true), setOp(parent))
	}
}

// check looks at what is in flight.
func (b *bench) check() {
	inFlight := 0
	for _, c := range b.l.pending.All() {
		if c.counted || c.members != nil {
			inFlight++
		}
		if c.members == nil {
			continue
		}
		parents := map[string]bool{}
		for _, m := range c.members {
			for parent := range m.createsUnder {
				if parents[parent] {
					b.t.Fatalf("two share a transaction that create a node under %s", parent)
				}
				parents[parent] = true
			}
		}
		if limits := b.e.coalescer.limits; len(c.Ops) > limits.ops || len(c.Frame) > limits.bytes+100 {
			b.t.Fatalf("%d operations, %d bytes", len(c.Ops), len(c.Frame))
		}
	}
	b.most = max(b.most, inFlight)
	q := &b.e.coalescer
	if inFlight > maxShared || q.inFlight != inFlight || q.waiting.Len() > 0 && inFlight < maxShared && b.l.window.Room() > 0 {
		b.t.Fatalf("%d in flight, counted as %d, and %d wait", inFlight, q.inFlight, q.waiting.Len())
	}
}

// execute has the server do the oldest request that it has not done.
func (b *bench) execute() {
	pending := b.l.pending.All()
	if b.next == len(pending) {
		return
	}
	c := pending[b.next]
	b.next++
	xid, r, err := wire.ParseRequest(c.Frame[4:])
	if err != nil || xid != c.xid {
		b.t.Fatal(xid, c.xid, err)
	}
	op := r.Op
	b.zxid++
	h := wire.Header{Xid: xid, Zxid: b.zxid}
	if !b.calm && !b.healed && b.rand.IntN(40) == 0 {
		h.Code = []wire.Code{wire.CodeThrottledOp, wire.CodeMarshalling}[b.rand.IntN(2)]
		b.reply(h, op, nil)
		return
	}
	ops := r.Ops
	if op != wire.OpMulti {
		ops = []wire.Request{r}
	}
	reply := wire.Reply{}
	bad := slices.IndexFunc(ops, func(o wire.Request) bool { return strings.Contains(o.Path, "bad") })
	for i, o := range ops {
		result := wire.Result{Op: o.Op}
		switch {
		case bad >= 0:
			result = wire.Result{Op: wire.OpError}
			if i == bad {
				result.Code = wire.CodeNoNode
			} else if i > bad {
				result.Code = wire.CodeRuntimeInconsistency
			}
			if c.members != nil {
				b.wasted[named(o.Path)]++
			}
		case o.Op.IsCreate():
			result.Op, result.Path = wire.OpCreate, o.Path+"0000000000"
			b.done = append(b.done, named(o.Path))
		case o.Op == wire.OpSetData:
			result.HasStat, result.Stat.Mzxid = true, b.zxid
		case o.Op == wire.OpDelete, o.Op == wire.OpGetChildren2:
			b.done = append(b.done, named(o.Path))
		}
		reply.Results = append(reply.Results, result)
	}
	if c.members != nil {
		b.shared++
		if bad >= 0 {
			b.blamed[named(ops[bad].Path)]++
		}
	}
	if op != wire.OpMulti && bad >= 0 {
		h.Code = wire.CodeNoNode
	}
	b.reply(h, op, &reply)
}

func (b *bench) reply(h wire.Header, op wire.Op, r *wire.Reply) {
	b.replies = append(b.replies, wire.AppendReply(nil, h, op, r))
}

// named returns the name of the request that a path belongs to; "" for a parent.
func named(path string) string {
	_, name := znode.Split(path)
	if _, after, deleted := strings.Cut(path, "@"); deleted {
		name = after
	}
	name = strings.TrimSuffix(name, "-")
	if !strings.Contains(name, "_") {
		return ""
	}
	return strings.Replace(name, "_", "/", 1)
}

// deliver brings the oldest reply.
func (b *bench) deliver() {
	if len(b.replies) == 0 {
		return
	}
	frame := b.replies[0]
	b.replies, b.next = b.replies[1:], b.next-1
	b.l.unwritten, b.l.out = 0, nil
	check.Must(b.t, b.l.receive(frame[4:]))
	b.s.Order.Run()
}

// cut has the connection fail. Some of what was not executed was not written either.
func (b *bench) cut() {
	b.l.unwritten = b.rand.IntN(b.l.pending.Len() - b.next + 1)
	b.l.fail(errSilent)
	b.e.severed(b.l)
	b.connect()
}

// leave has the caller of a request give it up, if it was not sent.
func (b *bench) leave() {
	if len(b.asked) == 0 {
		return
	}
	a := b.asked[b.rand.IntN(len(b.asked))]
	c := a.call
	switch {
	case a.answers > 0 || a.left:
		return
	case c == nil:
		return
	}
	c.Abandon()
	a.left = c.state.Load() == callAbandoned
}

// end has the epoch end. Some replies come when it has ended, and its connection has not failed
// yet.
func (b *bench) end() {
	gone := b.e.gone
	b.e.gone = func() {
		gone()
		for range b.rand.IntN(5) {
			b.execute()
			b.deliver()
		}
	}
	b.e.End(fault.ErrExpired)
	b.l.unwritten = b.rand.IntN(b.l.pending.Len() - b.next + 1)
	b.e.severed(b.l)
	b.s.Order.Run()
}

// TestCoalescer plays schedules of callers, a server, and connections that are cut: every request
// is answered once, is done at most once, and exactly once if the answer says so; a caller's
// requests are done in the order in which it has asked; a refusal costs others no more than it may.
// When the last fault has been, or the epoch has ended, no request is left behind. A caller that
// gives up a request that was not sent is not answered, and it is not done.
func TestCoalescer(t *testing.T) {
	walks := hasten.Sized(hasten.Usually(3000, 2000), 300)
	shared := 0
	for seed := range walks {
		b := newBench(t, uint64(seed))
		b.calm = seed%2 == 0
		b.play()
		b.verify()
		if shared += b.shared; t.Failed() {
			t.Fatalf("seed %d: %v", seed, b.done)
		}
	}
	check.True(t, shared >= walks*5, "only %d transactions were shared", shared)
}

func (b *bench) play() {
	eager := 1 + b.rand.IntN(12)
	for range 150 {
		switch step := b.rand.IntN(20); {
		case step < eager:
			b.submit()
		case step < 16:
			b.execute()
		case step < 19 || b.calm:
			b.deliver()
		default:
			switch b.rand.IntN(10) {
			case 0, 1:
				b.cut()
			case 2, 3, 4:
				b.leave()
			}
		}
		b.s.Order.Run()
		b.check()
	}
	if b.healed = true; !b.calm && b.rand.IntN(4) == 0 {
		b.end()
		return
	}
	for b.l.pending.Len() > 0 {
		b.execute()
		b.deliver()
		b.check()
	}
}

func (b *bench) verify() {
	times, newest := map[string]int{}, map[string]int{}
	for _, name := range b.done {
		times[name]++
		var caller, number int
		if _, err := fmt.Sscanf(name, "%d/%d", &caller, &number); err != nil {
			b.t.Fatal(name, err)
		}
		lane, _, _ := strings.Cut(name, "/")
		if newest[lane] >= number {
			b.t.Errorf("%s was done after number %d", name, newest[lane])
		}
		newest[lane] = number
	}
	for _, a := range b.asked {
		n := times[a.name]
		switch {
		case a.left && (a.answers != 0 || n != 0):
			b.t.Errorf("%s was given up, and has %d answers, and was done %d times", a.name, a.answers, n)
		case a.left:
		case a.answers != 1:
			b.t.Errorf("%s has %d answers", a.name, a.answers)
		case n > 1, a.err == nil && n != 1, a.err != nil && !inDoubt(a.err) && !a.read && !errors.Is(a.err, fault.ErrDisconnected) && n != 0:
			b.t.Errorf("%s was done %d times: %v", a.name, n, a.err)
		case a.bad && a.err == nil, b.calm && a.bad != errors.Is(a.err, fault.ErrNoNode), errors.Is(a.err, fault.ErrAuthFailed):
			b.t.Errorf("%s: %v", a.name, a.err)
		case b.wasted[a.name] > maxSpoilt, b.blamed[a.name] > 1:
			b.t.Errorf("%s was a part of %d transactions that failed", a.name, b.wasted[a.name])
		}
	}
	if lanes := b.lanes; slices.ContainsFunc(lanes, func(c *caller) bool { return c.lane.write != nil }) {
		b.t.Error("a lane is not empty")
	}
	if q := &b.e.coalescer; q.inFlight != 0 || q.waiting.Len() != 0 || len(q.creating) != 0 || b.e.queue.Len() != 0 {
		b.t.Errorf("left: %+v, and %d in the queue", q, b.e.queue.Len())
	}
	if reserved := b.e.Ephemerals.Reserved(); reserved != 0 {
		b.t.Errorf("%d bytes are reserved for ephemeral nodes", reserved)
	}
	if b.most > maxShared {
		b.t.Errorf("%d in flight", b.most)
	}
}

// TestRivals: of two callers that create a node under one parent, the one that has waited goes
// first, and alone. Its later requests go with it.
func TestRivals(t *testing.T) {
	b := newBench(t, 0)
	b.calm = true
	create := func(lane *Lane, node string) {
		dir, _ := znode.Split(node)
		b.multi(lane, func(_ *probe, err error) {
			check.OK(t, err, node)
		}, createOp(node, nil, false), setOp(dir))
	}
	for i := range maxShared {
		create(&b.lanes[i].lane, fmt.Sprintf("/p%d/first_%d-", i, i))
	}
	waits, comes := new(Lane), new(Lane)
	create(new(Lane), "/p/other_1-")
	create(waits, "/rivals/waits_1-")
	b.children(waits, "/read/waits_2", func(*probe, error) {})
	create(comes, "/rivals/comes_1-")
	create(new(Lane), "/rivals/third_1-")
	for b.l.pending.Len() > 0 {
		b.check()
		b.execute()
		b.deliver()
	}
	want := []string{"first/0", "first/1", "first/2", "first/3", "waits/1", "comes/1", "waits/2", "other/1", "third/1"}
	check.True(t, slices.Equal(b.done, want) && b.shared == 1, "done: %v, want %v; %d transactions were shared", b.done, want, b.shared)
}

// TestGivenUp: where all that would share a transaction have given up, none goes out, and others
// go.
func TestGivenUp(t *testing.T) {
	b := newBench(t, 0)
	b.calm = true
	answers := 0
	remove := func(node string) *probe {
		return b.remove(new(Lane), node, func(*probe, error) { answers++ })
	}
	for i := range maxShared {
		remove(fmt.Sprintf("/p@first_%d", i))
	}
	for i := range 3 {
		if c := remove(fmt.Sprintf("/p@left_%d", i)); !c.Abandon() {
			t.Error("it was sent")
		}
	}
	for range 2 {
		for b.l.pending.Len() > 0 {
			b.execute()
			b.deliver()
			b.check()
		}
		remove("/p@last_1")
		b.check()
	}
	if want := []string{"first/0", "first/1", "first/2", "first/3", "last/1"}; !slices.Equal(b.done, want) || answers != 5 {
		t.Errorf("done: %v, want %v; %d answers", b.done, want, answers)
	}
}

// TestShareLimits: no shared request is larger than a request may be, nor is the reply to it.
func TestShareLimits(t *testing.T) {
	path := func(length int) string { return "/" + strings.Repeat("n", length-1) }
	request := func(ops ...wire.Request) *Call {
		if len(ops) == 1 {
			return &Call{Opcode: ops[0].Op, Frame: wire.AppendRequest(nil, 0, &ops[0])}
		}
		c := &Call{Opcode: wire.OpMulti, Frame: wire.AppendRequest(nil, 0, &wire.Request{Op: wire.OpMulti, Ops: ops})}
		for _, op := range ops {
			c.Ops = append(c.Ops, op.Op)
		}
		return c
	}
	for _, o := range []Options{{MaxRequest: 4 << 10, MaxReply: 1 << 20}, {MaxRequest: 1 << 20, MaxReply: 4 << 10}, {MaxRequest: 4 << 20, MaxReply: 64 << 20}} {
		for length := 10; length < 4000; length += hasten.Sized(hasten.Usually(1, 9), 97) {
			node, dir := path(length), path(length/2)
			for _, c := range []*Call{
				request(wire.Request{Op: wire.OpDelete, Path: node}),
				request(slices.Repeat([]wire.Request{{Op: wire.OpSetData, Path: path(length / 5)}}, 5)...),
				request(wire.Request{Op: wire.OpCreate2, Path: dir, ACL: []wire.ACL{{}}}, wire.Request{Op: wire.OpSetData, Path: dir}),
			} {
				q := coalescer{limits: shareLimitsOf(&o)}
				for range maxSharedOps + 1 {
					q.waiting.Push(c)
				}
				n := q.next(func() int { return maxSharedBytes })
				s := newShared(slices.Repeat([]*Call{c}, n))
				r := wire.Reply{}
				for _, op := range s.Ops {
					r.Results = append(r.Results, wire.Result{Op: op, HasStat: op != wire.OpDelete})
					if op.IsCreate() {
						r.Results[len(r.Results)-1].Path = dir + "0000000000"
					}
				}
				reply := wire.AppendReply(nil, wire.Header{}, wire.OpMulti, &r)
				if n > 1 && (len(s.Frame)-4 > o.MaxRequest || len(reply)-4 > o.MaxReply) || len(s.Ops) > maxSharedOps || n > 1 && len(s.Frame) > maxSharedBytes+16 {
					t.Fatalf("MaxRequest %d, MaxReply %d: %d of %d bytes go together, in a request of %d with %d operations, and its reply of %d",
						o.MaxRequest, o.MaxReply, n, len(c.Frame), len(s.Frame), len(s.Ops), len(reply))
				}
			}
			if length > 100 {
				length += 6
			}
		}
	}
}

// share has a new caller create a node, and returns where the answer goes: nil before.
func (b *bench) share(node string) *[]error {
	answers := new([]error)
	dir, _ := znode.Split(node)
	b.multi(new(Lane), func(_ *probe, err error) { *answers = append(*answers, err) }, createOp(node, nil, false), setOp(dir))
	return answers
}

// crowd fills the server with requests of one caller each, and has more callers wait, whose nodes
// have the name.
func (b *bench) crowd(name string, waiting int) (all []*[]error) {
	for i := range maxShared {
		b.share(fmt.Sprintf("/first%d/first_%d-", i, i))
	}
	for i := range waiting {
		all = append(all, b.share(fmt.Sprintf("/%s%d/%s_%d-", name, i, name, i)))
	}
	return all
}

// drain has the server do everything.
func (b *bench) drain() {
	for b.l.pending.Len() > 0 {
		b.check()
		b.execute()
		b.deliver()
	}
}

// TestWide: a request that is larger than what may be shared goes alone when it is its turn.
func TestWide(t *testing.T) {
	b := newBench(t, 0)
	b.calm = true
	b.crowd("before", 1)
	var ops []wire.Request
	for range b.e.coalescer.limits.ops + 1 {
		ops = append(ops, wire.Request{Op: wire.OpDelete, Path: "/p@wide_1", Version: -1})
	}
	answers := 0
	b.multi(new(Lane), func(*probe, error) { answers++ }, ops...)
	b.share("/after/after_1-")
	b.drain()
	check.True(t, answers == 1 && b.done[len(b.done)-1] == "after/1", "%d answers, done: %v", answers, b.done)
}

// TestRefusedTogether: where it is unknown which request the server has refused, all go alone,
// before those that have come later. Where others may go together again, they are before those as
// well.
func TestRefusedTogether(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeMarshalling, wire.CodeOK} {
		b := newBench(t, 0)
		b.calm = true
		names := []string{"a", "b", "c"}
		for i := range maxShared {
			b.share(fmt.Sprintf("/first%d/first_%d-", i, i))
		}
		var all []*[]error
		for _, name := range names {
			all = append(all, b.share("/"+name+"/"+name+"_1-"))
		}
		for b.l.pending.All()[0].members == nil {
			b.execute()
			b.deliver()
		}
		for i := range maxShared + 1 { // the last two wait
			b.share(fmt.Sprintf("/late%d/late_%d-", i, i))
		}
		last := b.l.pending.All()[0]
		reply := wire.Reply{Results: make([]wire.Result, len(last.Ops))}
		for i := range reply.Results {
			reply.Results[i] = wire.Result{Op: wire.OpError, Code: wire.CodeRuntimeInconsistency}
		}
		reply.Results[2].Code = wire.CodeNoAuth // at b
		b.next++
		b.reply(wire.Header{Xid: last.xid, Zxid: b.zxid, Code: code}, wire.OpMulti, &reply)
		b.deliver()
		for _, c := range b.l.pending.All() {
			check.True(t, c.members == nil || code == wire.CodeOK || !slices.ContainsFunc(c.members, func(m *Call) bool { return m.spoilt > 0 }), "%v: some go together again", code)
		}
		b.drain()
		at := func(name string) int { return slices.Index(b.done, name) }
		for i, name := range names {
			check.True(t, len(*all[i]) == 1 && (*all[i])[0] == nil && at(name+"/1") <= at("late/3"), "%v: %s has the answers %v, done: %v", code, name, *all[i], b.done)
		}
	}
}

// TestReplyTooLarge: a call that shares a transaction whose reply is too large learns that the
// outcome is unknown.
func TestReplyTooLarge(t *testing.T) {
	b := newBench(t, 0)
	b.calm = true
	all := b.crowd("crowd", 3)
	for b.l.pending.All()[0].members == nil {
		b.execute()
		b.deliver()
	}
	b.next++
	b.reply(wire.Header{Xid: b.l.pending.All()[0].xid, Zxid: b.zxid, Code: wire.CodeTooLarge}, wire.OpMulti, nil)
	b.deliver()
	for _, answers := range all {
		check.True(t, len(*answers) == 1 && inDoubt((*answers)[0]) && errors.Is((*answers)[0], fault.ErrTooLarge), "answers: %v", *answers)
	}
	b.drain()
}

// TestBreaksConnections: when connections break, one after the other, with a shared transaction
// unanswered, all go alone until one has lasted. The same is true when a reply to one is malformed.
func TestBreaksConnections(t *testing.T) {
	b := newBench(t, 0)
	b.calm = true
	together := func() bool {
		b.crowd("crowd", 3)
		b.execute()
		b.deliver()
		return slices.ContainsFunc(b.l.pending.All(), func(c *Call) bool { return c.members != nil })
	}
	cut := func() {
		b.l.unwritten, b.l.out = 0, nil
		b.l.fail(errSilent)
		b.e.severed(b.l)
		b.connect()
	}
	lasts := func() {
		b.drain()
		b.e.id, b.e.timeout = 1, time.Minute
		b.l.beats = lease.NewBeats(b.s.Clock.Now(), 1, 1)
		check.Have(b.l.check(b.l.made + b.l.terms().Heartbeat))(t)
		b.l.pending, b.replies, b.next = fifo.Queue[*Call]{}, nil, 0 // heartbeats
	}
	expect := func(want bool, when string) {
		t.Helper()
		check.True(t, together() == want, "%s, writes go together: %v", when, !want)
	}
	expect(true, "at first")
	cut()
	expect(true, "when one connection has broken")
	b.drain()
	expect(true, "when the next has not")
	cut()
	expect(true, "when one connection has broken since")
	cut()
	expect(false, "when two have broken")
	cut()
	expect(false, "when a third has")
	lasts()
	expect(true, "when a connection has lasted")
	for b.l.pending.All()[0].members == nil {
		b.execute()
		b.deliver()
	}
	b.reply(wire.Header{Xid: b.l.pending.All()[0].xid, Zxid: b.zxid}, wire.OpMulti, &wire.Reply{})
	b.l.unwritten = 0
	check.True(t, b.l.receive(b.replies[0][4:]) != nil, "a reply without results is no error")
	cut()
	expect(false, "when a reply was malformed")
}

// TestGivenUpBeforeACut: who has given up before the connection breaks is not asked for on the
// next.
func TestGivenUpBeforeACut(t *testing.T) {
	b := newBench(t, 0)
	b.calm = true
	b.crowd("crowd", 2)
	c := b.multi(new(Lane), func(*probe, error) { t.Error("it was answered") }, createOp("/p/left_1-", nil, false))
	check.True(t, c.Lane.write == &c.Call && c.Abandon(), "it was sent")
	b.l.unwritten = b.l.pending.Len()
	b.l.fail(errSilent)
	b.e.severed(b.l)
	b.connect()
	b.drain()
	check.True(t, !slices.Contains(b.done, "left/1") && len(b.done) == maxShared+2 && b.e.Ephemerals.Reserved() == 0, "done: %v, and %d bytes are reserved", b.done, b.e.Ephemerals.Reserved())
}
