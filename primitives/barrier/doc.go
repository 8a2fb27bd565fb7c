// Package barrier makes clients wait for each other. A [Barrier] is a node: while it stands,
// clients wait. Any client raises and lifts it. It shares its layout with Curator's
// DistributedBarrier and kazoo's Barrier. Its events are levels: the next replaces an [Event] that
// was not received yet. After two [Raised] in a row the first barrier is gone: their tokens differ.
//
//	(Raised | Released)* Closed
//
// [Barrier.TryRaise] raises a [Gate], for one client at a time and at most for its session's life:
//
//	Raised (Released | Lost)
//
// A [Double] is one party of a double barrier. Parties begin and end their work together, in
// rounds. [Waiting] and [Leaving] count parties, and merge. [Closed] may come anywhere. After
// [Lost] or [Withdrawn] the handle can enter again.
//
//	(Waiting* (Entered Leaving* (Left | Lost) | Withdrawn))* Closed
//
// A [Latch] opens when n arrivals have come, and stays open. Each arrival counts once, whatever
// reply is lost.
//
// # Guarantees of rounds
//
// A round begins when enough parties are present: one transaction lists them as its members, and
// checks that the node of each stands. Rounds are numbered from 1 and do not overlap. Surplus
// parties wait for the next round. Parties that have waited for more rounds go first; chance
// decides between equals. A cancelled Enter reports whether it is in; if not, it leaves no node.
//
// Leave returns when no member of the round has a node. A member that crashes inside delays the
// others until its session expires, and at most one session timeout longer. A party that crashes
// before the round begins makes room for another. If the servers have come back with older data,
// without the round, Leave returns: it does not wait for another round of the same number. A node
// that no session owns, as a copied tree has, is no party. A round of n parties costs 5n+2 requests
// and at most 3n-1 notifications, if they enter again after it. The first round, faults and surplus
// parties cost more.
//
// In short: all members are in before the first begins, and Leave returns when all are out.
//
// # What is not guaranteed
//
// A paused member can wake up after its session has expired and the others have left. All parties
// must agree on their number: [ErrParties]. The server may remove the nodes whenever the path is
// empty. Round numbers then continue, or begin with 1 if a party that has seen no round comes
// first. Curator and kazoo have another layout, whose recipe cannot be made safe: see [ErrLayout].
package barrier
