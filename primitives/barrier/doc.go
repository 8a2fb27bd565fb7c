// Package barrier makes clients wait for each other.
//
// A [Barrier] is a node: while it stands, clients wait. Any client raises and lifts it.
// It shares its layout with Curator's DistributedBarrier and kazoo's Barrier. Its events are
//
//	(Raised | Released)* Closed
//
// and are levels: the next replaces an [Event] that was not received yet. Two [Raised] in a row have
// different tokens: the first barrier was lifted, and [Released] not seen. [Barrier.TryRaise]
// raises a [Gate], for one client at a time and as long as its session. Its events are
//
//	Raised (Released | Lost)
//
// A [Double] is one party of a double barrier: computations begin and end together, in rounds. Its events are
//
//	(Waiting* (Entered Leaving* (Left | Lost) | Withdrawn))* Closed
//
// [Waiting] and [Leaving] count parties, and merge. [Closed] may come anywhere. After [Lost] or
// [Withdrawn] the handle can enter again.
//
// # Guarantees of rounds
//
//   - A round begins when enough parties are present, in one transaction that lists them and
//     checks that the node of each stands. A party is in when it is listed.
//   - Rounds are numbered from 1 and do not overlap. Parties beyond the number wait for the
//     next round; a party that has waited for more rounds goes first.
//   - Leave returns when no member of the round has a node any more. A member that crashes inside
//     holds the others up until its session expires, and at most one session timeout longer. One
//     that crashes before the round begins makes room for another.
//   - Enter that is cancelled is out with no node left, or in, and says which.
//   - A round of n parties costs 5n+2 requests and at most 3n-1 notifications, if they enter again after
//     it. The first round, lost replies, crashes, and parties beyond the number cost more.
//
// # What is not guaranteed
//
// A process that is paused inside can wake up when its session has expired and the others have left. All
// parties must agree on their number: [ErrParties]. The server may remove the nodes whenever it finds the path
// empty, also between two rounds. Their numbers go on then, unless a party that has seen none comes first: they
// begin with 1 again. The layout of the double barrier is not that of Curator or
// kazoo, whose recipe cannot be made safe: see [ErrLayout].
package barrier
