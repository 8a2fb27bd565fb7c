package inspect

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// A Watcher surveys a path after each change. Create it with [Watch]. It is safe for
// concurrent use, and must be closed.
type Watcher struct {
	path   string
	actor  *actors.Actor[input, *Survey]
	reason client.Reason // set once the surveyor is over for a reason
}

// Watch surveys path, and again after each change, whether or not there is a node.
// Changes that come together lead to one survey, see [Options.Pause].
//
// If opts is nil, the default options are used. An argument that is refused is named by
// the error. A later failure ends the watcher, and [Watcher.Err] returns it.
func Watch(s *session.Session, path string, opts *Options) (*Watcher, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	w := &Watcher{path: path}
	p := &performer{session: s, subs: make(map[key]*session.Subscription)}
	m := &surveyor{path: path, opts: o, known: make(map[key]*known), parts: parts{of: make(map[string]*part)}}
	w.actor = actors.Start(m, actors.Role[*surveyor, input, effect, *Survey]{
		Name:    "inspect " + path,
		Begin:   []effect{wait{}},
		Perform: p.perform,
		Observe: w.observe,
		Stop:    leave{},
		Merge:   func(_, next *Survey) (*Survey, bool) { return next, true },
	})
	return w, nil
}

// Surveys returns the channel of surveys, which is always the same one. A slow reader receives the
// newest survey, not every survey. Two in a row differ in more than [Survey.Taken]. Surveys must
// not be modified.
//
// The channel is closed after the last survey: receive with "survey, ok := <-surveys",
// because a select over a closed channel spins.
func (w *Watcher) Surveys() <-chan *Survey { return w.actor.Events() }

// Done returns a channel that is closed when the watcher has ended.
func (w *Watcher) Done() <-chan struct{} { return w.actor.Ended() }

// Err returns why the watcher has ended: [session.ErrClosed]. It returns nil before that, and after
// Close.
func (w *Watcher) Err() error { return w.reason.Err() }

// Close stops the watcher. It may be called any number of times.
func (w *Watcher) Close() { w.actor.Close() }

// observe keeps the result of Err up to date with the machine.
func (w *Watcher) observe(m *surveyor, _ []*Survey) {
	if m.over && m.err != nil {
		w.reason.Set(fmt.Errorf("inspect %s: %w", w.path, m.err))
	}
}

// An input is an event that the machine reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	leave struct{} // commanded
	due   struct { // answers the wait with the timer and the number
		timer
		number int
	}
	told struct { // answers read: once; if the node is watched, also after each change
		key
		serial int  // of the read
		over   bool // set if the node is not watched any more
		*found
	}
)

func (leave) input() {}
func (due) input()   {}
func (told) input()  {}

// An effect asks the performer for one thing.
//
//sumtype:decl
type effect interface{ effect() }

type (
	wait struct { // set a timer; replaces an earlier one
		timer
		pause  time.Duration
		number int
	}
	read struct { // answered by told
		key
		serial int
		watch  bool // read it again after each change
		root   bool // the node may be missing
	}
	forget struct{ key } // end a watch
	finish struct{}      // end all watches, and the timers
)

func (wait) effect()   {}
func (read) effect()   {}
func (forget) effect() {}
func (finish) effect() {}

// A timer is one of the two that a surveyor sets.
type timer int8

const (
	toSurvey timer = iota // when changes have been gathered
	toPoll                // nodes that are not watched
)

// A known is the state of one aspect of a node that surveys depend on.
type known struct {
	*found // the newest answer that counts; nil before the first

	care    care // set by the read: how closely the recogniser needs to follow it
	serial  int  // of the newest read
	reading bool // set when a read begins, cleared by its answer
	watched bool // set with a read that watches, cleared when the watch ends; while set, found is the newest state
	stale   bool // set when found may be old, cleared by an answer; while set, a survey that needs it reads it again
}

// A phase is the input that a surveyor waits for:
//
//	resting ── a change ► pausing ── due ► gathering ── nothing is missing ► resting
//	   │                                      ▲  │ a survey needs more nodes: they are read
//	   └─ due, to poll unwatched nodes ───────┘  └─────────────► gathering
type phase int8

const (
	resting   phase = iota // until a change, or the time to poll
	pausing                // for the time to survey, while more changes come
	gathering              // for the answers to reads
)

// refresh is the interval at which nodes are polled that cannot be watched.
const refresh = 5 * time.Second

// A surveyor is the machine of a [Watcher]. A survey proceeds in rounds of reads, until
// the recogniser misses nothing. Unlike other machines it is modified by its steps: it is
// as large as the tree that it watches.
type surveyor struct {
	path string  // constant
	opts Options // constant

	known   map[key]*known // everything that the newest survey depends on
	parts   parts          // the recipes of the newest survey
	watches int            // the number of known that are watched; at most Options.MaxWatched
	serial  int            // numbers the reads

	phase  phase
	waits  [2]int // by timer: the number of its newest wait, which alone counts
	polls  bool   // set with a wait to poll, cleared when that is due: it then runs
	queue  []read // reads of this survey that are not sent, as the window is full
	open   int    // the number of reads of this survey without an answer
	names  int    // in long lists that were read; counted since the last survey began
	again  bool   // set by a change, or when it is time to poll; cleared when a survey begins
	failed bool   // set when a read of this survey failed for a reason that passes, cleared when a survey begins
	anew   bool   // set when a session has ended, cleared when a survey begins: an unchanged node may be another then

	last *Survey // the newest that was emitted; nil before the first
	over bool    // set by leave, or when the session is closed; then every input is ignored
	err  error   // set with over: why; nil after leave
}

// effects accumulates the effects of one step.
type effects = actors.Effects[effect, *Survey]

// Ended implements [actors.Machine]. Answers mean nothing then.
func (m *surveyor) Ended() bool { return m.over }

// Step implements [actors.Machine]. Reads of a survey that is under way go on, whatever
// changes meanwhile.
func (m *surveyor) Step(in input, out *effects) *surveyor {
	if m.over {
		return m
	}
	switch in := in.(type) {
	case leave:
		m.end(nil, out)
	case due:
		m.due(in, out)
	case told:
		m.told(in, out)
	}
	return m
}

// end stops the surveyor, and the performer's reads and watches.
func (m *surveyor) end(err error, out *effects) {
	m.over, m.err = true, err
	out.Do = append(out.Do, finish{})
}

// wait sets a timer.
func (m *surveyor) wait(t timer, d time.Duration, out *effects) {
	m.waits[t]++
	out.Do = append(out.Do, wait{t, d, m.waits[t]})
}

// due begins a survey, unless the wait was replaced by another.
func (m *surveyor) due(in due, out *effects) {
	switch {
	case in.number != m.waits[in.timer]:
		return
	case in.timer == toPoll:
		m.polls = false
		for _, k := range m.known {
			k.stale = k.stale || k.polled()
		}
		if m.again = true; m.phase != resting {
			return // the next survey follows
		}
	}
	m.begin(out)
}

// polled reports whether a node that is not watched may have changed.
func (k *known) polled() bool {
	return k.found != nil && !k.watched && (k.care != forever || k.err != nil)
}

// pause gathers changes, for longer if there is more to survey, or if the last survey has read long
// lists.
func (m *surveyor) pause(out *effects) {
	m.phase = pausing
	m.wait(toSurvey, m.opts.Pause+time.Duration(m.names)*50*time.Microsecond+time.Duration(len(m.known))*5*time.Microsecond, out)
}

// manyNames is the number of children that a watched node may have. A longer list is read for each
// survey only, not after each change.
const manyNames = 64

// told enters an answer. The answer to a read of the survey lets it proceed; any other is
// a change.
func (m *surveyor) told(in told, out *effects) {
	k := m.known[in.key]
	if k == nil || k.serial != in.serial { // forgotten, or read again since
		return
	}
	if errors.Is(in.err, session.ErrClosed) {
		m.end(in.err, out)
		return
	}
	answered := k.reading
	k.reading = false
	if in.over {
		m.forget(in.key, out)
	}
	// Such an error says nothing about the node. Any other is part of the survey.
	if session.Passing(in.err) || client.Over(in.err) {
		k.stale = true
		m.failed = m.failed || answered // then it is read again, after a pause
		m.anew = m.anew || errors.Is(in.err, session.ErrExpired)
	} else {
		k.found, k.stale = in.found, in.over && !answered // the node was deleted, and may stand again
		m.listed(in)
	}
	if answered {
		m.open--
		m.proceed(out)
		return
	}
	// Each change of a long list would be read as a whole.
	if k.watched && len(in.names) > manyNames {
		m.forget(in.key, out)
		k.stale = true
	}
	if m.again = true; m.phase == resting {
		m.pause(out)
	}
}

// listed follows a list that was read. Children that are polled may be others of the same names.
func (m *surveyor) listed(in told) {
	if len(in.names) > manyNames {
		m.names += len(in.names)
	}
	for _, name := range in.names {
		if k := m.known[key{znode.Join(in.path, name), session.AspectData}]; k != nil && k.care == polled {
			k.stale = true
		}
	}
}

// forget ends the watch on a node, if there is one.
func (m *surveyor) forget(of key, out *effects) {
	if k := m.known[of]; k.watched {
		k.watched = false // its newest state is not known from now on
		m.watches--
		out.Do = append(out.Do, forget{of})
	}
}

// begin begins a survey, which reads again what is stale. In another session all nodes may be
// others of the same path: the servers may have come back with older data.
func (m *surveyor) begin(out *effects) {
	if m.anew {
		for _, k := range m.known {
			k.stale = k.stale || k.found != nil && !k.watched
		}
	}
	// Changes from now on are for the next survey.
	m.phase, m.names, m.again, m.failed, m.anew = gathering, 0, false, false, false
	m.proceed(out)
}

// proceed sends reads within the window. When all are answered, it tries to survey.
func (m *surveyor) proceed(out *effects) {
	for m.phase == gathering { // survey asks for more, or ends the phase
		for m.open < m.opts.Window && len(m.queue) > 0 {
			out.Do = append(out.Do, m.queue[0])
			m.queue = m.queue[1:]
			m.open++
		}
		switch {
		case m.open > 0:
			return
		case m.failed:
			m.pause(out)
		default:
			m.survey(out)
		}
	}
}

// survey runs the recogniser on the known nodes. It reads the nodes that the recogniser misses, or
// emits the survey, and forgets the nodes that the recogniser did not ask for.
func (m *surveyor) survey(out *effects) {
	r := newRecogniser(m.opts, true, func(of key, c care) *found {
		if k := m.known[of]; k != nil && !k.stale && k.care >= c {
			return k.found
		}
		return nil
	})
	r.kept, r.asked = &m.parts, make(map[key]care, len(m.known)) // it asks for about as much as last time
	survey := r.survey(m.path)
	for _, of := range sortedKeys(r.wants) {
		m.ask(of, r.wants[of], out)
	}
	if len(r.wants) > 0 {
		return
	}
	// Every read is answered, and nothing is missing.
	m.parts.prune()
	poll := false
	for of, k := range m.known {
		if _, asked := r.asked[of]; !asked {
			m.forget(of, out)
			delete(m.known, of) // read anew if it is asked for again
			continue
		}
		poll = poll || k.polled()
	}
	if m.last == nil || !sameSurvey(m.last, survey) {
		m.last = survey
		survey.Taken = actors.Deadline(0) // now
		out.Emit = append(out.Emit, survey)
	}
	if poll && !m.polls {
		m.polls = true
		m.wait(toPoll, refresh, out)
	}
	if m.phase = resting; m.again { // a change came while nodes were read
		m.pause(out)
	}
}

// ask queues a read of a node, which is watched too if the recogniser cares and there is
// room.
func (m *surveyor) ask(of key, c care, out *effects) {
	k := m.known[of]
	if k == nil {
		k = &known{}
		m.known[of] = k
	}
	m.forget(of, out)
	// The new read replaces an earlier one, and its watch.
	m.serial++
	k.care, k.serial, k.reading, k.stale = c, m.serial, true, true
	if k.watched = c == watched && m.watches < m.opts.MaxWatched; k.watched {
		m.watches++
	}
	m.queue = append(m.queue, read{key: of, serial: k.serial, watch: k.watched, root: of.path == m.path && of.aspect == session.AspectData})
}

// sameSurvey compares surveys but for their time.
func sameSurvey(a, b *Survey) bool {
	was, is := *a, *b
	was.Taken, is.Taken = time.Time{}, time.Time{} // which always differ
	return reflect.DeepEqual(was, is)
}

// A performer performs the effects of a surveyor.
type performer struct {
	session *session.Session
	subs    map[key]*session.Subscription // the watches
	stop    [2]func()                     // by timer: of the newest wait; nil before the first
}

// perform starts one effect.
func (p *performer) perform(e effect, tell func(input)) {
	switch e := e.(type) {
	case wait:
		p.end(e.timer)
		p.stop[e.timer] = actors.After(e.pause, func() { tell(due{e.timer, e.number}) })
	case read:
		if !e.watch { // no room, or no need
			readOnce(p.session.Async(0), e.key, func(f *found) { tell(told{e.key, e.serial, true, f}) }) // answered once: over is true
			return
		}
		p.subs[e.key] = p.follow(e, tell)
	case forget:
		p.cancel(e.key)
	case finish:
		p.end(toSurvey)
		p.end(toPoll)
		for of := range p.subs {
			p.cancel(of)
		}
	}
}

// end stops a timer, if it was set.
func (p *performer) end(t timer) {
	if p.stop[t] != nil {
		p.stop[t]()
	}
}

// cancel ends a watch, if there is one.
func (p *performer) cancel(of key) {
	if sub := p.subs[of]; sub != nil {
		sub.Cancel()
		delete(p.subs, of)
	}
}

// follow reads a node now, and after each change.
func (p *performer) follow(e read, tell func(input)) *session.Subscription {
	requests := p.session.Async(0)
	return requests.Follow(e.path, e.aspect, e.root, func(r session.Reading, err error) {
		f := &found{data: r.Data, names: slices.Sorted(slices.Values(r.Names)), stat: r.Stat, err: err}
		if f.forbidden() { // its Stat can be read, if not its data
			readOnce(requests, e.key, func(f *found) { tell(told{e.key, e.serial, true, f}) })
			return
		}
		if err == nil && r.Stat == nil {
			f.err = session.ErrNoNode
		}
		tell(told{e.key, e.serial, err != nil, f})
	})
}

// String describes the watcher in one short line.
func (w *Watcher) String() string { return "watcher of what stands below " + w.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watcher) Format(f fmt.State, _ rune) { client.Print(f, w) }
