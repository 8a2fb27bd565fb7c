// Package group implements membership: who is there, and what they say of themselves.
//
// A member is an ephemeral node <path>/<id>, whose data is the member's payload, as
// Curator's GroupMember makes them; the two can be members of one group. [Join] keeps
// one, and tells what becomes of it and of the others as [Event] values:
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// with MembersChanged anywhere before Left. Suspended and Resumed come in turn. After
// [Gone] the member joins again by itself, with its newest payload. [Watch] only looks on.
//
// # Ghosts and duplicates
//
// A process that crashed is a member until its session ends. If it is restarted before
// that it meets its own ghost under its id: it waits for it to go, for
// [Options.ConflictAfter]. What is there after that is not a ghost, but another member
// with the same id, and the last event is [Left] with [ErrDuplicate]; or it is replaced,
// with [Options.TakeOver], and leaves with that error itself. The ghosts of earlier
// sessions of the same [session.Session] are replaced at once. No node that is there is
// ever taken for one's own.
//
// # What is told
//
// [MembersChanged] begins with who is there, and converges to it whatever happens to
// connections. No member is told without its payload, and none goes back to an earlier
// one; payloads of different members are read one by one. Members of whom nothing
// certain is known any more, because the reader's own session is suspended, stay.
// Only ephemeral nodes are members: others are ignored.
//
// What it does not promise: that a member is alive. A crashed one is there until its
// session has timed out, and two processes see changes at different times.
//
// # Not finished
//
// Members that want one id, and one of them cut off, are not judged well in all cases:
// with [Options.TakeOver] a member that comes back after an expiry takes its id from
// whoever took it over meanwhile; the wait for a ghost is not begun anew when
// another member takes its place; an Update or a Leave that is held up by the network
// until another has the id acts on the node of that; and [Resumed] can come before it is
// known that the id is another's. With ids that only one process uses at a time none of this
// happens.
//
// # Backpressure
//
// Nobody waits for a reader. Changes that it has not received become one, whose Added,
// Changed and Removed are relative to what it received last. An undelivered [Suspended]
// vanishes with its [Resumed]; the others are never dropped.
package group
