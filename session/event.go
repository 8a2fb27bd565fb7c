package session

import (
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
)

// An Event reports a change in the life of a [Session]. It is one of
// [Connected], [Suspended], [Lapsed], [Resumed], [Expired] and [Closed]; no other type implements
// it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Connected means that a session has been established. Each session has an epoch of its own,
	// and nothing of an earlier epoch lives on in it.
	Connected struct {
		ID      int64
		Epoch   int
		Timeout time.Duration // negotiated with the server
		Server  string        // the address of the server that the session is connected to

		// Past is the newest zxid that the earlier epochs have seen; 0 if they have seen none.
		// Transactions of this epoch have greater zxids, unless the servers have come back with
		// older data: see [ErrHistoryLost].
		Past int64
	}

	// Suspended means that the connection is lost. The session may still be alive. Do not rely on
	// it.
	Suspended struct {
		// Deadline is when what is held through the session, and excludes others, must be counted
		// as lost, with or without a word from the server. It is zero if nothing is held, nor
		// contended for.
		Deadline time.Time
	}

	// Lapsed means that the deadline has passed: all that was held through the session, and
	// excludes others, is lost, because the servers may give it to others. The session goes on to
	// look for a server, and keeps all else, and the places in line. Requests that have waited
	// fail with [ErrLapsed]. It comes only if something was held.
	Lapsed struct{ quiet bool } // set if nothing was held: then only recipes receive it

	// Resumed means that the same session is connected again.
	Resumed struct {
		Server string
	}

	// Expired means that the servers have ended the session, and that everything is lost that it
	// had. The next session is being established.
	Expired struct {
		ID    int64
		Epoch int
	}

	// Closed means that the session was closed by its owner. It is the last
	// event.
	Closed struct{}
)

func (Connected) event() {}
func (Suspended) event() {}
func (Lapsed) event()    {}
func (Resumed) event()   {}
func (Expired) event()   {}
func (Closed) event()    {}

func (e Connected) String() string {
	return fmt.Sprintf("connected id=%s epoch=%d timeout=%v server=%s", znode.SessionID(e.ID), e.Epoch, e.Timeout, e.Server)
}

func (e Suspended) String() string {
	if e.Deadline.IsZero() {
		return "suspended"
	}
	return "suspended until " + e.Deadline.Format(time.StampMilli)
}

func (Lapsed) String() string    { return "lapsed" }
func (e Resumed) String() string { return "resumed server=" + e.Server }
func (e Expired) String() string {
	return fmt.Sprintf("expired id=%s epoch=%d", znode.SessionID(e.ID), e.Epoch)
}
func (Closed) String() string { return "closed" }
