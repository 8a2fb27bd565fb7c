package session

import (
	"fmt"
	"time"
)

// An Event reports a change in the life of a [Session]. It is one of
// [Connected], [Suspended], [Resumed], [Expired] and [Closed]; no other type
// implements it.
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
		// Deadline is when the session must be counted as lost, with or
		// without a word from the server.
		Deadline time.Time
	}

	// Resumed means that the same session is connected again.
	Resumed struct {
		Server string
	}

	// Expired means that the session is lost, and everything held through it. The next session is
	// being established.
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
func (Resumed) event()   {}
func (Expired) event()   {}
func (Closed) event()    {}

func (e Connected) String() string {
	return fmt.Sprintf("connected id=%#x epoch=%d timeout=%v server=%s", e.ID, e.Epoch, e.Timeout, e.Server)
}

func (e Suspended) String() string { return "suspended until " + e.Deadline.Format(time.StampMilli) }
func (e Resumed) String() string   { return "resumed server=" + e.Server }
func (e Expired) String() string   { return fmt.Sprintf("expired id=%#x epoch=%d", e.ID, e.Epoch) }
func (Closed) String() string      { return "closed" }
