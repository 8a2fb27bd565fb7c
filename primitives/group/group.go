package group

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// A Membership is one member of a group. Create it with [Join]. It is safe for
// concurrent use, and must be closed.
type Membership struct {
	session  *session.Session
	path, id string
	layout   Layout
	kept     *presence.Kept[input, Event]
	feed     feed
}

// Join becomes a member of the group at path, under the id and with the payload data, and returns
// at once: [Membership.Events] reports the progress. A session that is not connected joins when it
// is.
//
// If opts is nil, the default options are used. The error names the argument that is refused, or
// wraps [ErrDuplicate] if this very session has a member with the id. There is no other error.
func Join(s *session.Session, path, id string, data []byte, opts *Options) (*Membership, error) {
	o := client.Options(opts)
	if err := validate(s, path, id, data, o); err != nil {
		return nil, err
	}
	name, content := o.Layout.newNode(id, data)
	kept, err := presence.Keep(s, znode.Join(path, name), content, presence.Config{ConflictAfter: o.ConflictAfter, TakeOver: o.TakeOver, Persistent: o.Layout != Standard},
		presence.Role[machine, input, Event]{
			Recipe: "group",
			Path:   path,
			Name:   "member " + znode.Join(path, id),
			Machine: func(node presence.Machine) machine {
				return machine{node: node, view: view{dir: path, layout: o.Layout}}
			},
			Input:  func(in presence.Input) input { return kept{in} },
			Merge:  merge,
			Cancel: cancel,
			Keep:   recipe.Stays[Joined, Gone, Event],
		})
	if err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	return &Membership{session: s, path: path, id: id, layout: o.Layout, kept: kept}, nil
}

// Enroll is [Join], and returns when the member stands. If ctx ends first, the error is its cause,
// and the membership is given up in the background. If the membership is given up for another
// reason, such as [ErrDuplicate], the error wraps that.
func Enroll(ctx context.Context, s *session.Session, path, id string, data []byte, opts *Options) (*Membership, error) {
	if err := client.Usable(ctx); err != nil {
		return nil, fmt.Errorf("group %s: enroll %s: %w", path, id, err)
	}
	m, err := Join(s, path, id, data, opts)
	if err != nil {
		return nil, err
	}
	if err := m.kept.Await(ctx); err != nil {
		return nil, fmt.Errorf("group %s: enroll %s: %w", path, id, err)
	}
	return m, nil
}

// ID returns the id of the member.
func (m *Membership) ID() string { return m.id }

// Events returns the channel of events, which is always the same one:
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// with [MembersChanged] anywhere before [Left], until [Blinded]. The group is watched only when
// Events has been called. The channel begins with the newest event before the first call, and with
// Joined before that if the handle is a member. It is closed after the last event: receive with
// "ev, ok := <-events", because a select over a closed channel spins.
func (m *Membership) Events() <-chan Event {
	events := m.kept.Events()
	m.feed.begin(m.session, m.path, nil, func(in input) { _ = m.kept.Tell(in) })
	return events
}

// Done returns a channel that is closed when the membership was given up, for good.
func (m *Membership) Done() <-chan struct{} { return m.kept.Done() }

// Err returns why the membership was given up; nil while it lasts, and after Leave.
func (m *Membership) Err() error {
	if err := m.kept.Err(); err != nil {
		return fmt.Errorf("group %s: member %s: %w", m.path, m.id, err)
	}
	return nil
}

// Update replaces the payload. It returns nil when the server has the new payload, or a newer one.
// If ctx ends first, it returns the cause, and the update goes on: it is made when the session is
// connected again, and survives an expiry. If the membership ends first, the error wraps the
// reason. If the server refuses the payload, the membership goes on with the last one.
func (m *Membership) Update(ctx context.Context, data []byte) error {
	err := fits(m.session, m.path, m.id, data)
	if !m.layout.hasPayload() {
		err = errors.Join(append(m.layout.check(data), client.CheckContext(ctx))...)
		select {
		case <-m.kept.Done():
			err = errors.Join(err, m.kept.Last().Reason())
		default: // it has none, as before
		}
	} else if err == nil {
		err = m.kept.Update(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("group %s: update %s: %w", m.path, m.id, err)
	}
	return nil
}

// Leave leaves the group. It returns nil when the deletion of the node is confirmed, or the session
// of the member has ended. If the server refuses the deletion for the timeout of the session, Leave
// returns the error of the server. The member then stays until the server allows the deletion or
// the session ends. If ctx ends first, it returns the cause, and the member leaves all the same. If
// the membership has ended for another reason, it returns [Membership.Err].
func (m *Membership) Leave(ctx context.Context) error {
	if err := m.kept.Leave(ctx); err != nil {
		return fmt.Errorf("leave group %s: %w", m.path, err)
	}
	return m.Err()
}

// Close leaves the group and waits as [Membership.Leave] does, at most until the session's lease
// has ended. Undelivered events are discarded, but for the last one. It may be called
// any number of times.
func (m *Membership) Close() {
	m.kept.Close()
	m.feed.close()
}

// A feed delivers changes of the group to a member or a watcher.
type feed struct {
	mu     sync.Mutex
	closed bool
	tree   *watch.Cache
	gone   <-chan struct{}
}

// begin watches the group, once.
func (f *feed) begin(s *session.Session, path string, opts *WatchOptions, tell func(input)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.tree != nil {
		return
	}
	tree, err := watch.Tree(s, path, &watch.TreeOptions{Sync: client.Options(opts).Sync, Depth: 1})
	if err != nil { // it has been closed since
		tell(blinded{err})
		return
	}
	f.tree = tree
	f.gone = actors.Feed("group "+path, tree.Changes(), func(state watch.TreeState) { tell(viewed{state}) }, func() {
		if err := tree.Err(); err != nil {
			tell(blinded{err})
		}
	})
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.tree != nil {
		f.tree.Close()
		<-f.gone
	}
}

// String describes the membership in one short line.
func (m *Membership) String() string { return "member " + znode.Join(m.path, m.id) }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (m *Membership) Format(f fmt.State, _ rune) { client.Print(f, m) }
