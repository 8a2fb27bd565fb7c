package leasemodel

import "slices"

// This file models observers that are connected to a follower, their master (observerMasterPort,
// ZOOKEEPER-3140). The master pings them as a leader pings its followers. Their reports enter the
// master's next one, so they travel one hop more. Requests are forwarded to the leader at once.

// A watcher is the observer's side of the connection to its master.
type watcher struct {
	master   *server
	up, down *pipe
}

// attach connects an observer to some follower, sooner or later.
func (s *server) attach() {
	w := s.w
	if f := w.servers[w.rng.IntN(len(w.servers))]; s.reign == nil && f.m != nil && w.open(s, f) {
		s.by = &watcher{master: f, up: &pipe{w: w, from: s.id, to: f.id}, down: &pipe{w: w, from: f.id, to: s.id}}
		s.reign, s.alive, s.applied = f.reign, w.now, f.applied
		s.log = slices.Clone(f.log[:f.applied])
		clear(s.heard)
		f.observers = append(f.observers, s)
		s.pinging(s.by)
		if w.trace != nil {
			w.logf("observer %d is connected to follower %d", s.id, f.id)
		}
	}
	w.after(w.upTo(w.tick)+1, s.attach)
}

// pinging makes the master ping the observer every half a tick. Each leaves the other when the
// other is silent for long.
func (s *server) pinging(by *watcher) {
	w := s.w
	if s.by != by {
		return
	}
	if w.now-s.alive > w.patience {
		s.leave()
		return
	}
	by.down.send(func() {
		s.alive = w.now
		heard := slices.Clone(s.heard)
		clear(s.heard)
		by.up.send(func() {
			for session, timeout := range heard {
				if timeout > 0 && by.master.reign != nil {
					by.master.hear(session, timeout)
				}
			}
		})
	})
	w.after(w.tick/2+w.upTo(w.tick/16), func() { s.pinging(by) })
}

// detach ends the connection of an observer to its master.
func (s *server) detach() {
	s.by.up.closed, s.by.down.closed = true, true
	f := s.by.master
	f.observers = slices.DeleteFunc(f.observers, func(o *server) bool { return o == s })
	s.by = nil
}

// inform reports a commit to the observers of a follower.
func (s *server) inform(n int) {
	e := s.log[n-1]
	for _, o := range s.observers {
		o.by.down.send(func() {
			o.log = append(o.log, e)
			o.apply(len(o.log))
		})
	}
}

// forward makes the leader do something. It is called with the reign of the server.
func (s *server) forward(do func(r *reign)) {
	switch {
	case s.by != nil:
		f := s.by.master
		s.by.up.send(func() {
			if f.reign != nil {
				f.forward(do)
			}
		})
	case s.m != nil:
		r, m := s.reign, s.m
		m.up.send(func() {
			m.heard = s.w.now
			do(r)
		})
	default:
		do(s.reign)
	}
}

// back makes a server do something behind everything that the leader has sent to it before.
func (s *server) back(r *reign, do func()) {
	if s.by != nil {
		by := s.by
		by.master.back(r, func() { by.down.send(do) })
		return
	}
	if s == r.leader {
		do()
		return
	}
	for _, m := range r.members {
		if m.s == s {
			m.down.send(do)
		}
	}
}
