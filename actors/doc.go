// Package actors runs state machines.
//
// A [Machine] is a value with one pure function, Step. It does no I/O: it receives what
// happened, and answers with what to do about it. An [Actor] runs it: it feeds the machine,
// has its wishes performed, and delivers its events to a reader that may be slow or absent.
// A [Stream] is an actor whose machine only passes events on. [Ask] sends a command and
// waits for its answer.
//
// # Goroutines
//
// An actor has one goroutine while it has something to do, and none while it waits for
// its next input. So ten thousand actors that wait cost no stacks (docs/adr/0026). It also has one
// while the reader has more than one event to fetch. With [Role.Inline] an answer is stepped on the
// goroutine that gives it (docs/adr/0030).
//
// # Order
//
// Inputs are stepped one after the other, in the order in which they arrived. The effects
// of a step are started in their order, and before anything that a later step asks for.
// Events are delivered in the order in which they were emitted.
//
// # Backpressure
//
// An actor never waits for a reader: neither do its callers, nor does it for its reader.
// Its inputs are bounded by what it asked for and by the commands of its users. Its
// undelivered events wait for the reader, but for those that [Role.Merge] and [Role.Cancel]
// fold away. Until [Actor.Events] is called they are one and what [Role.Keep] lets stay;
// with [StartKept] they are all.
//
// # End
//
// The end is the machine's, not the reader's: [Actor.Ended] and [ErrEnded] follow the
// machine at once, whether or not its events are read. If a reader has more than one event
// to fetch, the goroutine waits for that reader, or for [Actor.Close]. The last event is
// delivered in every case, and the channel of events is closed after it.
//
// Panics are not recovered: an actor whose state is unknown must not go on
// holding what it holds.
package actors
