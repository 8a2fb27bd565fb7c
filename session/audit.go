package session

// audit looks for the nodes that are counted, when they are many: other clients may have
// deleted them, and no event reports the deletion of a node that is not watched. A read that finds no node
// corrects the count.
func (e *epoch) audit() {
	if paths := e.ephemerals.due(); len(paths) > 0 {
		e.look(paths)
	}
}

// look reads the nodes at the paths, some at a time. It is a function of its own because audit allocates nothing.
func (e *epoch) look(paths []string) {
	const window = 64
	under := min(window, len(paths))
	var next func()
	next = func() {
		if len(paths) == 0 {
			if under--; under == 0 {
				e.ephemerals.settled()
			}
			return
		}
		path := paths[0]
		paths = paths[1:]
		e.session.requests(e.number).Exists(e.session.relative(path), func(*Stat, error) { next() })
	}
	for range under {
		next()
	}
}
