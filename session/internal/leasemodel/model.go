// Package leasemodel is a model of the servers, sessions and links that the lease of a session
// depends on, for the tests of the lease.
package leasemodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// This file models what the lease depends on: servers that lead and follow, the sessions of
// clients, and the links between them. Links keep the order of messages. They can delay messages
// and be cut in one direction. The clocks of clients and leaders run at different rates. A schedule
// is a function of a seed. The rule that computes the lease is a parameter.

// Timeout is the session timeout that clients ask for.
const Timeout = 6 * time.Second

// A Party is a part of the system that an answer rests on.
type Party int

// The parties.
const (
	ByServer Party = iota // the server alone
	ByLeader              // the leader that the server follows
	ByQuorum              // a leader that a quorum followed after the request was sent
)

// A Rule has the proofs of one connection. All times are on the clock of the client.
type Rule interface {
	// Answered records the answer to a request.
	Answered(sent, now time.Duration, by Party)
	// Served returns when the newest request was sent that was answered.
	Served() time.Duration
	// Heard returns when the newest request was sent in whose answer the leader took part.
	Heard() time.Duration
	// Since returns from when on the session has a whole timeout.
	Since(trusting bool) time.Duration
	// Claimed returns the result of Since behind the answer to a request that is sent now.
	Claimed() time.Duration
}

// A Watcher is a Rule that looks at the zxids of answers. Saw reports whether a zxid is greater
// than the zxid of an earlier sync's answer, and whether a transaction is due.
type Watcher interface {
	Saw(zxid int64, sync bool, sent time.Duration) (grew, stale bool)
}

// A Learner is a Rule that learns what the server does: that it follows, or is alone.
type Learner interface{ Learns(follows bool) }

// A Pacer is a Rule that decides when heartbeats are due, and which heartbeats are transactions.
type Pacer interface {
	// Sent records a heartbeat.
	Sent(now time.Duration, commits bool)
	// Keeps records the answer to another request that keeps the session alive.
	Keeps(sent time.Duration)
	// Commits reports whether a heartbeat that is sent now is to be a transaction.
	Commits(now time.Duration) bool
	// Due returns when the next heartbeat is due. A session that hastens continues its proofs at
	// the first moment.
	Due(hastens bool) time.Duration
}

// A Stake has the proofs that the lease of a session rests on, over its connections, and whether
// anything rests on the lease.
type Stake interface {
	// Negotiated records a handshake that has set the timeout.
	Negotiated(timeout time.Duration)
	// Shortened records a handshake that was sent at the given time, and has made the timeout
	// shorter.
	Shortened(by, sent time.Duration)
	// Opened records a connection that takes calls.
	Opened(on Rule)
	// Prove counts the proofs of a connection that was greeted at the given time.
	Prove(now time.Duration, on Rule, strict bool, greeted time.Duration)
	// Deadline returns when the lease ends. There is none while Lapsed.
	Deadline(strict bool) time.Duration
	// Lapse is called when the lease has ended. Lapsed reports whether it has, and no connection
	// has proved it since.
	Lapse()
	Lapsed() bool
	// Begin is called when something begins to rest on the lease: a recipe, or other nodes. It
	// reports whether a sync is to go out on the connection that takes calls, which may be nil.
	Begin(now time.Duration, recipe bool, open Rule) (proves bool)
	// Rest is called when the last recipe no longer rests on the lease. If low is set, nothing
	// rests on it then.
	Rest(now time.Duration, low bool)
	// Assures reports whether calls may go out.
	Assures(now time.Duration, open Rule) bool
	// Unproven reports whether the lease is not proven since it has begun to matter.
	Unproven() bool
	// Frugal reports whether heartbeats are pings.
	Frugal(now time.Duration) bool
	// Beats records a heartbeat that is due, a ping or not. Pings reports whether the last
	// heartbeat was a ping.
	Beats(ping bool)
	Pings() bool
}

// A Variant is a way in which clients compute their deadlines.
type Variant struct {
	Name string

	// Rule begins with an accepted handshake that was sent at the given time.
	Rule func(tick, sent time.Duration, created bool) Rule

	// Stake begins with a session.
	Stake func(tick time.Duration) Stake

	Relies   bool // each connection that opens while something is held is relied on like the first
	LastTerm bool // the timeout of the newest handshake counts, not the shortest
	Observed bool // there are observers, which are connected to followers
	Shares   bool // heartbeats are syncs, and a transaction follows one that leaves proofs too old
	Spared   bool // leaders take no clients
	Hasty    bool // leaders answer the syncs of followers before what they have proposed is committed
	Asks     bool // clients ask what a server does, on another connection to its address, and share on one that follows
	Rash     bool // the answer counts at once, without a later one on the connection itself
	Recalls  bool // the answer counts for later connections to the address, too
	Balanced bool // the question goes to any server
	Alone    bool // there is one server
	Lasting  bool // leases have no end
	Grasping bool // what was held outlasts the lease
	Clinging bool // the connection outlasts the lease

	// First is the first seed of the schedules.
	First uint64

	// Fails has the failures that some schedule must show. It is empty for a sound rule.
	Fails []Failure
}

// A Failure is the way in which a client was wrong.
type Failure int

// The failures. In the first two a deadline was too late.
const (
	None     Failure = iota
	Report           // the leader of the client's connection had not heard of the session in time
	Deposed          // a later leader had not
	Unproved         // a grant after a lapse, and no quorum had committed anything that was sent since
	Stale            // a grant after a lapse by the answer to a request of before
	Expended         // a lapse ended with the deadline of before
	Mistaken         // a proof of others counted that was none
)

func (f Failure) String() string {
	return [...]string{"none", "report", "deposed", "unproved", "stale", "expended", "mistaken"}[f]
}

// A fault happens at a time. Its target follows from the state and from x.
type fault struct {
	at, lasts time.Duration
	kind      faultKind
	x         int
}

type faultKind int

const (
	holdLink     faultKind = iota // one direction between two servers
	ambush                        // what a client depends on is held for a moment, then follower to leader is cut
	desert                        // followers leave their leader, which does not notice
	restart                       // a server leaves its leader, or its lead
	move                          // two servers begin anew, each at the other's address
	breakClient                   // the connection of a client ends
	holdRequests                  // client to server
	holdReplies                   // server to client
	lateAcks                      // acknowledgements are held up, and the followers that sent them leave meanwhile
	faultKinds
)

// A Tally counts what happened, over all schedules.
type Tally struct {
	Elections       int
	Due             int // a leader could have expired a session
	Expired         int // an expiry was committed
	DeposedSync     int // a deposed leader answered a sync
	Pinged          int // an idle session had its server answer a ping
	Unproven        int // an idle session began to contend, and had to prove its lease first
	Proven          int // it did
	Delayed         int // a creation was not sent until that was done
	DeposedGreeting int // a deposed leader agreed to a handshake
	ReportHeld      int // a report was held up on its way
	AnswerLost      int // a handshake was not answered
	Listed          int // a grant rested on a list
	Granted         int
	SyncWaited      int           // a sync waited for proposals
	LateAck         int           // an acknowledgement of a follower arrived that had left
	Shortened       int           // a handshake brought a shorter timeout
	Excluded        int           // the answer to such a handshake was lost: nothing is promised
	Idled           int           // a session went on behind its deadline: nothing rested on it
	Lapsed          int           // a lease ended on which something rested
	LapsedAgain     int           // one did that was not proven since
	Yielded         int           // a contender kept its node meanwhile, and looked at it again
	Resumed         int           // servers took back a session that had lapsed
	Gone            int           // they did not: it was lost
	Regranted       int           // a session that had lapsed was granted something again
	LostHolding     int           // a lease ended with something held
	Tightest        time.Duration // between that and when the leader could have expired it

	// Only with a Watcher.
	Grew       int // a zxid was greater than that of a sync before
	FalseProof int // the sync was sent when a later reign had begun

	// Only with Asks.
	Asked   int // a server has said what it does
	Follows int // a connection was found to go to one that follows
	Late    int // the server that was asked was not any more that of the connection, which the client did not know
	Moved   int // a server took the address of another
}

// A world is the state of the model.
type world struct {
	variant Variant
	rng     *rand.Rand
	tally   *Tally
	trace   *strings.Builder // or nil

	now    time.Duration
	queue  []occurrence // a heap
	serial int

	tick, patience, delay time.Duration // patience of servers with each other
	eager                 bool          // leaders expire sessions soon
	paced                 bool          // heartbeats follow the Pacer, if the rule is one; else one is sent every ninth of the timeout
	servers               []*server     // that vote
	addresses             []*server     // by address
	serving               []*server     // to which clients are connected
	reigns                []*reign      // in the order of their beginnings
	clients               []*client
	held                  map[[2]int]time.Duration // server links, by sender and receiver, and until when

	failed   Failure
	failedAt time.Duration
	firm     bool // the expiry was committed, not only possible
}

// An occurrence is an event that is to happen.
type occurrence struct {
	at     time.Duration
	serial int
	do     func()
}

func (o occurrence) before(p occurrence) bool {
	return o.at < p.at || o.at == p.at && o.serial < p.serial
}

func (w *world) after(d time.Duration, do func()) {
	w.serial++
	w.queue = append(w.queue, occurrence{w.now + d, w.serial, do})
	q := w.queue
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

// step plays the next occurrence.
func (w *world) step() {
	q := w.queue
	next, last := q[0], len(q)-1
	q[0], q[last] = q[last], occurrence{}
	q = q[:last]
	w.queue = q
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(q) && q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	w.now = next.at
	next.do()
}

func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

func (w *world) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) logf(format string, args ...any) {
	fmt.Fprintf(w.trace, "%9.3f  %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
}

// A pipe carries messages in one direction of one connection, in order.
type pipe struct {
	w        *world
	from, to int // servers; -1 in connections of clients
	messages []func()
	last     time.Duration // when the newest arrives
	heldTo   time.Duration // in connections of clients
	closed   bool
}

func (p *pipe) send(do func()) {
	p.messages = append(p.messages, do)
	p.last = max(p.last, p.w.now+p.w.upTo(p.w.delay))
	p.w.after(p.last-p.w.now, p.arrive)
}

// arrive delivers the next message, or lets it wait while the pipe is held.
func (p *pipe) arrive() {
	if p.closed {
		return
	}
	until := p.heldTo
	if p.from >= 0 {
		until = p.w.held[[2]int{p.from, p.to}]
	}
	if until > p.w.now {
		p.w.after(until-p.w.now, p.arrive)
		return
	}
	next := p.messages[0]
	p.messages = p.messages[1:]
	next()
}

// A server follows, leads, or looks for a leader.
type server struct {
	w        *world
	id       int
	log      []entry
	applied  int // so much of the log is committed, as far as this server knows
	accepted int // number of the newest reign that it took part in

	reign *reign  // nil while it looks
	m     *member // its membership; nil while it leads
	alive time.Duration
	heard []time.Duration // by session: the timeout of those heard of since the last report
	conns []*conn

	least, most time.Duration // that it grants as a timeout

	by        *watcher  // of an observer, while it has a master; else nil
	observers []*server // of which it is the master
}

// An entry is a transaction.
type entry struct {
	kind    entryKind
	session int
	number  int // of the contender
	timeout time.Duration
	request *request // whose answer it is
}

type entryKind int

const (
	opening  entryKind = iota // a session
	creation                  // a contender's node
	check                     // nothing
	expiry                    // a session
)

// A reign is the time during which one server leads.
type reign struct {
	number    int
	leader    *server
	rate      float64 // of the leader's clock
	over      bool
	committed int
	members   []*member
	counts    []count // by session
	syncs     []waitingSync
	begun     time.Duration
}

// A waitingSync is answered when so much of the log is committed.
type waitingSync struct {
	n    int
	back func()
}

// A member is the leader's side of a connection to a follower.
type member struct {
	s        *server
	up, down *pipe
	heard    time.Duration
	acked    int
}

// A count is the knowledge of a leader about a session.
type count struct {
	from, timeout time.Duration
	known         bool
	closing       bool          // its expiry was proposed
	timed         time.Duration // when it is looked at; 0 if never
}

func (r *reign) due(session int) time.Duration {
	c := &r.counts[session]
	return c.from + time.Duration(float64(c.timeout)/r.rate)
}

// touch is a sign of life that reaches the leader.
func (r *reign) touch(session int, timeout time.Duration) bool {
	c := &r.counts[session]
	if !c.known || c.closing {
		return false
	}
	c.from, c.timeout = r.leader.w.now, timeout
	r.time(session)
	return true
}

// time checks a session when its expiry is due.
func (r *reign) time(session int) {
	c, w := &r.counts[session], r.leader.w
	due := r.due(session)
	if c.timed != 0 && c.timed <= due {
		return
	}
	c.timed = due
	w.after(max(due-w.now, 0), func() {
		if c.timed != due {
			return // it has become due earlier
		}
		c.timed = 0
		if r.over || !c.known || c.closing {
			return
		}
		if r.due(session) > w.now {
			r.time(session)
			return
		}
		w.tally.Due++
		if w.trace != nil {
			w.logf("leader %d of reign %d may expire session %d", r.leader.id, r.number, session)
		}
		w.judge(w.clients[session])
		pause := w.upTo(w.tick)
		if !w.eager {
			pause += w.upTo(2 * Timeout)
		}
		w.after(pause, func() {
			if r.over || c.closing || r.due(session) > w.now {
				r.time(session)
				return
			}
			r.propose(entry{kind: expiry, session: session})
		})
	})
}

// propose begins a transaction.
func (r *reign) propose(e entry) {
	if r.over {
		return
	}
	c := &r.counts[e.session]
	switch {
	case e.kind == opening:
		*c = count{from: r.leader.w.now, timeout: e.timeout, known: true}
		r.time(e.session)
	case c.closing || !c.known:
		e.request.refuse()
		return
	case e.kind == expiry:
		c.closing = true
	}
	r.leader.log = append(r.leader.log, e)
	for _, m := range r.members {
		r.offer(m, e)
	}
	r.commit()
}

// offer sends a proposal to a follower, which logs it.
func (r *reign) offer(m *member, e entry) {
	m.down.send(func() {
		m.s.log = append(m.s.log, e)
		n := len(m.s.log)
		m.up.send(func() {
			if m.s.m != m {
				m.s.w.tally.LateAck++
			}
			m.acked, m.heard = n, m.s.w.now
			r.commit()
		})
	})
}

// commit commits the entries that a quorum has logged.
func (r *reign) commit() {
	if r.over {
		return
	}
	for n := r.committed + 1; n <= len(r.leader.log); n++ {
		acks := 1
		for _, m := range r.members {
			if m.acked >= n {
				acks++
			}
		}
		if acks <= len(r.leader.w.servers)/2 {
			return
		}
		r.committed = n
		for _, m := range r.members {
			m.down.send(func() { m.s.apply(n) })
		}
		e := r.leader.log[n-1]
		if e.kind == expiry {
			r.leader.w.expired(r, e.session)
		}
		r.leader.apply(n)
		for len(r.syncs) > 0 && r.syncs[0].n <= n {
			back := r.syncs[0].back
			r.syncs = r.syncs[1:]
			back()
		}
	}
}

// sync answers the sync of a follower when all that has been proposed before is committed.
func (r *reign) sync(back func()) {
	if n := len(r.leader.log); n > r.committed && !r.leader.w.variant.Hasty {
		r.leader.w.tally.SyncWaited++
		r.syncs = append(r.syncs, waitingSync{n, back})
		return
	}
	back()
}

// apply learns of a commit, and answers the request if it came from here.
func (s *server) apply(n int) {
	if n > s.applied {
		s.inform(n)
	}
	s.applied = max(s.applied, n)
	e := s.log[n-1]
	if e.request != nil && e.request.conn.server == s {
		e.request.done()
	}
}

// beat does the work of a leader every half a tick.
func (r *reign) beat() {
	w := r.leader.w
	if r.over {
		return
	}
	inTouch := 1
	for _, m := range slices.Clone(r.members) {
		if w.now-m.heard > w.patience {
			r.drop(m)
			continue
		}
		inTouch++
		m.down.send(func() { m.s.pinged() })
	}
	if inTouch <= len(w.servers)/2 {
		if w.trace != nil {
			w.logf("leader %d of reign %d gives up", r.leader.id, r.number)
		}
		r.leader.leave()
		return
	}
	half := w.tick/2 + w.upTo(w.tick/16)
	w.after(time.Duration(float64(half)/r.rate), r.beat)
}

// drop forgets a follower, which does not learn it.
func (r *reign) drop(m *member) {
	m.up.closed, m.down.closed = true, true
	r.members = slices.DeleteFunc(r.members, func(o *member) bool { return o == m })
}

// pinged reports to the leader which sessions this server has heard.
func (s *server) pinged() {
	s.alive = s.w.now
	m, r, heard := s.m, s.reign, slices.Clone(s.heard)
	clear(s.heard)
	if s.w.held[[2]int{s.id, r.leader.id}] > s.w.now && slices.Max(heard) > 0 {
		s.w.tally.ReportHeld++
	}
	m.up.send(func() {
		m.heard = s.w.now
		for session, timeout := range heard {
			if timeout > 0 {
				r.touch(session, timeout)
			}
		}
	})
}

// hear records a sign of life of a client.
func (s *server) hear(session int, timeout time.Duration) {
	if s.m == nil && s.by == nil {
		s.reign.touch(session, timeout)
		return
	}
	s.heard[session] = timeout
}

// leave makes the server look for a leader. The others do not learn it.
func (s *server) leave() {
	for _, o := range slices.Clone(s.observers) {
		o.leave()
	}
	if s.by != nil {
		s.detach()
	} else if s.m == nil {
		s.reign.over = true
		for _, m := range s.reign.members {
			m.up.closed, m.down.closed = true, true
		}
	} else {
		s.m.down.closed = true // what it has sent still arrives
	}
	s.reign, s.m = nil, nil
	for _, c := range slices.Clone(s.conns) {
		c.sever()
	}
}

// watch ends a following in silence.
func (s *server) watch(m *member) {
	s.w.after(s.w.tick/2, func() {
		if s.m != m {
			return
		}
		if s.w.now-s.alive > s.w.patience {
			if s.w.trace != nil {
				s.w.logf("server %d leaves leader %d, which is silent", s.id, s.reign.leader.id)
			}
			s.leave()
			return
		}
		s.watch(m)
	})
}

// open reports whether no direction between two servers is held.
func (w *world) open(a, b *server) bool {
	return w.held[[2]int{a.id, b.id}] <= w.now && w.held[[2]int{b.id, a.id}] <= w.now
}

// follow joins a reign, with the leader's log.
func (s *server) follow(r *reign) {
	w := s.w
	for _, m := range slices.Clone(r.members) {
		if m.s == s {
			r.drop(m)
		}
	}
	m := &member{
		s: s, heard: w.now,
		up:   &pipe{w: w, from: s.id, to: r.leader.id},
		down: &pipe{w: w, from: r.leader.id, to: s.id},
	}
	s.reign, s.m, s.accepted, s.alive = r, m, r.number, w.now
	s.log = append(s.log[:0:0], r.leader.log...)
	s.applied = r.committed
	clear(s.heard)
	m.acked = len(s.log)
	r.members = append(r.members, m)
	r.commit()
	s.watch(m)
	if w.trace != nil {
		w.logf("server %d follows leader %d of reign %d", s.id, r.leader.id, r.number)
	}
}

// elect makes leaders, and lets servers join them, from time to time.
func (w *world) elect() {
	var looking []*server
	for _, s := range w.servers {
		if s.reign == nil {
			looking = append(looking, s)
		}
	}
	w.rng.Shuffle(len(looking), func(i, j int) { looking[i], looking[j] = looking[j], looking[i] })
	if len(looking) > len(w.servers)/2 {
		w.crown(looking)
	}
	for _, s := range looking {
		if s.reign != nil {
			continue
		}
		r := w.reigns[w.rng.IntN(len(w.reigns))]
		if !r.over && r.number >= s.accepted && w.open(s, r.leader) {
			s.follow(r)
		}
	}
	w.after(w.upTo(w.tick)+time.Millisecond, w.elect)
}

// crown begins a reign, if a quorum can agree on it.
func (w *world) crown(looking []*server) {
	leader := looking[0]
	newest := func(s *server) [2]int {
		if len(s.log) == 0 {
			return [2]int{}
		}
		return [2]int{s.accepted, len(s.log)}
	}
	voters := slices.DeleteFunc(slices.Clone(looking), func(s *server) bool { return !w.open(leader, s) })
	if len(voters) <= len(w.servers)/2 {
		return
	}
	for _, s := range voters {
		if a, b := newest(s), newest(leader); slices.Compare(a[:], b[:]) > 0 {
			return // another time, with the right one
		}
	}
	r := &reign{number: len(w.reigns) + 1, leader: leader, rate: w.clock(), counts: make([]count, len(w.clients)), begun: w.now}
	w.reigns = append(w.reigns, r)
	w.tally.Elections++
	if w.trace != nil {
		w.logf("server %d begins reign %d", leader.id, r.number)
	}
	leader.reign, leader.m, leader.accepted = r, nil, r.number
	for _, e := range leader.log {
		c := &r.counts[e.session]
		switch e.kind {
		case opening:
			*c = count{from: w.now, timeout: e.timeout, known: true}
			r.time(e.session)
		case expiry:
			c.closing = true
		case creation, check:
		}
	}
	for _, s := range voters[1:] {
		s.follow(r)
	}
	for n := range leader.log { // all of it is committed now
		if e := leader.log[n]; n >= leader.applied && e.kind == expiry {
			w.expired(r, e.session)
		}
	}
	leader.applied, r.committed = len(leader.log), len(leader.log)
	for _, s := range voters[1:] {
		s.applied = r.committed
	}
	r.beat()
}

// clock returns the rate of a clock.
func (w *world) clock() float64 { return 1 + (w.rng.Float64()-0.5)/50 }

// A client has one session, and holds things from time to time.
type client struct {
	w       *world
	id      int
	rate    float64
	timeout time.Duration
	greeted bool // the session was made
	lost    bool // as a server has said
	away    bool // the deadline has passed, and no connection has opened since

	lapses int           // of its lease
	lapsed time.Duration // when the last was
	proved bool          // a quorum has committed something that was sent since

	conn      *conn
	lease     Rule          // of the newest connection that was greeted
	leader    *reign        // of that connection
	greetedAt time.Duration // when that connection sent its handshake
	stake     Stake

	frugal bool          // it has no other nodes: while nothing is contended for, it needs no proof, and sends pings
	pinged time.Duration // when the newest ping was sent

	known map[int]bool // the addresses of which one has followed

	shut time.Duration // no connection begins before

	contenders [2]contender
	numbers    int
	busy       time.Duration // between requests without a purpose; 0 for none
}

// A contender wants something that excludes others.
type contender struct {
	active, granted, number int
	lapses                  int         // of the client before it began
	asks                    requestKind // what is to be sent
}

// A conn is a connection of a client to a server.
type conn struct {
	c        *client
	server   *server
	address  int
	up, down *pipe
	queue    []*request // at the server, in order
	waiting  []*request // at the client, in order
	open     bool
	closed   bool
	dead     bool          // the server has closed it
	leads    bool          // it leads, as it has said
	learned  time.Duration // when it has said so, on the client's clock; 0 before
	follows  bool          // it follows for as long as the connection lasts
	commits  bool          // the last heartbeat was a transaction
	synced   time.Duration // when the newest sync was sent that was answered
	timeout  time.Duration // as granted
	answers  int           // after so many more, then is called
	then     func()
}

// A request waits for its answer.
type request struct {
	conn    *conn
	kind    requestKind
	by      Party
	sent    time.Duration // on the client's clock
	real    time.Duration
	number  int
	lapses  int // of the client before it was sent
	ready   bool
	refused bool
	seen    bool // the node that was looked for
	zxid    int  // what the server has applied when it answers
}

type requestKind int

const (
	nothing requestKind = iota
	greet
	read
	list
	sync
	heartbeat
	create
)

func (k requestKind) String() string {
	return [...]string{"nothing", "greet", "read", "list", "sync", "heartbeat", "create"}[k]
}

func (c *client) time() time.Duration { return time.Duration(float64(c.w.now) * c.rate) }

func margin(timeout time.Duration) time.Duration {
	return min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond)
}

func (c *client) contending() bool { return c.contenders[0].active+c.contenders[1].active > 0 }
func (c *client) holding() bool    { return c.contenders[0].granted+c.contenders[1].granted > 0 }

// until returns the deadline.
func (c *client) until() time.Duration { return c.stake.Deadline(c.contending()) }

// prove counts the proofs of the newest connection.
func (c *client) prove() {
	before, lapsed := c.stake.Unproven(), c.stake.Lapsed()
	c.stake.Prove(c.time(), c.lease, c.contending(), c.greetedAt)
	if before && !c.stake.Unproven() {
		c.w.tally.Proven++
	}
	if lapsed && !c.stake.Lapsed() && c.contending() && c.until() <= c.lapsed {
		c.w.fail(Expended)
	}
}

// taking returns the rule of the connection that takes calls, or nil.
func (c *client) taking() Rule {
	if c.conn == nil || !c.conn.open {
		return nil
	}
	return c.lease
}

// rely is called when the client begins to contend for something, or, for no recipe, when its
// session has begun and has other nodes.
func (c *client) rely(recipe bool) {
	proves := c.stake.Begin(c.time(), recipe, c.taking())
	if c.stake.Unproven() {
		c.w.tally.Unproven++
	}
	if n := c.conn; proves && n != nil && n.open {
		if p := c.pacer(); p != nil {
			p.Sent(c.time(), false)
		}
		n.send(sync, ByLeader, 0)
	}
}

// ask sends what contenders ask for, as soon as the answer shows what the lease rests on.
func (c *client) ask() {
	n := c.conn
	if n == nil || !n.open {
		return
	}
	for i := range c.contenders {
		if t := &c.contenders[i]; t.asks != nothing {
			if !c.stake.Assures(c.time(), c.lease) {
				c.w.tally.Delayed++
				return
			}
			by := ByQuorum
			if t.asks == list {
				by = ByServer
			}
			n.send(t.asks, by, t.number)
			t.asks = nothing
		}
	}
}

// overdue reports whether the lease has ended. A lease on which nothing rests has no end, nor has
// one that has ended already, until a connection opens. One that is not proven there ends when that
// is lost.
func (c *client) overdue() bool {
	free := c.stake.Lapsed() && c.taking() != nil
	return c.contending() && !c.away && !free && c.time() >= c.until() && !c.w.variant.Lasting
}

// believes reports whether there is a session, and its lease does not end now.
func (c *client) believes() bool {
	if !c.greeted || c.lost {
		return false
	}
	if c.overdue() {
		c.lapse()
		return false
	}
	if !c.away && !c.contending() && c.taking() == nil && c.time() >= c.until() {
		c.away = true
		c.w.tally.Idled++
	}
	return true
}

// end counts the session as lost, as a server has said.
func (c *client) end() {
	c.lost = true
	if c.lapses > 0 {
		c.w.tally.Gone++
	}
	if c.w.trace != nil {
		c.w.logf("client %d counts its session as lost", c.id)
	}
	if c.conn != nil {
		c.conn.close()
	}
}

// lapse follows the end of the lease. What was held is lost. The session lives on, and looks for a
// server. Those that wait keep their places, and so do some of those that held.
func (c *client) lapse() {
	if c.w.trace != nil {
		c.w.logf("client %d lapses", c.id)
	}
	c.w.tally.Lapsed++
	if c.stake.Lapsed() {
		c.w.tally.LapsedAgain++
	}
	if c.holding() {
		c.w.tally.LostHolding++
		dead := time.Duration(float64(c.until()) / c.rate)
		r := c.w.reigns[len(c.w.reigns)-1]
		if n := &r.counts[c.id]; !r.over && n.known && !n.closing {
			c.w.tally.Tightest = min(c.w.tally.Tightest, r.due(c.id)-dead)
		}
	}
	c.lapses++
	c.lapsed, c.proved, c.away = c.time(), false, true
	c.stake.Lapse()
	for i := range c.contenders {
		t := &c.contenders[i]
		switch {
		case t.granted == 0 || c.w.variant.Grasping:
		case c.w.oneIn(2):
			t.granted = 0
			c.w.tally.Yielded++
		default:
			*t = contender{}
			c.rest()
		}
	}
	if c.conn != nil && c.conn.open && !c.w.variant.Clinging {
		c.conn.close()
	}
}

// judge records a failure if a session counts on itself while a leader may have expired it.
func (w *world) judge(c *client) {
	if w.failed != None || !c.believes() {
		return
	}
	if c.conn != nil && c.conn.shortens() {
		return // nothing is promised until the answer is there
	}
	newest := w.reigns[len(w.reigns)-1]
	late := func(r *reign) bool {
		return r != nil && !r.over && r.counts[c.id].known && (r.counts[c.id].closing || r.due(c.id) <= w.now)
	}
	if c.holding() && late(newest) {
		w.late(newest, c)
	}
}

// expired is called when the expiry of a session has been committed.
func (w *world) expired(r *reign, session int) {
	w.tally.Expired++
	if w.trace != nil {
		w.logf("the expiry of session %d is committed by leader %d", session, r.leader.id)
	}
	if c := w.clients[session]; c.believes() && c.holding() && (c.conn == nil || !c.conn.shortens()) {
		w.late(r, c)
		w.firm = true
	}
}

func (w *world) fail(way Failure) {
	if w.failed == None {
		w.failed, w.failedAt = way, w.now
	}
}

// late records a deadline that was too late for a leader.
func (w *world) late(r *reign, c *client) {
	way := Deposed
	if c.leader == r {
		way = Report
	}
	w.fail(way)
	if w.trace != nil {
		w.logf("client %d holds, and counts on itself until %.3f", c.id, c.until().Seconds()/c.rate)
	}
}

// dial connects to a server, if it serves.
func (c *client) dial() {
	w := c.w
	if c.lost || c.conn != nil {
		return
	}
	s := w.serving[w.rng.IntN(len(w.serving))]
	if w.variant.Asks && w.oneIn(3) {
		s = w.reigns[len(w.reigns)-1].leader
	}
	if s.reign == nil || c.shut > w.now || w.variant.Spared && s.m == nil && s.by == nil {
		w.after(w.upTo(Timeout/50), c.dial)
		return
	}
	n := &conn{c: c, server: s, address: slices.Index(w.addresses, s), up: &pipe{w: w, from: -1}, down: &pipe{w: w, from: -1}}
	n.timeout = min(max(c.timeout, s.least), s.most)
	c.conn = n
	s.conns = append(s.conns, n)
	n.send(greet, ByLeader, 0)
	n.watch()
}

// inquire asks the server at the address of the connection, on another connection, what it does. An
// answer of the connection itself to a later request confirms that it was its server that has said
// so: the two have been there all the time, and no server changes what it does before it has closed
// its connections.
func (n *conn) inquire() {
	w := n.c.w
	if n.closed {
		return
	}
	again := func() { w.after(w.upTo(Timeout/4)+time.Millisecond, n.inquire) }
	w.after(w.upTo(w.delay)*time.Duration(1+w.rng.IntN(3)), func() {
		s := w.addresses[n.address]
		if w.variant.Balanced {
			s = w.addresses[w.rng.IntN(len(w.addresses))]
		}
		if s.reign == nil {
			again()
			return
		}
		leads := s.m == nil
		w.after(w.upTo(w.delay)*time.Duration(1+w.rng.IntN(3)), func() {
			if n.closed {
				return
			}
			w.tally.Asked++
			if n.dead {
				w.tally.Late++
			}
			n.leads, n.learned = leads, n.c.time()
			if w.variant.Rash {
				n.found()
			}
		})
	})
}

// confirm takes an answer of the connection itself.
func (n *conn) confirm(q *request) {
	if n.learned != 0 && q.sent >= n.learned {
		n.found()
	}
}

// found notes what the server of the connection does.
func (n *conn) found() {
	if w := n.c.w; !n.leads && !n.follows {
		w.tally.Follows++
		n.c.known[n.address] = true
		n.share()
		if w.trace != nil {
			w.logf("client %d: server %d follows", n.c.id, n.server.id)
		}
	}
}

// share has the commits of others count.
func (n *conn) share() {
	n.follows = true
	if l, is := n.c.lease.(Learner); is {
		l.Learns(true)
	}
}

// watch closes a connection on which nothing is answered.
func (n *conn) watch() {
	patience := n.c.timeout / 3
	n.c.w.after(patience/8, func() {
		switch {
		case n.closed:
		case len(n.waiting) > 0 && n.c.w.now-n.waiting[0].real > patience:
			n.close()
		default:
			n.watch()
		}
	})
}

// shortens reports whether the leader may have agreed to a shorter timeout, which the
// client does not know yet.
func (n *conn) shortens() bool { return n.c.greeted && !n.open && n.timeout < n.c.timeout }

// hold lets messages of one direction wait.
func (n *conn) hold(p *pipe, d time.Duration) {
	if w := n.c.w; w.trace != nil {
		w.logf("client %d and server %d: replies held %v, for %v", n.c.id, n.server.id, p == n.down, d)
	}
	p.heldTo = max(p.heldTo, n.c.w.now+d)
}

// sever ends a connection on the server's side. The client notices at once, or later.
func (n *conn) sever() {
	n.server.conns = slices.DeleteFunc(n.server.conns, func(o *conn) bool { return o == n })
	if w := n.c.w; w.variant.Asks && w.oneIn(2) {
		n.dead, n.up.closed = true, true
		w.after(w.upTo(n.c.timeout/3), n.close)
		return
	}
	n.close()
}

// close ends a connection. The client notices at once, and dials again.
func (n *conn) close() {
	if n.closed {
		return
	}
	lost := len(n.waiting) > 0 && n.waiting[0].kind == greet
	excluded := lost && n.shortens()
	n.closed, n.open, n.up.closed, n.down.closed = true, false, true, true
	n.server.conns = slices.DeleteFunc(n.server.conns, func(o *conn) bool { return o == n })
	c, w := n.c, n.c.w
	if lost {
		w.tally.AnswerLost++
	}
	if excluded && !c.lost {
		w.tally.Excluded++
		c.lost = true
	}
	c.conn = nil
	if w.trace != nil {
		w.logf("client %d has no connection to server %d any more", c.id, n.server.id)
	}
	w.after(w.upTo(Timeout/50)+time.Millisecond, c.dial)
}

func (n *conn) send(kind requestKind, by Party, number int) {
	if n.closed {
		return
	}
	q := &request{conn: n, kind: kind, by: by, sent: n.c.time(), real: n.c.w.now, number: number, lapses: n.c.lapses}
	n.waiting = append(n.waiting, q)
	n.up.send(func() { n.server.receive(q) })
}

// receive executes a request, or forwards it to the leader.
func (s *server) receive(q *request) {
	n := q.conn
	n.queue = append(n.queue, q)
	session := n.c.id
	if q.kind != greet {
		s.hear(session, n.timeout)
	}
	w := s.w
	switch q.kind {
	case nothing:
	case greet:
		if !n.c.greeted {
			s.forward(func(r *reign) { r.propose(entry{kind: opening, session: session, timeout: n.timeout, request: q}) })
			return
		}
		s.forward(func(r *reign) {
			ok := r.touch(session, n.timeout)
			if ok && r != w.reigns[len(w.reigns)-1] {
				w.tally.DeposedGreeting++
			}
			s.back(r, func() {
				if ok {
					q.done()
				} else {
					q.refuse()
				}
			})
		})
	case read, list:
		q.done()
	case sync:
		s.forward(func(r *reign) {
			if r != w.reigns[len(w.reigns)-1] {
				w.tally.DeposedSync++
			}
			if s == r.leader {
				q.done() // as a read: it waits for nothing
				return
			}
			r.sync(func() { s.back(r, q.done) })
		})
	case create, heartbeat:
		kind := check
		if q.kind == create {
			kind = creation
		}
		s.forward(func(r *reign) { r.propose(entry{kind: kind, session: session, number: q.number, request: q}) })
	}
}

// done answers a request, behind the requests that came before it.
func (q *request) done() {
	n := q.conn
	q.ready = true
	for len(n.queue) > 0 && n.queue[0].ready && !n.closed {
		first := n.queue[0]
		n.queue = n.queue[1:]
		first.zxid = n.server.applied
		if first.kind == list {
			for _, e := range n.server.log[:n.server.applied] {
				first.seen = first.seen || e.kind == creation && e.session == n.c.id && e.number == first.number
			}
		}
		n.down.send(func() { n.c.answered(first) })
	}
}

func (q *request) refuse() {
	if q != nil {
		q.refused = true
		q.done()
	}
}

// answered takes an answer.
func (c *client) answered(q *request) {
	n, w := q.conn, c.w
	if c.lost || c.conn != n {
		return
	}
	n.waiting = n.waiting[1:]
	if c.greeted && !c.believes() {
		return
	}
	if n.answers--; n.answers == 0 {
		n.then()
	}
	if q.refused {
		c.end()
		return
	}
	c.proved = c.proved || q.by == ByQuorum && q.lapses == c.lapses
	if w.trace != nil {
		w.logf("client %d: server %d answers %v sent at %.3f", c.id, n.server.id, q.kind, q.real.Seconds())
	}
	if q.kind == greet {
		c.accepted(q)
	} else {
		if p := c.pacer(); p != nil && (q.by == ByQuorum || q.by == ByLeader && !c.contending()) {
			p.Keeps(q.sent)
		}
		c.lease.Answered(q.sent, c.time(), q.by)
		n.confirm(q)
		c.saw(q)
		c.prove()
	}
	if q.kind == create || q.kind == list {
		c.looked(q)
	}
	c.ask()
	w.judge(c)
}

// saw looks at the zxid of an answer.
func (c *client) saw(q *request) {
	rule, watches := c.lease.(Watcher)
	n, w := q.conn, c.w
	if !watches {
		return
	}
	grew, stale := rule.Saw(int64(q.zxid), q.kind == sync, q.sent)
	if grew {
		w.tally.Grew++
		if newest := w.reigns[len(w.reigns)-1]; c.leader != newest && n.synced > newest.begun {
			w.tally.FalseProof++
			if w.variant.Asks {
				w.fail(Mistaken)
			}
		}
	}
	if q.kind == sync {
		n.synced = q.real
	}
	if stale && c.contending() && (w.variant.Shares || n.follows) && n.open {
		n.send(heartbeat, ByQuorum, 0)
	}
}

// looked continues with a contender after the answer to a creation or a listing.
func (c *client) looked(q *request) {
	for i := range c.contenders {
		t := &c.contenders[i]
		if t.active == 0 || t.number != q.number || t.granted != 0 {
			continue
		}
		if q.kind == list && !q.seen {
			t.asks = create
			c.ask()
			continue
		}
		if q.kind == list {
			c.w.tally.Listed++
		}
		c.w.tally.Granted++
		t.granted = 1
		c.granted(q, t)
		if c.w.trace != nil {
			c.w.logf("client %d holds %d", c.id, t.number)
		}
	}
}

// granted judges a grant that rests on an answer. A node that was made since the lapse is a proof:
// it was committed. With proofs of others, a quorum may have committed nothing of this client.
func (c *client) granted(q *request, t *contender) {
	if c.lapses == 0 {
		return
	}
	c.w.tally.Regranted++
	_, shared := c.lease.(Watcher)
	switch {
	case q.lapses < c.lapses:
		c.w.fail(Stale)
	case !c.proved && !shared && t.lapses < c.lapses:
		c.w.fail(Unproved)
	}
}

// accepted opens a connection.
func (c *client) accepted(q *request) {
	n, w := q.conn, c.w
	created := !c.greeted
	c.greetedAt = q.sent
	switch {
	case created:
		c.timeout = n.timeout
		c.stake.Negotiated(c.timeout)
	case n.timeout < c.timeout || w.variant.LastTerm:
		if n.timeout != c.timeout {
			w.tally.Shortened++
		}
		// The leader may count a shorter timeout from now on, and not from earlier.
		shift := c.timeout - margin(c.timeout) - n.timeout + margin(n.timeout)
		c.stake.Shortened(shift, q.sent)
		c.timeout = n.timeout
		c.stake.Negotiated(c.timeout)
	}
	if c.lapses > 0 {
		w.tally.Resumed++
	}
	n.open, c.greeted, c.away = true, true, false
	if w.variant.Asks {
		w.after(w.upTo(Timeout/4), n.inquire)
	}
	c.leader = n.server.reign
	c.lease = w.variant.Rule(w.tick, q.sent, created)
	if w.variant.Recalls && c.known[n.address] {
		n.share()
	}
	c.stake.Opened(c.lease)
	c.prove()
	switch {
	case created && !c.frugal:
		c.rely(false)
	case w.variant.Relies && c.contending():
		c.rely(true)
	}
	for i := range c.contenders {
		if t := &c.contenders[i]; t.active == 1 && t.granted == 0 {
			t.asks = list
		}
	}
	if w.oneIn(3) { // a transaction ahead would be a proof
		c.ask()
	}
	switch {
	case c.stake.Unproven() || !w.oneIn(2):
		n.beat()
	default: // those of a fleet are spread
		w.after(w.upTo(max(min(c.timeout/9, (c.until()-c.time()-c.timeout/9)/3), 0)), n.beat)
	}
	c.ask()
}

// pacer returns the rule of the present connection if the rule paces heartbeats, and nil otherwise.
func (c *client) pacer() Pacer {
	if p, paces := c.lease.(Pacer); paces && c.w.paced {
		return p
	}
	return nil
}

// live sends heartbeats.
func (c *client) live() {
	pause := c.timeout / 9
	if c.conn != nil && c.conn.open && c.believes() {
		c.stake.Beats(c.stake.Frugal(c.time()))
		if p := c.pacer(); p != nil && !c.stake.Pings() {
			hastens := c.stake.Unproven() || c.contending() && c.until()-c.time() < c.timeout/3
			if p.Due(hastens) <= c.time() {
				c.conn.beat()
			}
			pause = min(max(p.Due(hastens)-c.time(), time.Millisecond), pause)
		} else {
			c.conn.beat()
		}
	}
	if !c.lost {
		c.w.after(time.Duration(float64(pause)/c.rate), c.live)
	}
}

// beat sends a heartbeat. While something is held, some heartbeats are transactions: every second
// heartbeat, or as the pacer decides.
func (n *conn) beat() {
	if c := n.c; c.stake.Pings() && !c.contending() {
		if now := c.time(); now-c.pinged >= c.timeout/3 {
			c.pinged = now
			c.w.tally.Pinged++
			n.send(read, ByServer, 0)
		}
		return
	}
	p := n.c.pacer()
	commits := !n.commits
	if p != nil {
		commits = p.Commits(n.c.time())
	}
	n.commits = commits && n.c.contending() && !n.c.w.variant.Shares && !n.follows
	if p != nil {
		p.Sent(n.c.time(), n.commits)
	}
	if n.commits {
		n.send(heartbeat, ByQuorum, 0)
		return
	}
	n.send(sync, ByLeader, 0)
}

// chat sends requests without a purpose.
func (c *client) chat() {
	if c.conn != nil && c.conn.open && c.believes() {
		if c.w.oneIn(8) {
			c.conn.send(heartbeat, ByQuorum, 0)
		} else {
			c.conn.send(read, ByServer, 0)
		}
	}
	if !c.lost {
		c.w.after(c.w.upTo(c.busy), c.chat)
	}
}

// rest is called when a contender has gone. With the last one, the session is idle again after a
// while.
func (c *client) rest() {
	if c.contending() {
		return
	}
	c.stake.Rest(c.time(), c.frugal)
}

// contend lets a contender come and go.
func (c *client) contend(t *contender) {
	if c.lost {
		return
	}
	w := c.w
	switch {
	case !c.believes():
	case t.active == 1:
		*t = contender{}
		c.rest()
		if w.trace != nil {
			w.logf("client %d has a contender less", c.id)
		}
	default:
		c.begin(t)
	}
	pause := w.upTo(Timeout / 4)
	if t.active == 1 {
		pause = w.upTo(4 * Timeout)
	}
	w.after(pause, func() { c.contend(t) })
}

// write lets another client write, through any leader.
func (w *world) write(pace time.Duration) {
	r := w.reigns[len(w.reigns)-1-w.rng.IntN(min(2, len(w.reigns)))]
	r.propose(entry{kind: check})
	w.after(w.upTo(2*pace)+time.Millisecond, func() { w.write(pace) })
}

// begin makes a contender send its request.
func (c *client) begin(t *contender) {
	w := c.w
	if !c.contending() {
		c.rely(true)
	}
	c.numbers++
	*t = contender{active: 1, number: c.numbers, lapses: c.lapses}
	if w.trace != nil {
		w.logf("client %d has a contender more, %d", c.id, c.numbers)
	}
	if n := c.conn; n != nil && n.open {
		number := t.number
		w.after(w.upTo(w.delay)*time.Duration(w.rng.IntN(3)), func() {
			if t.active == 1 && t.number == number && t.granted == 0 && c.conn == n && n.open {
				t.asks = create
				c.ask()
			}
		})
	}
}

// strike lets a fault happen.
func (w *world) strike(f fault) {
	a := w.servers[f.x%len(w.servers)]
	b := w.servers[(f.x+1+f.x/8%max(len(w.servers)-1, 1))%len(w.servers)]
	c := w.clients[f.x/64%len(w.clients)]
	hold := func(from, to int, d time.Duration) {
		if w.trace != nil {
			w.logf("server %d to server %d: held for %v", from, to, d)
		}
		w.held[[2]int{from, to}] = max(w.held[[2]int{from, to}], w.now+d)
	}
	if w.variant.Asks && w.oneIn(2) {
		f.kind = lateAcks // which is what deceives a session that shares
	}
	switch f.kind {
	case holdLink:
		if a.m != nil && w.oneIn(2) {
			b = a.reign.leader
		}
		if w.oneIn(2) {
			a, b = b, a
		}
		hold(a.id, b.id, f.lasts)
	case ambush:
		n := c.conn
		if n == nil || n.server.m == nil && n.server.by == nil {
			return
		}
		c.shut = w.now + w.upTo(3*Timeout)
		follower, leader, short := n.server.id, n.server.reign.leader.id, f.lasts/8
		if by := n.server.by; by != nil && w.oneIn(2) {
			leader = by.master.id // only the hop between them
		} else if by != nil {
			follower = by.master.id
		}
		switch w.rng.IntN(4) {
		case 0:
			n.hold(n.up, short)
		case 1:
			n.hold(n.down, short)
		default:
			hold(leader, follower, short)
		}
		if c.stake.Pings() && w.oneIn(2) {
			w.after(w.upTo(short), func() {
				if c.stake.Pings() && !c.contending() && c.believes() {
					c.begin(&c.contenders[0])
				}
			})
		}
		cut := func() { hold(follower, leader, 2*Timeout) }
		switch w.rng.IntN(3) {
		case 0:
			w.after(w.upTo(short), cut)
		case 1:
			w.after(short+w.upTo(w.tick/2), cut)
		default:
			w.after(max(short-w.delay, 0), func() { n.answers, n.then = 1+w.rng.IntN(6), cut })
		}
	case desert:
		r := w.reigns[len(w.reigns)-1]
		if r.over {
			return
		}
		if w.oneIn(2) {
			c.shut = w.now + w.upTo(3*Timeout)
		}
		leave := len(r.members) - w.rng.IntN(2)
		for _, m := range slices.Clone(r.members[:max(leave, 0)]) {
			if m.s.m != m {
				continue
			}
			if w.trace != nil {
				w.logf("server %d leaves leader %d, which does not notice", m.s.id, r.leader.id)
			}
			m.s.leave()
			hold(m.s.id, r.leader.id, f.lasts)
			hold(r.leader.id, m.s.id, f.lasts)
		}
	case restart:
		if a.reign != nil {
			if w.trace != nil {
				w.logf("server %d begins anew", a.id)
			}
			a.leave()
		}
	case move:
		if !w.variant.Asks {
			return
		}
		if b.reign != nil {
			b.leave()
		}
		w.move(a, b)
	case breakClient:
		if c.conn != nil {
			c.conn.close()
		}
	case holdRequests:
		if c.conn != nil {
			c.conn.hold(c.conn.up, f.lasts/4)
		}
	case holdReplies:
		if c.conn != nil {
			c.conn.hold(c.conn.down, f.lasts/4)
		}
	case lateAcks:
		w.delayAcks(c, hold)
	case faultKinds:
	}
}

// delayAcks holds up the messages of followers to the newest leader, makes a proposal, and then
// makes the followers leave: their acknowledgements arrive when a later reign may have begun.
func (w *world) delayAcks(c *client, hold func(from, to int, d time.Duration)) {
	r := w.reigns[len(w.reigns)-1]
	if r.over {
		return
	}
	leaving := slices.Clone(r.members[:max(len(r.members)-w.rng.IntN(2), 0)])
	lasts := w.tick/2 + w.upTo(w.patience)
	for _, o := range w.clients {
		if o.conn != nil && o.conn.server == r.leader {
			c = o
		}
	}
	c.shut = w.now + Timeout + w.upTo(3*Timeout)
	for _, m := range leaving {
		hold(m.s.id, r.leader.id, lasts)
	}
	for range 3 {
		w.after(w.upTo(w.delay), func() { r.propose(entry{kind: check}) })
	}
	if n := c.conn; w.variant.Asks && n != nil && n.server == r.leader { // it is replaced, with answers on their way
		begins, ends := max(lasts-w.upTo(Timeout/5), 0), lasts+4*w.delay+w.upTo(Timeout/20)
		ask := func(after time.Duration, kind requestKind, by Party) {
			w.after(after, func() {
				if n.open && !n.dead && c.believes() {
					n.send(kind, by, 0)
				}
			})
		}
		ask(max(lasts-w.upTo(w.tick/2), 0), sync, ByLeader)
		ask(lasts+w.upTo(4*w.delay), read, ByServer)
		w.after(begins, func() { n.hold(n.down, ends-begins+10*w.delay) })
		w.after(ends, func() {
			if f := w.addresses[w.rng.IntN(len(w.addresses))]; !r.over && f.m != nil {
				w.move(r.leader, f)
				n.inquire()
			}
		})
	}
	w.after(2*w.delay+w.upTo(w.tick/4), func() {
		for _, m := range leaving {
			if m.s.m != m || r.over {
				continue
			}
			if w.trace != nil {
				w.logf("server %d leaves leader %d, which does not notice; what it has sent is on its way", m.s.id, r.leader.id)
			}
			m.s.leave()
			hold(r.leader.id, m.s.id, lasts)
		}
	})
}

// move has a server begin anew, and lets it and another have each other's addresses.
func (w *world) move(a, b *server) {
	if w.trace != nil {
		w.logf("server %d begins anew, at the address of server %d", a.id, b.id)
	}
	w.tally.Moved++
	if a.reign != nil {
		a.leave()
	}
	i, j := slices.Index(w.addresses, a), slices.Index(w.addresses, b)
	w.addresses[i], w.addresses[j] = b, a
}

// A schedule is the sequence of a seed, less the parts that were left out.
type schedule struct {
	seed   uint64
	faults []fault
}

func newSchedule(seed uint64) schedule {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := schedule{seed: seed}
	at, pace := time.Duration(0), Timeout/time.Duration(2+rng.IntN(20))
	for range 2 + rng.IntN(8) {
		at += time.Duration(rng.Int64N(int64(pace)))
		if rng.IntN(8) == 0 {
			at += time.Duration(rng.Int64N(int64(Timeout)))
		}
		s.faults = append(s.faults, fault{
			at: at, kind: faultKind(rng.IntN(int(faultKinds))), x: rng.IntN(1 << 16),
			lasts: Timeout * time.Duration(1+rng.IntN(40)) / time.Duration(20+rng.IntN(2)*180),
		})
	}
	return s
}

// run plays a schedule. It returns the world, in which a deadline was too late, or none was.
func (s schedule) run(v Variant, tally *Tally, trace *strings.Builder) *world {
	rng := rand.New(rand.NewPCG(s.seed, 2))
	w := &world{variant: v, rng: rng, tally: tally, trace: trace, held: make(map[[2]int]time.Duration)}
	pick := func(of ...time.Duration) time.Duration { return of[rng.IntN(len(of))] }
	w.tick = pick(Timeout/2, Timeout/3, Timeout/6, Timeout/12)
	if s.seed%8 == 7 { // servers that allow sessions of less than two ticks
		w.tick = Timeout
	}
	w.patience = max(2*w.tick, pick(Timeout/2, Timeout, 2*Timeout))
	w.delay = pick(2*time.Millisecond, 20*time.Millisecond, 200*time.Millisecond)
	w.eager, w.paced = w.oneIn(2), w.oneIn(2)
	unequal := w.oneIn(4)
	voters := 3 + 2*rng.IntN(2)
	if v.Alone {
		voters = 1
	}
	for id := range voters {
		most := Timeout
		if unequal {
			most = pick(Timeout, Timeout*2/3, Timeout/3)
		}
		n := &server{w: w, id: id, most: most}
		if unequal && w.oneIn(2) {
			n.least = most
		}
		w.servers = append(w.servers, n)
	}
	for id := range 1 + rng.IntN(2) {
		c := &client{w: w, id: id, rate: w.clock(), timeout: Timeout, busy: pick(0, 0, Timeout/10, Timeout/40), frugal: w.oneIn(2), known: make(map[int]bool)}
		c.stake = v.Stake(w.tick)
		w.clients = append(w.clients, c)
		w.after(w.upTo(w.tick), c.dial)
		w.after(w.upTo(w.tick), c.live)
		if c.busy > 0 {
			w.after(c.busy, c.chat)
		}
		for i := range c.contenders {
			w.after(w.upTo(Timeout)*time.Duration(1+3*i), func() { c.contend(&c.contenders[i]) })
		}
	}
	for _, n := range w.servers {
		n.heard = make([]time.Duration, len(w.clients))
	}
	w.serving, w.addresses = w.servers, slices.Clone(w.servers)
	w.crown(w.servers)
	w.after(w.tick, w.elect)
	if pace := pick(0, Timeout/10, Timeout/40, Timeout/200); pace > 0 {
		w.after(pace, func() { w.write(pace) })
	}
	if v.Observed {
		w.serving = nil // what observers do is in question
		for id := range 2 {
			o := &server{w: w, id: len(w.servers) + id, most: w.servers[id].most, least: w.servers[id].least, heard: make([]time.Duration, len(w.clients))}
			w.serving = append(w.serving, o)
			o.attach()
		}
	}
	for _, f := range s.faults {
		w.after(2*w.tick+f.at, func() { w.strike(f) })
	}
	end := 2*w.tick + 2*Timeout + s.faults[len(s.faults)-1].at
	for w.now < end && !w.firm && (w.failed == None || w.now < w.failedAt+Timeout) && slices.ContainsFunc(w.clients, func(c *client) bool { return !c.lost }) {
		w.step()
	}
	return w
}
