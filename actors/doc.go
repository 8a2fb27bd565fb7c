// Package actors runs state machines.
//
// A [Machine] is a value with one pure function, Step. It does no I/O: it receives an input, and
// returns effects. An [Actor] runs the machine: it hands it the inputs, performs its effects, and
// delivers its events to a reader that may be slow or absent. A [Stream] is an actor whose machine
// only passes events on. [Ask] sends a command and waits for the answer; [Call] has a loop wait for
// a call without standing still.
//
// # Goroutines
//
// An actor has one goroutine while it has something to do, and none while it waits for an input. So
// ten thousand waiting actors cost no stacks (docs/adr/0026). It also has one while the reader has
// more than one event to fetch. With [Role.Inline], the goroutine that gives an answer also steps
// the machine (docs/adr/0030).
//
// # Order
//
// The machine steps the inputs one after the other, in the order of their arrival. The effects of a
// step are started in their order, and before any effect of a later step. Events are delivered in
// the order in which they were emitted.
//
// In short: one mailbox, one order.
//
// # Backpressure
//
// An actor never waits for its reader, and callers never wait for the actor. Its mailbox is bounded
// by the effects under way and by the commands of its users. Events that have not been received are
// queued, except for those that [Role.Merge] and [Role.Cancel] fold away. Before the first call of
// [Actor.Events] the actor keeps the newest event, and older ones as long as [Role.Keep] says so;
// with [StartKept] it keeps all.
//
// # End
//
// The machine decides when the actor ends, not the reader: [Actor.Ended] and [ErrEnded] follow the
// machine at once, whether or not its events are read. If a reader has more than one event to
// fetch, the goroutine waits for that reader, or for [Actor.Close]. The last event is always
// delivered, and the channel of events is closed after it.
//
// Panics are not recovered: an actor whose state is unknown must not go on holding a lock.
package actors
