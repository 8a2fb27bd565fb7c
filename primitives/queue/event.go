package queue

import (
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
)

// recipe is the name of the package in records of the log.
const recipe = "queue"

// An Event reports on a [Consumer]. It is one of [Suspended], [Resumed], [Lost], [Buried] and
// [Closed]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Suspended means that the connection is lost. The claims may last.
	Suspended struct{}

	// Resumed means that the same session is connected again.
	Resumed struct{}

	// Lost means that the session has expired, or has lapsed. The items that the consumer had
	// claimed, if any, go back: they cannot be acknowledged any more. The consumer goes on.
	Lost struct{ Items int }

	// Buried means that the consumer has moved an item to the dead letters.
	Buried struct{ ID string }

	// Closed means that the consumer has ended, and nothing is claimed any more. It is the last
	// event. Err is the reason; it is nil after [Consumer.Close].
	Closed struct{ Err error }
)

func (Suspended) event() {}
func (Resumed) event()   {}
func (Lost) event()      {}
func (Buried) event()    {}
func (Closed) event()    {}

func (Suspended) String() string { return "suspended" }
func (Resumed) String() string   { return "resumed" }
func (e Lost) String() string    { return fmt.Sprintf("lost items=%d", e.Items) }
func (e Buried) String() string  { return "buried id=" + e.ID }
func (e Closed) String() string  { return client.Told("closed", e.Err) }

// cancel reports whether next undoes last.
func cancel(last, next Event) bool {
	_, suspended := last.(Suspended)
	_, resumed := next.(Resumed)
	return suspended && resumed
}
