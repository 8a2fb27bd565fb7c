package contender

import (
	"slices"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// This file reads the condition of a rule, and follows it if it is [Followed].

// A reader reads the condition of one handle.
type reader struct {
	condition Condition // nil if there is none
	followed  Followed  // the condition, if it is followed; else nil
	owned     *owned.Set
}

func newReader(c Condition, set *owned.Set) reader {
	f, _ := c.(Followed)
	return reader{c, f, set}
}

// A following is the subscription to one aspect of a followed condition's node: its data, under the
// key aspectData, or its children, under the key aspectChildren. It begins anew in each session.
type following struct {
	client.Subscription

	mu sync.Mutex
	// Set by each reading; without a Stat before the first, and while there is no node.
	newest session.Reading
}

type (
	aspectData     struct{}
	aspectChildren struct{}
)

// stands reports whether the session has reported every change that precedes the answer that it is
// giving.
func (f *following) stands() bool { return f != nil && client.Settled(f) }

func (f *following) reading() session.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

// begin follows the node before the first request of a session, so that every change is reported
// before the answers of later requests.
func (r *reader) begin(requests client.Async, tell func(line.Input)) {
	if r.followed == nil {
		return
	}
	r.owned.Cancel(aspectChildren{}) // of the last session
	r.follow(requests, aspectData{}, session.AspectData, func(read session.Reading, err error) {
		switch {
		case err == nil && read.Stat != nil:
			tell(line.ConditionRead{Data: r.followed.Of(read)})
		case !client.Over(err):
			tell(line.Reevaluate{})
		}
	})
}

// lookAround follows the children too, and reports whether data and children are followed. Then
// both are known when the next request is answered, unless they change meanwhile.
func (r *reader) lookAround(requests client.Async) (followed bool) {
	data, children := r.around()
	if data != nil && (children == nil || children.Over()) {
		r.follow(requests, aspectChildren{}, session.AspectChildren, func(session.Reading, error) {})
	}
	return data != nil
}

func (r *reader) follow(requests client.Async, key any, aspect session.Aspect, tell func(session.Reading, error)) {
	f := new(following)
	f.Subscription = requests.Follow(r.followed.Node(), aspect, true, func(read session.Reading, err error) {
		f.mu.Lock()
		f.newest = read
		f.mu.Unlock()
		tell(read, err)
	})
	r.owned.Keep(key, f)
}

// around returns the followings; nil before the first session, and after the end. The children are
// followed from the first list on. If the session remembers the parent, they are followed during
// the creation, too.
func (r *reader) around() (data, children *following) {
	data, _ = r.owned.Get(aspectData{}).(*following)
	children, _ = r.owned.Get(aspectChildren{}).(*following)
	return data, children
}

// endAround ends the following of the children. The session keeps the watch for the next list, or
// the next contender.
func (r *reader) endAround() { r.owned.Cancel(aspectChildren{}) }

// known returns the condition by the newest readings of the followings. If knows is false, the
// condition has to be read: nothing is followed before the first session, nor after the end, to
// which another goroutine may bring the handle. Nor is it known while a child has to be looked up.
func (r *reader) known() (data string, knows bool, err error) {
	node, children := r.around()
	if !node.stands() || !children.stands() {
		return "", false, nil
	}
	own, others := node.reading(), children.reading()
	if own.Stat == nil || others.Stat == nil || slices.ContainsFunc(others.Names, nodes.IsUnknown) {
		return "", false, nil
	}
	return r.followed.Of(own), true, r.followed.Check(others.Names)
}

// read answers with a condition that is at least as new as the answer that the session is giving.
func (r *reader) read(requests client.Async, answer func(data string, err error)) {
	if data, knows, err := r.known(); knows {
		answer(data, err)
		return
	}
	r.condition.Read(requests, answer)
}

// after sends a request, reads the condition after it, and answers when both are done. If the
// condition is known, the followings are read; otherwise a read goes out behind the request.
// Requests that fail together may be answered in any order.
func (r *reader) after(requests client.Async, known bool, send func(answered func(error)), answer func(data string, unread, failed error)) {
	var data string
	var unread, failed error
	reads := r.condition != nil && !known
	open := 1
	if reads {
		open = 2
	}
	done := func() {
		if open--; open == 0 {
			answer(data, unread, failed)
		}
	}
	read := func(d string, err error) {
		data, unread = d, err
		done()
	}
	send(func(err error) {
		if failed = err; known && err == nil {
			r.read(requests, read)
			return
		}
		done()
	})
	if reads {
		r.condition.Read(requests, read)
	}
}
