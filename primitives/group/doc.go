// Package group implements membership: the list of a group's members, and the data of each.
//
// A member is an ephemeral node <path>/<id> with the member's payload as data. Members of Curator's
// GroupMember can be in the same group; for those of kazoo's Party see [Layout]. [Join] keeps one
// member, and reports its fate and the other members as [Event] values:
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// with MembersChanged anywhere before Left, until Blinded. Suspended and Resumed alternate. After
// [Gone] the member joins again by itself, with its newest payload. [Watch] reports members without
// joining.
//
// # Ghosts and duplicates
//
// A process that crashed is a member until its session ends. If it restarts before that, it finds
// its own ghost under its id, and waits for [Options.ConflictAfter] until the ghost is gone. A node
// that still stands then belongs to another member with the same id. By default the new member
// gives up: its last event is [Left] with [ErrDuplicate]. With [Options.TakeOver] it then replaces
// the other member, which leaves with that error. A member that has joined once replaces no other
// member: if its session expires, a session that has taken the id meanwhile keeps it. Only ghosts
// of earlier sessions of the same [session.Session] are replaced at once. Join never adopts an
// existing node. In short: two processes with one id are not both members.
//
// # Events
//
// [MembersChanged] begins with the present members, and converges to the members on the server. No
// member is reported without its payload. Within a session, no payload goes back to an earlier one.
// Payloads are read one by one. While the connection is lost, the list stays as it was. Only
// ephemeral nodes are members. A member that may not read the group stays a member, and receives
// [Blinded] once.
//
// The list does not promise that a member is alive: a crashed member stays until its session has
// timed out. Two processes see changes at different times. While two members contend for one id, a
// reader can see the payload of either member.
//
// A slow reader delays no other. Changes that it has not received merge into one, unless another
// event lies between them. Suspended and its Resumed vanish together if they are not received. No
// other event is dropped.
package group
