// Package group implements membership: the list of its members, and the data of each.
//
// A member is an ephemeral node <path>/<id>, whose data is the member's payload, as
// Curator's GroupMember makes them; the two can be members of one group. [Join] keeps
// one, and tells what becomes of it and of the others as [Event] values:
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// with MembersChanged anywhere before Left, until Blinded. Suspended and Resumed come in
// turn. After [Gone] the member joins again by itself, with its newest payload. [Watch] only
// looks on.
//
// # Ghosts and duplicates
//
// A process that crashed is a member until its session ends. If it is restarted before that it
// meets its own ghost under its id, and waits for it to go, for [Options.ConflictAfter]. What is
// there after that is another member with the same id: the last event is [Left] with
// [ErrDuplicate]; or it is replaced, with [Options.TakeOver], and leaves with that error itself.
// A member that has joined once takes no name over any more: if its session expires, another
// session that has taken the id by then keeps it. Only ghosts of earlier sessions of the same
// [session.Session] are replaced at once. No node that is there is taken for one's own.
//
// # Events
//
// [MembersChanged] begins with the present members, and converges to it whatever happens to
// connections. No member is reported without its payload, and none goes back to an earlier
// one; payloads of different members are read one by one. While the reader is cut off, the
// members that it knew stay. Only ephemeral nodes are members. A member that may not read
// the group is a member all the same: it receives [Blinded], once.
//
// It does not promise that a member is alive. A crashed one is there until its session has
// timed out, and two processes see changes at different times. And where two fight for one
// id, one can see the other's payload under it for a moment.
//
// A slow reader delays no other. Changes that it has not received merge into one, unless
// another event came between; and none comes between [Suspended] and [Resumed], which vanish
// together if they are not received. The others are never dropped.
package group
