package group

import (
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Watcher observes a group without being a member. Create it with [Watch]. It is safe for
// concurrent use, and must be closed.
type Watcher struct {
	session *session.Session
	path    string
	actor   *actors.Actor[input, MembersChanged]
	feed    feed

	mu      sync.Mutex
	members []Member
	err     error
}

// Watch observes the group at path, whether or not there is one.
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why. A later failure ends the watch, and [Watcher.Err] returns it.
func Watch(s *session.Session, path string, opts *WatchOptions) (*Watcher, error) {
	layout := client.Options(opts).Layout
	if err := recipe.Check(s, "group", path, func(bool) []error { return layout.check(nil) }); err != nil {
		return nil, err
	}
	w := &Watcher{session: s, path: path}
	w.actor = actors.Start(watcher{view: view{dir: path, layout: layout}}, actors.Role[watcher, input, presence.Effect, MembersChanged]{
		Name:    "watcher of group " + path,
		Perform: func(presence.Effect, func(input)) {}, // it asks for nothing
		Observe: w.observe,
		Stop:    leave{},
		Merge:   mergeChanges,
		Cancel:  cancelChanges,
	})
	w.actor.Events() // the changes are relative to the last that the reader has received
	w.feed.begin(s, path, opts, func(in input) { _ = w.actor.Tell(in) })
	return w, nil
}

func (w *Watcher) observe(now watcher, events []MembersChanged) {
	w.mu.Lock()
	if now.view.synced {
		w.members = now.view.members
	}
	if now.err != nil {
		w.err = fmt.Errorf("group %s: %w", w.path, now.err)
	}
	w.mu.Unlock()

	// The calls that follow run code of the caller.
	for _, ev := range events {
		client.Of(w.session).Observer().Members(w.path, len(ev.Members))
	}
}

// Events returns the channel of changes, which is always the same one. It begins with the present
// members. The channel is closed after the last event: receive with "ev, ok := <-events", because a
// select over a closed channel spins.
func (w *Watcher) Events() <-chan MembersChanged { return w.actor.Events() }

// Members returns the known members, without waiting, in the order of their ids. They must
// not be modified.
func (w *Watcher) Members() []Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.members
}

// Done returns a channel that is closed when the watch has ended.
func (w *Watcher) Done() <-chan struct{} { return w.actor.Ended() }

// Err returns why the watch has ended: [session.ErrClosed], or the error that keeps the group from
// being read, such as [session.ErrNoAuth]. It returns nil before the end, and after Close.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the watch. Changes that have not been received are discarded, but for the
// last one. It may be called any number of times.
func (w *Watcher) Close() {
	w.actor.Close()
	w.feed.close()
}

// String describes the watcher in one short line.
func (w *Watcher) String() string { return "watcher of group " + w.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watcher) Format(f fmt.State, _ rune) { client.Print(f, w) }
