package zkmodel

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// pause is the time between two tries of a request that a server refuses.
const pause = 20 * time.Millisecond

// Timeout is the timeout of all sessions.
const Timeout = 10 * time.Second

type linkState int8

const (
	up   linkState = iota
	cut            // and the client does not know
	down           // and it does
)

// A Session is one client.
type Session struct {
	client.Warmth

	w     *World
	n     int
	state linkState
	epoch int // 0 between two sessions
	count int // of epochs
	id    int64

	lapsed  bool // its lease has ended; cleared when it is connected
	lease   int64
	killed  bool // the server has expired it, and the client does not know
	closed  bool
	crashed bool

	// The newest zxid that it may have seen in earlier epochs; 0 in a world without restores.
	seen int64

	past  int64 // likewise, when the present epoch began
	fresh bool  // it knows nothing from before the newest restore

	// The newest zxid that the present epoch had seen at the newest relapse that it has outlived;
	// else 0.
	floor int64

	out  []*request // sent, or to be sent at once
	lost []*request // executed, and the reply lost
	held []*request // to be sent after the reconnect

	entries []*entry
	tells   []*subscriber
	locals  map[any]any
	told    uint64 // hash of the answers to its actors, in order; 0 without [World.Serial]

	lagging bool // its server does not follow
	stale   tree // the tree that its server shows then
	missed  []txn
}

type subscriber struct {
	tell func(session.Event) <-chan struct{}
	act  *activity
}

// ID returns the ID of the present session on the server; 0 between two sessions.
func (s *Session) ID() int64 { return s.id }

// Epoch returns the present epoch; 0 between two sessions, and after the end.
func (s *Session) Epoch() int { return s.epoch }

// Idle reports whether it is connected, with nothing under way.
func (s *Session) Idle() bool {
	return s.crashed || s.closed || s.epoch != 0 && s.state == up && !s.lagging && len(s.out)+len(s.held) == 0
}

// Sees reports whether its server shows a node.
func (s *Session) Sees(path string) bool {
	_, ok := s.view().index(path)
	return ok
}

// Killed reports whether the server has expired it, and the client does not know.
func (s *Session) Killed() bool { return s.killed }

// Fresh reports whether its client knows nothing from before the newest restore.
func (s *Session) Fresh() bool { return s.fresh }

// Online reports whether its client and its server talk to each other.
func (s *Session) Online() bool { return !s.crashed && !s.killed && s.epoch != 0 && s.state == up }

// Crashed reports whether its client has crashed.
func (s *Session) Crashed() bool { return s.crashed }

func (s *Session) view() tree {
	if s.lagging {
		return s.stale
	}
	return s.w.tree
}

// --- client.Session

// Async implements [client.Session].
func (s *Session) Async(epoch int) client.Async { return requests{s: s, epoch: epoch} }

// Sharing implements [client.Session]. No caller can tell whether others share its transactions.
func (s *Session) Sharing(epoch int) client.Async { return s.Async(epoch) }

// Subscribe implements [client.Session].
func (s *Session) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	sub := &subscriber{tell, s.w.now}
	s.tells = append(s.tells, sub)
	switch {
	case s.closed:
		s.w.later(func() { s.w.within(sub.act, "closed", func() { sub.tell(session.Closed{}) }) })
	case s.epoch > 0:
		s.w.later(func() { s.w.within(sub.act, "connected", func() { sub.tell(s.connected()) }) })
	}
	return func() { s.tells = slices.DeleteFunc(s.tells, func(o *subscriber) bool { return o == sub }) }
}

// Local implements [client.Session].
func (s *Session) Local(key any, create func() any) any {
	if v, ok := s.locals[key]; ok {
		return v
	}
	if s.locals == nil {
		s.locals = map[any]any{}
	}
	s.locals[key] = create()
	return s.locals[key]
}

// Explain implements [client.Session].
func (s *Session) Explain(err error) error { return err }

// Fits implements [client.Session].
func (*Session) Fits(...session.Op) error { return nil }

// Room implements [client.Session]: there is always enough.
func (*Session) Room(...session.Op) int { return 1 << 20 }

// Lease implements [client.Session].
func (s *Session) Lease() int64 { return s.lease }

// Rely implements [client.Session].
func (*Session) Rely(int32) {}

// Hold implements [client.Session].
func (*Session) Hold(int32) {}

// Logger implements [client.Session].
func (*Session) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Observer implements [client.Session].
func (*Session) Observer() session.Observer { return session.NopObserver{} }

// Observed implements [client.Session].
func (*Session) Observed() bool { return false }

// Age implements [client.Session].
func (s *Session) Age() time.Duration { return s.w.clock }

// Deadline implements [client.Session].
func (s *Session) Deadline(after time.Duration) time.Time {
	return time.Unix(0, 0).Add(s.w.clock + after)
}

// --- requests

type kind int8

const (
	readData kind = iota
	readStat
	readChildren
	sync
	write
)

// A request is on its way, or waits to be sent.
type request struct {
	kind   kind
	path   string // that is read
	ops    []op   // that are done
	single bool   // it is no transaction
	prefix string // of a janitor's list: what it looks for
	entry  *entry // of a watch that it plants
	act    *activity
	answer func(result)
}

type result struct {
	err     error
	zxid    int64
	data    []byte
	stat    *session.Stat
	names   []string
	results []session.OpResult
}

type requests struct {
	s         *Session
	epoch     int
	lease     int64 // under which they may be done; or 0
	cancelled *bool // of a removal; or nil
}

// refusal returns the error with which every request fails; nil if requests are possible. Requests
// of no epoch wait for the next one.
func (a requests) refusal() error {
	switch {
	case a.s.closed:
		return session.ErrClosed
	case a.epoch != 0 && a.epoch != a.s.epoch:
		return session.ErrExpired
	case a.lease != 0 && a.lease != a.s.lease:
		return session.ErrLapsed
	}
	return nil
}

func (a requests) ask(r *request) {
	if c, answer := a.cancelled, r.answer; c != nil {
		if *c {
			return
		}
		r.answer = func(r result) {
			if !*c {
				answer(r)
			}
		}
	}
	r.act = a.s.w.now
	if err := a.refusal(); err != nil {
		a.s.w.later(func() { a.s.w.deliver(r, result{err: err}) })
		return
	}
	a.s.submit(r)
}

func (s *Session) submit(r *request) {
	if s.state == down {
		s.held = append(s.held, r)
	} else {
		s.out = append(s.out, r)
	}
}

func (a requests) one(o op, answer func(session.OpResult, error)) {
	a.ask(&request{kind: write, ops: []op{o}, single: true, answer: func(r result) {
		if r.err != nil {
			answer(session.OpResult{}, r.err)
			return
		}
		answer(r.results[0], nil)
	}})
}

// Create implements [client.Async].
func (a requests) Create(path string, data []byte, mode session.CreateMode, answer func(node string, err error)) {
	a.one(op{kind: opCreate, path: path, data: string(data), mode: mode}, func(r session.OpResult, err error) { answer(r.Path, err) })
}

// Delete implements [client.Async].
func (a requests) Delete(path string, version int32, answer func(error)) {
	a.one(op{kind: opDelete, path: path, version: version}, func(_ session.OpResult, err error) { answer(err) })
}

// Set implements [client.Async].
func (a requests) Set(path string, data []byte, version int32, answer func(*session.Stat, error)) {
	a.one(op{kind: opSet, path: path, data: string(data), version: version}, func(r session.OpResult, err error) { answer(r.Stat, err) })
}

// Multi implements [client.Async].
func (a requests) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	a.ask(&request{kind: write, ops: opsOf(ops), answer: func(r result) { answer(r.results, r.err) }})
}

// Share implements [client.Async].
func (a requests) Share(ops []session.Op, answer func([]session.OpResult, error)) {
	a.Multi(ops, answer)
}

// Get implements [client.Async].
func (a requests) Get(path string, answer func(data []byte, stat *session.Stat, err error)) {
	a.ask(&request{kind: readData, path: path, answer: func(r result) { answer(r.data, r.stat, r.err) }})
}

// Exists implements [client.Async].
func (a requests) Exists(path string, answer func(*session.Stat, error)) {
	a.ask(&request{kind: readStat, path: path, answer: func(r result) {
		if is(r.err, session.ErrNoNode) {
			r.err = nil
		}
		answer(r.stat, r.err)
	}})
}

// Children implements [client.Async].
func (a requests) Children(path string, answer func(names []string, stat *session.Stat, err error)) {
	a.ask(&request{kind: readChildren, path: path, answer: func(r result) { answer(r.names, r.stat, r.err) }})
}

// Sync implements [client.Async].
func (a requests) Sync(path string, answer func(error)) {
	a.ask(&request{kind: sync, path: path, answer: func(r result) { answer(r.err) }})
}

// EnsurePath implements [client.Async].
func (a requests) EnsurePath(path string, answer func(made bool, err error)) {
	a.Create(path, nil, session.Container, func(_ string, err error) {
		switch {
		case err == nil:
			answer(true, nil)
		case is(err, session.ErrNodeExists):
			answer(false, nil)
		case is(err, session.ErrNoNode):
			dir, _ := znode.Split(path)
			a.EnsurePath(dir, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				a.EnsurePath(path, answer)
			})
		case is(err, session.ErrDisconnected):
			a.EnsurePath(path, answer)
		default:
			answer(false, err)
		}
	})
}

func (a requests) over(err error) bool {
	return is(err, session.ErrClosed) || a.epoch != 0 && is(err, session.ErrExpired) && !is(err, session.ErrDisconnected)
}

// Left implements [client.Async]: the model has containers.
func (requests) Left(string) {}

// Withdraw implements [client.Async].
func (a requests) Withdraw(path string, answer func(error)) {
	a.Remove(session.Removal{Path: path}, answer)
}

// WithdrawAll implements [client.Async].
func (a requests) WithdrawAll(dir, prefix string, answer func(error)) {
	a.Remove(session.Removal{Path: dir, Prefix: prefix}, answer)
}

// After implements [client.Async].
func (a requests) After(d time.Duration, f func()) (stop func()) { return a.s.After(d, f) }

// After implements [client.Session].
func (s *Session) After(d time.Duration, f func()) (stop func()) {
	w := s.w
	t := &timer{due: w.clock + d, f: f, act: w.now, s: s}
	w.timers = append(w.timers, t)
	return func() { w.timers = slices.DeleteFunc(w.timers, func(o *timer) bool { return o == t }) }
}

// --- what the server and the connection do

// The errors of a node that is gone, and of a write that may have been executed.
var (
	errNoSuchNode = &session.OpError{Op: "watch", Path: "/", Err: session.ErrNoNode}
	errUnknown    = errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
)

func is(err error, any ...error) bool {
	return err != nil && slices.ContainsFunc(any, func(target error) bool { return errors.Is(err, target) })
}

// serve executes the first request.
func (s *Session) serve() {
	r := s.out[0]
	s.out = s.out[1:]
	for i := range s.w.lates {
		l := &s.w.lates[i]
		l.overtaken = l.overtaken || s.w.Prompt != nil && l.id == s.id
	}
	switch {
	case s.state == up:
		s.w.deliver(r, s.execute(r))
	case r.kind == write && !s.killed:
		s.w.transact(r, s.id, s)
		fallthrough
	default:
		s.lost = append(s.lost, r)
	}
}

// execute executes a request whose reply arrives.
func (s *Session) execute(r *request) (res result) {
	switch r.kind {
	case write:
		return s.w.transact(r, s.id, s)
	case sync:
		s.catchUp()
		return result{}
	case readData, readStat, readChildren:
	}
	if r.prefix != "" {
		s.catchUp() // it was connected when the creation was requested
		s.w.settleLate(s.id, r)
	}
	t := s.view()
	res.zxid = s.w.zxid
	i, ok := t.index(r.path)
	if !ok {
		res.err = session.ErrNoNode
		return res
	}
	res.stat = t.stat(i)
	switch r.kind { //nolint:exhaustive // the others are above
	case readData:
		res.data = []byte(t[i].Data)
	case readChildren:
		res.names = t.children(r.path)
	}
	return res
}

// catchUp lets the session's server follow, and report the changes.
func (s *Session) catchUp() {
	for s.lagging {
		if len(s.missed) == 0 {
			s.lagging, s.stale = false, nil
			return
		}
		t := s.missed[0]
		s.stale, s.missed = t.tree, s.missed[1:]
		s.hear(t.changes)
	}
}

// hear receives a transaction.
func (s *Session) hear(changes []change) {
	if s.state != up || s.epoch <= 0 {
		return
	}
	for _, c := range changes {
		s.notified(c)
	}
}

func (s *Session) tell(ev session.Event) {
	for _, sub := range slices.Clone(s.tells) {
		s.w.within(sub.act, ev.String(), func() { sub.tell(ev) })
	}
}

// see notes that a session ends, which may have seen all transactions so far.
func (s *Session) see() {
	if s.w.backup != nil && !s.killed {
		s.seen = max(s.seen, s.w.zxid)
	}
}

func (s *Session) connected() session.Connected {
	return session.Connected{ID: s.id, Epoch: s.epoch, Timeout: Timeout, Past: s.past}
}

func (s *Session) connect() {
	s.w.ids++
	s.w.owners = append(s.w.owners, s.n)
	s.count++
	s.lease++
	s.past = s.seen
	s.epoch, s.id, s.state, s.lapsed, s.killed, s.floor = s.count, s.w.ids, up, false, false, 0
	s.out, s.held = append(s.out, s.held...), nil
	s.tell(s.connected())
}

// notice lets the client learn that its connection is gone.
func (s *Session) notice(first bool, fate int) {
	s.state = down
	suspended := session.Suspended{Deadline: time.Unix(0, 0).Add(s.w.clock + Timeout)}
	if first {
		s.tell(suspended)
	}
	lost, out := s.lost, s.out
	s.lost, s.out = nil, nil
	for i, r := range slices.Concat(lost, out) {
		err := session.ErrDisconnected
		if r.kind == write {
			sent := i < len(lost)
			if sent || fate != neverSent {
				err = errUnknown
			}
			if !sent && fate == doneLate && s.w.Left.Lates > 0 && !s.killed {
				s.w.Left.Lates--
				s.w.lates = append(s.w.lates, late{s.id, false, r})
			}
		}
		s.w.deliver(r, result{err: err})
	}
	if !first {
		s.tell(suspended)
	}
}

// lapse ends the lease. The requests that wait fail.
func (s *Session) lapse() {
	s.lapsed = true
	s.lease++
	waiting := s.held
	s.held = nil
	s.tell(session.Lapsed{})
	for _, r := range waiting {
		s.w.deliver(r, result{err: session.ErrLapsed})
	}
}

// The fates of the writes on their way when a connection breaks.
const (
	unknownFate = iota // not executed, and no actor knows
	neverSent          // not executed, and the client knows
	doneLate
	fates
)

func (s *Session) reconnect() {
	if s.killed {
		s.finish(false, session.ErrExpired)
		return
	}
	s.state, s.lapsed, s.lagging, s.stale, s.missed = up, false, false, nil, nil
	s.w.zxid = max(s.w.zxid, s.floor)
	s.tell(session.Resumed{})
	s.restore()
	plants := func(r *request) bool { return r.entry != nil }
	if !s.w.Weak {
		reads := slices.DeleteFunc(slices.Clone(s.held), func(r *request) bool { return !plants(r) })
		s.out = append(s.out, reads...)
		s.held = slices.DeleteFunc(s.held, plants)
	}
	s.out, s.held = append(s.out, s.held...), nil
}

// finish ends the session on the client's side. The server finds out later.
func (s *Session) finish(first bool, why error) {
	ev := session.Event(session.Expired{ID: s.id, Epoch: s.epoch})
	if is(why, session.ErrClosed) {
		ev = session.Closed{}
	}
	s.w.bereave(s)
	s.see()
	sent, pending, entries := len(s.lost)+len(s.out), slices.Concat(s.lost, s.out, s.held), s.entries
	s.lost, s.out, s.held, s.entries = nil, nil, nil, nil
	s.epoch, s.id, s.state, s.lapsed = 0, 0, down, false
	s.closed = is(why, session.ErrClosed)
	s.lagging, s.stale, s.missed = false, nil, nil
	if first {
		s.tell(ev)
	}
	for _, e := range entries {
		e.armed, e.dead = false, true
		for _, sub := range e.subs {
			sub.end(session.Reading{}, why)
		}
	}
	for i, r := range pending {
		switch {
		case r.entry != nil:
		case r.kind == write && i < sent:
			s.w.deliver(r, result{err: errors.Join(session.ErrUnknownOutcome, why)})
		default:
			s.w.deliver(r, result{err: why})
		}
	}
	if !first {
		s.tell(ev)
	}
}
