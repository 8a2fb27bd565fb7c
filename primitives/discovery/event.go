package discovery

import (
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/persistent"
	"github.com/zkactors/zkactors/primitives/internal/presence"
)

// The errors that callers can act on, beside [ErrNoFormat], [ErrNoInstance] and [ErrURI].
var (
	// ErrDuplicate means that another session has an instance with this ID.
	ErrDuplicate = presence.ErrDuplicate

	// ErrNodeDeleted means that the node of the instance was deleted: by another client, or by the
	// server at the end of the session, which is not known yet.
	ErrNodeDeleted = presence.ErrNodeDeleted

	// ErrUnregistered means that the instance was unregistered on request.
	ErrUnregistered = presence.ErrLeft

	// ErrNotFound means that there is no such instance.
	ErrNotFound = persistent.ErrNotFound

	// ErrForeign means that the instance lives with a session, which would register it again.
	ErrForeign = persistent.ErrForeign
)

// An Event reports a change of a registered instance. It is one of [Registered], [Suspended],
// [Resumed], [Gone] and [Unregistered]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Registered means that clients can find the instance.
	Registered struct{}

	// Suspended means that the connection is lost. The servers keep the instance for as long as
	// they keep the session.
	Suspended struct{}

	// Resumed means that the connection is back, and that the instance was seen to be registered
	// still.
	Resumed struct{}

	// Gone means that the node of the instance was deleted; it is registered again by itself. Err
	// is [session.ErrExpired] or [ErrNodeDeleted].
	Gone struct{ Err error }

	// Unregistered is the last event. Err says why the instance, or the attempt to register it, was
	// given up; it is nil if a caller has unregistered or closed it, unless the server refuses to
	// delete the node.
	Unregistered struct{ Err error }
)

func (Registered) event()   {}
func (Suspended) event()    {}
func (Resumed) event()      {}
func (Gone) event()         {}
func (Unregistered) event() {}

func (Registered) String() string { return "registered" }
func (Suspended) String() string  { return "suspended" }
func (Resumed) String() string    { return "resumed" }
func (e Gone) String() string     { return "gone: " + e.Err.Error() }

func (e Unregistered) String() string { return client.Told("unregistered", e.Err) }

// translate returns an event of the node as an event of the instance.
func translate(ev presence.Event) Event {
	switch ev := ev.(type) {
	case presence.Joined:
		return Registered{}
	case presence.Suspended:
		return Suspended{}
	case presence.Resumed:
		return Resumed{}
	case presence.Gone:
		return Gone{ev.Err}
	case presence.Left:
		return Unregistered{client.Both(ev.Err, ev.Stands)}
	}
	panic("discovery: an event without a name") // a case is missing above
}
