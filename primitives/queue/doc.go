// Package queue implements distributed queues: first in, first out, or by priority.
//
// [Queue.Put] adds items, and [Queue.Take] removes them: each is delivered at most once. A [Consumer] claims items
// instead, and delivers each at least once: on [Consumer.Items], until it is acknowledged. The life of a consumer
// is reported as [Event] values:
//
//	(Suspended | Resumed | Lost | Buried)* Closed
//
// # Guarantees
//
// An item is put once, taken once, and acknowledged once, whatever reply is lost. The outcome is
// [session.ErrUnknownOutcome] in two cases: the caller's context ends while the request is under way, or the session
// ends before the outcome is known.
//
// Items come in the order in which they were put, those of one priority in a [Priority]. A more urgent item
// overtakes those that a consumer has claimed and not delivered. A consumer delivers an item that it has rejected before
// later ones that it has not claimed. Other clients first use up what they have listed, about a thousand items.
// Consumers that compete for a backlog begin at different items among the next two thousand
// of one priority: each delivers from there in this order, and then those before.
//
// An item that is not acknowledged goes back: when it is rejected, when its consumer is closed, and when the session
// expires. Then [Item.Ack] fails with [ErrNotClaimed], and touches nothing. [Item.Attempt] counts the deliveries.
// A crash counts for all items that were claimed. After [Options.MaxAttempts] the item moves to the dead letters.
//
// # Not guaranteed
//
// A consumer that is paused can work on an item that another has by then: put [Item.Guard] into its transactions.
// Take loses an item if the session expires before the outcome is known, unless the caller uses what is returned
// with the error. Ephemeral items go with their producer, also if they are claimed.
//
// # Layout
//
// Items stand in buckets of about a thousand, so that a backlog of any length can be listed; delayed ones in a bucket
// for each minute. Directories are
// containers, and go when they are empty. The layouts of other clients are flat ([Options.Layout]); they have no
// claims. Nodes of another layout are refused with [ErrLayout].
//
// Consumers that wait, and calls of Take, stand in line. An item that is put into an empty queue wakes the first, and
// then the second, which is first from then on. While the first hangs, the others wait until its session expires.
package queue
