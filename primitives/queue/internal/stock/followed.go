package stock

import (
	"slices"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A Followed has directories of a queue whose children a handle knows, because a watch reports the
// next change. So calls that come soon after each other do not list them again. After a change a
// directory is not read before a call asks for it: idle handles send nothing.
type Followed struct {
	mu   sync.Mutex
	dirs map[string]*followedDir
	used map[string]bool // directories that calls have taken all items from; replaced when they have used up another list
	tell []listener      // called at the next change
}

// Children shows whether a directory has the same children as before: each creation sets the Pzxid,
// and a deletion without a creation leaves fewer. On ClickHouse Keeper a deletion alone does not
// set the Pzxid. The zero value stands for a directory that does not exist.
type Children struct {
	Pzxid int64
	Count int32
}

// ChildrenOf returns the children of a directory with the stat, nil if it does not exist.
func ChildrenOf(stat *session.Stat) Children {
	if stat == nil {
		return Children{}
	}
	return Children{stat.Pzxid, stat.NumChildren}
}

// A listener wants to know that directories have changed.
type listener struct {
	owner any
	tell  func()
}

// A followedDir is a directory until it changes.
type followedDir struct {
	sub      client.Subscription // set when begun is closed, perhaps after the reading
	begun    chan struct{}
	told     bool     // set by the reading
	dropped  bool     // set when it is followed no more; the reading comes all the same
	names    []string // belong to the session, and are not modified
	children Children
}

// get returns a directory that is followed, and reports whether the session has heard of no change.
func (f *Followed) get(path string) (names []string, c Children, ok bool) {
	f.mu.Lock()
	d := f.dirs[path]
	isTold := d != nil && d.told
	f.mu.Unlock()
	if !isTold {
		return nil, Children{}, false
	}
	<-d.begun // the request has been answered: the caller of follow but notes so
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirs[path] != d || !client.Settled(d.sub) {
		return nil, Children{}, false
	}
	return d.names, d.children, true
}

// expects reports whether a directory is followed, or calls have taken all its items.
func (f *Followed) expects(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirs[path] != nil || f.used[path]
}

// UseUp notes that calls have taken all items that were listed.
func (f *Followed) UseUp(used map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = used
}

// follow lists a directory, and follows it from then on.
func (f *Followed) follow(requests client.Async, path string, answer func(names []string, stat *session.Stat, err error)) {
	d := &followedDir{begun: make(chan struct{})}
	f.replace(path, d)
	sub := requests.FollowOnce(path, session.AspectChildren, func(r session.Reading, err error) {
		if err == nil && r.Stat == nil { // another subscription of the session waits for the directory
			err = session.ErrNoNode
		}
		f.mu.Lock()
		first := !d.told
		d.told, d.names, d.children = true, r.Names, ChildrenOf(r.Stat)
		if (!first || err != nil) && f.dirs[path] == d {
			delete(f.dirs, path)
		}
		last := d.ended()
		f.mu.Unlock()
		if first {
			answer(slices.Clone(r.Names), r.Stat, err)
			unfollow(last)
			return
		}
		f.changed()
	})
	f.mu.Lock()
	d.sub = sub
	close(d.begun)
	last := d.ended()
	f.mu.Unlock()
	unfollow(last)
}

// ended returns the subscription if it is to end: a call may wait for the reading.
func (d *followedDir) ended() client.Subscription {
	if d.dropped && d.told {
		return d.sub
	}
	return nil
}

// TellChanged has tell called once at the next change of a directory that is followed; never if it
// is nil. It replaces what the owner has given before.
func (f *Followed) TellChanged(owner any, tell func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell = slices.DeleteFunc(slices.Clone(f.tell), func(l listener) bool { return l.owner == owner })
	if tell != nil {
		f.tell = append(f.tell, listener{owner, tell})
	}
}

func (f *Followed) changed() {
	f.mu.Lock()
	all := f.tell
	f.tell = nil
	f.mu.Unlock()
	for _, l := range all {
		l.tell()
	}
}

// forget ends the watch on a directory.
func (f *Followed) forget(path string) { f.replace(path, nil) }

// ForgetAll ends all watches.
func (f *Followed) ForgetAll() {
	f.mu.Lock()
	var subs []client.Subscription
	for _, d := range f.dirs {
		d.dropped = true
		subs = append(subs, d.ended())
	}
	f.dirs = nil
	f.mu.Unlock()
	for _, sub := range subs {
		unfollow(sub)
	}
}

// replace follows d in the place of what was followed; nothing if it is nil.
func (f *Followed) replace(path string, d *followedDir) {
	f.mu.Lock()
	var last client.Subscription
	if was := f.dirs[path]; was != nil {
		was.dropped = true
		last = was.ended()
	}
	switch {
	case d == nil:
		delete(f.dirs, path)
	case f.dirs == nil:
		f.dirs = map[string]*followedDir{path: d}
	default:
		f.dirs[path] = d
	}
	f.mu.Unlock()
	unfollow(last)
}

// unfollow ends a subscription, if there is one.
func unfollow(sub client.Subscription) {
	if sub != nil {
		sub.Cancel()
	}
}
