package session

// Watch reads the node at path and follows its changes: changed is called
// with its newest data after each change, and one last time with an error when the watch
// is over: [ErrNoNode] when the node is gone, also when that happened while the session was
// suspended; [ErrExpired] when the epoch has ended; or why the node can be read no more. If
// there is no node, the answer is [ErrNoNode], and nothing is watched.
//
// There is one watch on a node and one read for each change, however many want
// it. What the read found before it may be older than the call, but is still true.
func (a Async) Watch(path string, answer, changed func(data []byte, stat *Stat, err error)) (cancel func()) {
	answered := false
	sub := a.Follow(path, AspectData, false, func(r Reading, err error) {
		tell := changed
		if !answered {
			answered, tell = true, answer
		}
		tell(r.Data, r.Stat, err)
	})
	return sub.Cancel
}

// Follow reads one aspect of the node at path, and has tell called with that and with
// what is read after each change: the newest state, not every one. If lasting, it goes
// on while there is no node, which is a state like others; else it ends with
// [ErrNoNode], and leaves no watch on a node that does not exist. It ends with its first
// error: [ErrExpired] or [ErrClosed] with the epoch, or why the node cannot be read.
// After a reconnect it goes on by itself.
//
// There is one watch on each aspect of a node, and one read for each change, however many
// follow it. The first reading may be older than the call, but is still true.
func (a Async) Follow(path string, aspect Aspect, lasting bool, tell func(Reading, error)) *Subscription {
	return a.follow(path, aspect, &Subscription{tell: tell, lasting: lasting}, Reading{})
}

// follow is Follow of a node of which that reading is known, if it has a Stat.
func (a Async) follow(path string, aspect Aspect, sub *Subscription, known Reading) *Subscription {
	s := a.session
	full, err := s.target(path)
	if err == nil {
		key := watchKey{full, watchData}
		if aspect == AspectChildren {
			key.kind = watchChildren
		}
		err = s.enlist(a, key, sub, known)
	}
	if err != nil {
		s.deny(sub, path, err)
	}
	return sub
}

// deny ends a subscription that has not begun.
func (s *core) deny(sub *Subscription, path string, err error) {
	s.order.Put(func() { sub.end(Reading{}, &OpError{Op: "watch", Path: path, Err: err}) })
}

// enlist follows in the epoch of a. Only while the table is locked it is certain that this
// is not an earlier one than that of the entry that may be there.
func (s *core) enlist(a Async, key watchKey, sub *Subscription, known Reading) error {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	e, err := a.present()
	if err != nil {
		return err
	}
	if created := s.follow(e, key, sub, known); created != nil {
		s.plant(created)
	}
	return nil
}

// present returns the epoch that requests are for.
func (a Async) present() (*epoch, error) {
	s := a.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest == nil:
		return nil, ErrClosed
	case a.epoch != 0 && a.epoch != s.newest.number:
		return nil, ErrExpired
	}
	return s.newest, nil
}
