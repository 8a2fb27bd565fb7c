package inspect

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// A Watcher takes a survey after each change. Create it with [Watch]. It is safe for concurrent use, and
// must be closed.
type Watcher struct {
	path  string
	actor *actors.Actor[input, *Survey]

	mu  sync.Mutex
	err error
}

// Watch surveys path, and again after each change, whether or not there is a node. Changes that come together make
// one survey, see [Options.Pause].
//
// If opts is nil, the default options are used. The error names what is wrong with the arguments; what
// fails later ends the watcher, and [Watcher.Err] says why.
func Watch(s *session.Session, path string, opts *Options) (*Watcher, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	w := &Watcher{path: path}
	p := &performer{session: s, subs: make(map[key]*session.Subscription)}
	m := &surveyor{path: path, opts: o, known: make(map[key]*known)}
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

// Surveys returns the channel of surveys, which is always the same one. A reader that is slow receives the newest,
// not every one. No two in a row are alike but for [Survey.Taken]. Surveys must not be modified.
//
// The channel is closed after the last survey: receive with "survey, ok := <-surveys", because a
// select over a closed channel spins.
func (w *Watcher) Surveys() <-chan *Survey { return w.actor.Events() }

// Done returns a channel that is closed when the watcher has ended.
func (w *Watcher) Done() <-chan struct{} { return w.actor.Ended() }

// Err returns why the watcher has ended: [session.ErrClosed]. It returns nil before that, and after Close.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close stops the watcher. It may be called any number of times.
func (w *Watcher) Close() { w.actor.Close() }

func (w *Watcher) observe(m *surveyor, _ []*Survey) {
	if m.over && m.err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = fmt.Errorf("inspect %s: %w", w.path, m.err)
	}
}

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	leave struct{} // the watcher was closed
	due   struct{ turn int }
	told  struct { // answers read: once, or, if the node is watched, any number of times
		key
		serial int
		over   bool // the node is not watched any more
		*found
	}
)

func (leave) input() {}
func (due) input()   {}
func (told) input()  {}

// An effect is something to do about it.
//
//sumtype:decl
type effect interface{ effect() }

type (
	wait struct { // answered by due
		pause time.Duration
		turn  int
	}
	read struct { // answered by told
		key
		serial int
		watch  bool
		root   bool // there need be no node
	}
	forget struct{ key } // a watch
	finish struct{}      // all watches
)

func (wait) effect()   {}
func (read) effect()   {}
func (forget) effect() {}
func (finish) effect() {}

// A known is what was read of a node, or is being read.
type known struct {
	*found // nil before the first answer

	care    care // with which it was asked for
	serial  int  // of the newest read
	reading bool // set when a read begins, cleared by its answer
	watched bool // set when a watch begins, cleared when it ends. While set, found is the newest state.
	stale   bool // set when found may not be the newest state, cleared by an answer. While set, it is read for the next survey.
}

// A phase is what a surveyor does.
type phase int8

const (
	resting   phase = iota // nothing was heard since the last survey
	pausing                // it gathers changes
	gathering              // it reads what has changed
)

// refresh is how often what cannot be watched is read.
const refresh = 5 * time.Second

// A surveyor is the machine of a [Watcher]. It surveys in rounds of reads, until nothing is missing. Unlike other
// machines it is modified by its steps: it is as large as what it watches.
type surveyor struct {
	path string
	opts Options

	known   map[key]*known
	watches int // how many of them are watched
	serial  int

	phase  phase
	turn   int    // of the newest wait
	queue  []read // of the survey, that have not begun
	open   int    // reads of the survey without an answer
	again  bool   // set when a change was heard, cleared when a survey begins
	failed bool   // set when a read failed for a passing reason, cleared when a survey begins

	last *Survey
	over bool
	err  error
}

type effects = actors.Effects[effect, *Survey]

// Ended implements [actors.Machine].
func (m *surveyor) Ended() bool { return m.over }

// Step implements [actors.Machine].
func (m *surveyor) Step(in input, out *effects) *surveyor {
	if m.over {
		return m
	}
	switch in := in.(type) {
	case leave:
		m.end(nil, out)
	case due:
		if in.turn == m.turn && m.phase != gathering {
			m.begin(out)
		}
	case told:
		m.told(in, out)
	}
	return m
}

func (m *surveyor) end(err error, out *effects) {
	m.over, m.err = true, err
	out.Do = append(out.Do, finish{})
}

// wait has a survey begin after a while.
func (m *surveyor) wait(p phase, d time.Duration, out *effects) {
	m.phase = p
	m.turn++
	out.Do = append(out.Do, wait{d, m.turn})
}

// pause is how long to gather changes.
func (m *surveyor) pause() time.Duration {
	return m.opts.Pause + time.Duration(len(m.known))*50*time.Microsecond
}

// manyNames is how many names a directory may have to be listed at once after each change.
const manyNames = 64

func (m *surveyor) told(in told, out *effects) {
	k := m.known[in.key]
	if k == nil || k.serial != in.serial {
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
	if session.Passing(in.err) || session.Over(in.err) {
		k.stale = true
		m.failed = m.failed || answered
	} else {
		k.found, k.stale = in.found, false
	}
	if answered {
		m.open--
		m.proceed(out)
		return
	}
	if k.watched && len(in.names) > manyNames {
		m.forget(in.key, out) // the next survey lists it
	}
	if m.again = true; m.phase == resting {
		m.wait(pausing, m.pause(), out)
	}
}

func (m *surveyor) unwatch(k *known) {
	if k.watched {
		k.watched = false
		m.watches--
	}
}

func (m *surveyor) forget(of key, out *effects) {
	if k := m.known[of]; k.watched {
		m.unwatch(k)
		out.Do = append(out.Do, forget{of})
	}
}

// begin begins a survey. What is not watched is read again, unless it does not change.
func (m *surveyor) begin(out *effects) {
	m.phase, m.again, m.failed = gathering, false, false
	for _, k := range m.known {
		if k.found != nil && !k.watched && (k.care != forever || k.err != nil) {
			k.stale = true
		}
	}
	m.proceed(out)
}

// proceed begins reads, and surveys what was read when all are answered.
func (m *surveyor) proceed(out *effects) {
	for m.phase == gathering {
		for m.open < m.opts.Window && len(m.queue) > 0 {
			out.Do = append(out.Do, m.queue[0])
			m.queue = m.queue[1:]
			m.open++
		}
		switch {
		case m.open > 0:
			return
		case m.failed:
			m.wait(pausing, m.pause(), out)
		default:
			m.survey(out)
		}
	}
}

// survey asks for what is missing, or completes the survey.
func (m *surveyor) survey(out *effects) {
	r := newRecogniser(m.opts, true, func(of key, c care) *found {
		if k := m.known[of]; k != nil && !k.stale && k.care >= c {
			return k.found
		}
		return nil
	})
	survey := r.survey(m.path)
	for _, of := range sortedKeys(r.wants) {
		m.ask(of, r.wants[of], out)
	}
	if len(r.wants) > 0 {
		return
	}
	poll := false
	for of, k := range m.known {
		if _, asked := r.asked[of]; !asked {
			m.forget(of, out)
			delete(m.known, of)
			continue
		}
		poll = poll || !k.watched && (k.care != forever || k.err != nil)
	}
	if m.last == nil || !sameSurvey(m.last, survey) {
		m.last = survey
		survey.Taken = actors.Deadline(0) // which is now
		out.Emit = append(out.Emit, survey)
	}
	switch {
	case m.again:
		m.wait(pausing, m.pause(), out)
	case poll:
		m.wait(resting, refresh, out)
	default:
		m.phase = resting
	}
}

// ask has a node read, and watched if it may be.
func (m *surveyor) ask(of key, c care, out *effects) {
	k := m.known[of]
	if k == nil {
		k = &known{}
		m.known[of] = k
	}
	m.forget(of, out)
	m.serial++
	k.care, k.serial, k.reading, k.stale = c, m.serial, true, true
	if k.watched = c == watched && m.watches < m.opts.MaxWatched; k.watched {
		m.watches++
	}
	m.queue = append(m.queue, read{key: of, serial: k.serial, watch: k.watched, root: of.path == m.path && of.aspect == session.AspectData})
}

func sameSurvey(a, b *Survey) bool {
	was, is := *a, *b
	was.Taken, is.Taken = time.Time{}, time.Time{}
	return reflect.DeepEqual(was, is)
}

// A performer performs the effects of a surveyor.
type performer struct {
	session *session.Session
	subs    map[key]*session.Subscription
	stop    func() // the newest timer
}

func (p *performer) perform(e effect, tell func(input)) {
	switch e := e.(type) {
	case wait:
		if p.stop != nil {
			p.stop()
		}
		p.stop = actors.After(e.pause, func() { tell(due{e.turn}) })
	case read:
		if !e.watch {
			readOnce(p.session.Async(0), e.key, func(f *found) { tell(told{e.key, e.serial, true, f}) })
			return
		}
		p.subs[e.key] = p.follow(e, tell)
	case forget:
		p.cancel(e.key)
	case finish:
		if p.stop != nil {
			p.stop()
		}
		for of := range p.subs {
			p.cancel(of)
		}
	}
}

func (p *performer) cancel(of key) {
	if sub := p.subs[of]; sub != nil {
		sub.Cancel()
		delete(p.subs, of)
	}
}

func (p *performer) follow(e read, tell func(input)) *session.Subscription {
	requests := p.session.Async(0)
	return requests.Follow(e.path, e.aspect, e.root, func(r session.Reading, err error) {
		f := &found{data: r.Data, names: slices.Sorted(slices.Values(r.Names)), stat: r.Stat, err: err}
		if f.forbidden() { // it can be read what it is, if not what it says
			readOnce(requests, e.key, func(f *found) { tell(told{e.key, e.serial, true, f}) })
			return
		}
		if err == nil && r.Stat == nil {
			f.err = session.ErrNoNode
		}
		tell(told{e.key, e.serial, err != nil, f})
	})
}
