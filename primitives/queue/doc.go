// Package queue implements distributed queues: first in, first out, or by priority. [Queue.Put]
// adds items. [Queue.PutOnce] can be called again: it adds one item with each ID. [Queue.Take]
// delivers each at most once. A [Consumer] claims items, and delivers each at least once, on
// [Consumer.Items], until it is acknowledged. The [Event] values of a consumer are
//
//	(Suspended | Resumed | Lost | Buried)* Closed
//
// # Guarantees
//
// An item is put once, taken once, and acknowledged once, whatever reply is lost. The error wraps
// [session.ErrUnknownOutcome] only if the context or the session ends before the outcome is known.
//
// An item that is not acknowledged goes back: when it is rejected, when its consumer is closed, and
// when the session expires. Then [Item.Ack] fails with [ErrNotClaimed], and changes nothing. It
// comes again: after a rejection with a delay, and after [Options.MaxAttempts] deliveries as one of
// the [DeadLetters]. Only deliveries to readers count, and those that a crash ends from the second.
//
// In short: no item is put or acknowledged twice, and an unacknowledged item comes again.
//
// Items come in the order in which they were put; in a [Priority], within one priority. Delayed
// items that are due, and more urgent ones, come next within a second, before items that are
// claimed and not delivered. A consumer delivers an item that it has rejected without a delay
// before later ones that it has not claimed. Other clients first use up their lists of about a
// thousand. Competing consumers, and processes that take, begin at different items, among the next
// two thousand of one priority: each goes on from there in order, and then with the items before.
//
// # Not guaranteed
//
// A process that stops for a while can work on an item that another has claimed: include
// [Item.Guard] in transactions. Take loses an item if the session expires before the outcome is
// known, unless the caller uses the returned item. Ephemeral items end with their producer's
// session, claimed or not.
//
// # Layout
//
// Items stand in buckets of about a thousand, so that a backlog of any length can be listed.
// Delayed items stand in a bucket for each minute. Directories are containers, which the server
// removes when they are empty. A [Flat] shares the layout of another library, which has no claims.
// Nodes of another layout are refused with [ErrLayout]. Idle consumers, and calls of Take, stand in
// line. An item that is put into an empty queue wakes the first, and then the second, which becomes
// the first. If the first hangs, the others wait until its session expires.
package queue
