package zkmodel

import (
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file is the table of watches that package session keeps: one watch on each aspect of each
// node, for all subscribers.

type watchKey struct {
	path   string
	aspect session.Aspect
}

// An entry is one watch. The read that delivers the aspect arms it.
type entry struct {
	key     watchKey
	reading session.Reading
	armed   bool
	absent  bool // the next read must be Exists with a watch
	dead    bool
	subs    []*subscription
	origin  *subscription // to the data of a node that has no children because there is none
}

type subscription struct {
	s       *Session
	entry   *entry
	tell    func(session.Reading, error)
	act     *activity
	lasting bool
	once    bool
	told    bool
	over    bool
}

// Cancel implements [client.Subscription].
func (sub *subscription) Cancel() {
	if !sub.over && sub.entry != nil {
		sub.s.unfollow(sub)
	}
	sub.over = true
}

// Over implements [client.Subscription].
func (sub *subscription) Over() bool { return sub.over }

// Unsettled implements [client.Subscription].
func (sub *subscription) Unsettled() bool { return sub.entry != nil && !sub.over && !sub.entry.armed }

func (sub *subscription) read(r session.Reading) {
	if !sub.over {
		sub.told = true
		sub.s.w.within(sub.act, r, func() { sub.tell(r, nil) })
	}
}

func (sub *subscription) end(r session.Reading, err error) {
	if !sub.over {
		sub.over = true
		sub.s.w.within(sub.act, err, func() { sub.tell(r, err) })
	}
}

// FollowCreated implements [client.Async]. A caller must not rely on whether the reading is newer.
func (a requests) FollowCreated(path string, _ []byte, _, _ session.OpResult, tell func(session.Reading, error)) client.Subscription {
	return a.Follow(path, session.AspectData, false, tell)
}

// FollowTogether implements [client.Async]. The other nodes are read, but their readings are not
// delivered.
func (a requests) FollowTogether(path string, _ []byte, _ session.OpResult, tell func(session.Reading, error), others []client.Other) (sub client.Subscription, all []client.Subscription) {
	sub = a.Follow(path, session.AspectData, false, tell)
	for _, o := range others {
		all = append(all, a.Follow(o.Path, session.AspectData, false, func(r session.Reading, err error) {
			if err == nil {
				r.Data, r.Stat = nil, new(session.Stat)
			}
			o.Tell(r, err)
		}))
	}
	return sub, all
}

// Follow implements [client.Async].
func (a requests) Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) client.Subscription {
	return a.follow(watchKey{path, aspect}, &subscription{tell: tell, lasting: lasting})
}

// Roomy implements [client.Async]. No reply is too large in the model.
func (a requests) Roomy() client.Async { return a }

// Under implements [client.Async].
func (a requests) Under(lease int64) client.Async { a.lease = lease; return a }

// FollowOnce implements [client.Async].
func (a requests) FollowOnce(path string, aspect session.Aspect, tell func(session.Reading, error)) client.Subscription {
	return a.follow(watchKey{path, aspect}, &subscription{tell: tell, once: true})
}

func (a requests) follow(key watchKey, sub *subscription) client.Subscription {
	s := a.s
	sub.s, sub.act = s, s.w.now
	if err := a.refusal(); err != nil {
		s.w.later(func() { sub.end(session.Reading{}, err) })
		return sub
	}
	s.follow(key, sub)
	return sub
}

// Watch implements [client.Async].
func (a requests) Watch(path string, answer, changed func(data []byte, stat *session.Stat, err error)) (cancel func()) {
	answered := false
	sub := a.Follow(path, session.AspectData, false, func(r session.Reading, err error) {
		tell := changed
		if !answered {
			answered, tell = true, answer
		}
		tell(r.Data, r.Stat, err)
	})
	return sub.Cancel
}

func (s *Session) entry(key watchKey) *entry {
	if i := slices.IndexFunc(s.entries, func(e *entry) bool { return e.key == key }); i >= 0 {
		return s.entries[i]
	}
	return nil
}

func (s *Session) enter(key watchKey) *entry {
	e := &entry{key: key}
	s.entries = append(s.entries, e)
	return e
}

func (s *Session) follow(key watchKey, sub *subscription) {
	e := s.entry(key)
	fresh := e == nil
	if fresh {
		e = s.enter(key)
	}
	sub.entry = e
	e.subs = append(e.subs, sub)
	switch {
	case fresh:
		s.arm(e)
	case !e.armed: // the read under way delivers it
	case e.reading.Stat == nil && !sub.lasting:
		e.absent = false
		s.arm(e)
	default:
		s.w.later(func() {
			if e.armed && !sub.told {
				sub.read(e.reading)
			}
		})
	}
}

// unfollow keeps a watch that has no more subscribers, as package session does.
func (s *Session) unfollow(sub *subscription) {
	e := sub.entry
	e.subs = slices.DeleteFunc(e.subs, func(o *subscription) bool { return o == sub })
	if len(e.subs) == 0 && e.origin != nil {
		s.drop(e)
	}
}

func (s *Session) drop(e *entry) []*subscription {
	e.armed, e.dead = false, true
	s.entries = slices.DeleteFunc(s.entries, func(o *entry) bool { return o == e })
	if origin := e.origin; origin != nil {
		e.origin = nil
		origin.Cancel()
	}
	subs := e.subs
	e.subs = nil
	return subs
}

// arm reads a node, which plants the watch.
func (s *Session) arm(e *entry) {
	e.armed = false
	kind := readData
	if e.key.aspect == session.AspectChildren {
		kind = readChildren
	}
	probing := kind == readData && e.absent
	s.submit(&request{kind: kind, path: e.key.path, entry: e, act: &activity{actor: -1}, answer: func(r result) {
		reading := session.Reading{Zxid: r.zxid, Stat: r.stat, Data: r.data, Names: r.names}
		s.answered(e, reading, probing, r.err)
	}})
}

func (s *Session) answered(e *entry, r session.Reading, probing bool, err error) {
	switch {
	case e.dead:
	case is(err, session.ErrNoNode):
		s.missing(e, r.Zxid, probing)
	case err == nil && probing:
		e.absent = false
		s.arm(e)
	case err == nil:
		e.armed, e.absent, e.reading = true, false, r
		if origin := e.origin; origin != nil {
			e.origin = nil
			origin.Cancel()
		}
		s.settled(e)
	case is(err, session.ErrExpired, session.ErrClosed, session.ErrNoAuth) || len(e.subs) == 0:
		for _, sub := range s.drop(e) {
			sub.end(session.Reading{}, err)
		}
	case is(err, session.ErrDisconnected):
		s.arm(e)
	default:
		requests{s: s, epoch: s.epoch}.After(pause, func() {
			if !e.dead {
				s.arm(e)
			}
		})
	}
}

func (s *Session) settled(e *entry) {
	r := e.reading
	for _, sub := range slices.Clone(e.subs) {
		sub.read(r)
	}
}

func (s *Session) missing(e *entry, zxid int64, watched bool) {
	ended := e.abandon(func(sub *subscription) bool { return !sub.lasting })
	reading := session.Reading{Zxid: zxid}
	rest := func() {}
	switch {
	case watched:
		e.armed, e.reading = true, reading
		rest = func() { s.settled(e) }
	case len(e.subs) == 0:
		s.drop(e)
	case e.key.aspect == session.AspectChildren:
		s.awaitOrigin(e)
	default:
		e.absent = true
		s.arm(e)
	}
	for _, sub := range ended {
		sub.end(reading, errNoSuchNode)
	}
	rest()
}

// abandon takes out the subscriptions that end.
func (e *entry) abandon(ends func(*subscription) bool) (ended []*subscription) {
	var rest []*subscription
	for _, sub := range e.subs {
		if ends(sub) {
			ended = append(ended, sub)
		} else {
			rest = append(rest, sub)
		}
	}
	e.subs = rest
	return ended
}

// awaitOrigin waits for a node whose children are wanted.
func (s *Session) awaitOrigin(e *entry) {
	if e.origin != nil {
		e.armed = e.reading.Stat == nil
		return
	}
	origin := &subscription{s: s, lasting: true, act: &activity{actor: -1}}
	origin.tell = func(r session.Reading, err error) {
		switch {
		case e.origin != origin || e.dead:
		case err != nil:
			for _, sub := range s.drop(e) {
				sub.end(session.Reading{}, err)
			}
		case r.Stat != nil:
			e.origin = nil
			origin.Cancel()
			s.arm(e)
		default:
			e.armed, e.reading = true, session.Reading{Zxid: r.Zxid}
			s.settled(e)
		}
	}
	e.origin = origin
	key := watchKey{e.key.path, session.AspectData}
	if s.entry(key) == nil {
		at := s.enter(key)
		at.absent = true
		s.arm(at)
	}
	s.follow(key, origin)
}

// notified acts on a watch that has fired.
func (s *Session) notified(c change) {
	data, children := watchKey{c.path, session.AspectData}, watchKey{c.path, session.AspectChildren}
	switch c.kind {
	case deleted:
		s.fired(data, true)
		s.fired(children, true)
	case created, written:
		s.fired(data, false)
	case reshaped:
		s.fired(children, false)
	}
}

func (s *Session) fired(key watchKey, gone bool) {
	e := s.entry(key)
	if e == nil || !e.armed || e.origin != nil {
		return
	}
	var ended []*subscription
	var why error = errNoSuchNode
	switch {
	case gone && e.reading.Stat != nil:
		ended = e.abandon(func(sub *subscription) bool { return !sub.lasting })
	case !gone:
		ended, why = e.abandon(func(sub *subscription) bool { return sub.once && sub.told }), nil
	}
	if s.w.Woken = append(s.w.Woken, actorsOf(ended)...); !gone {
		s.w.Woken = append(s.w.Woken, actorsOf(e.subs)...)
	}
	switch {
	case len(e.subs) == 0:
		s.drop(e)
	case gone && key.aspect == session.AspectChildren:
		e.armed = false
		s.awaitOrigin(e)
	default:
		e.absent = gone
		s.arm(e)
	}
	for _, sub := range ended {
		sub.end(session.Reading{}, why)
	}
}

func actorsOf(subs []*subscription) (all []int) {
	for _, sub := range subs {
		all = append(all, sub.act.actor)
	}
	return all
}

// restore sets the watches again after a reconnect. A watch fires if its node has changed in a
// transaction that is newer than all that the session has seen.
func (s *Session) restore() {
	for _, e := range slices.Clone(s.entries) {
		if !e.armed {
			continue
		}
		i, exists := s.view().index(e.key.path)
		was, now := e.reading.Stat, Node{}
		if exists {
			now = s.view()[i]
		}
		switch {
		case was == nil && !exists, was != nil && exists && e.key.aspect == session.AspectData && now.Mzxid <= max(was.Mzxid, s.floor),
			was != nil && exists && e.key.aspect == session.AspectChildren && now.Pzxid <= max(was.Pzxid, s.floor):
		default:
			s.fired(e.key, was != nil && !exists)
		}
	}
}

// Watches reports whether the actor follows an aspect of a node, by a watch that stands.
func (s *Session) Watches(actor int, path string, aspect session.Aspect) bool {
	e := s.entry(watchKey{path, aspect})
	return e != nil && e.armed && slices.Contains(actorsOf(e.subs), actor)
}

// Watched returns the paths of the nodes that the actor follows, by watches that stand.
func (s *Session) Watched(actor int) (paths []string) {
	for _, e := range s.entries {
		if e.armed && slices.Contains(actorsOf(e.subs), actor) {
			paths = append(paths, e.key.path)
		}
	}
	return paths
}
