// Package shard divides n shards among the members that are there: each shard is owned by one
// member at a time, as by an exclusive lock, in proportion to the weights of the members.
//
// [Join] becomes a member, and reports its fate and that of its shards as [Event] values:
//
//	((Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)?) Left
//
// and for each shard, anywhere before Left:
//
//	(Assigned Revoke? Lost?)*
//
// After a [Revoke] the member finishes its work for the shard, and calls [Member.Give]; no Lost
// follows. No published recipe does this. SetPartitioner of kazoo is the nearest: there all members
// release all shards for each change, one after the other waits until the group has been quiet for
// 30 seconds, and an item that a stranger has locked stops them all.
//
// # Promises
//
// No shard is owned by two. Each has a line, which is that of an exclusive lock, with the promises
// of package lock: the owner learns of a loss before the server gives the shard away, each grant
// has a fencing token that grows, and [Member.Guard] protects a transaction. [Member.Context] ends
// before another member can own the shard. As there, an operator who deletes nodes, and a process
// that is paused for longer than its session, are the exceptions, against which the token protects.
//
// Every shard has an owner again after the last change: when that was a member that came or left,
// after the time that owners take to give, at most Options.GiveWithin for every Options.AtOnce
// shards of an owner; when it was a member that crashed, after the timeout of its session. The end
// of a member is noticed by its neighbour: if that crashes at the same time, or is stopped, its own
// timeout is added. A node that no session owns, as a copied tree has, is no member and owns no
// shard.
//
// Servers that have come back with older data would grant smaller tokens. So a shard is refused
// then, as a lock is, and stays without an owner until the zxids have caught up: its member tries
// every 15 seconds, a few if many are refused, and all when one is granted. It logs one warning for
// those that are refused together.
//
// As few shards move as even shares allow, one by one, and only with their owner's consent, up to
// its time limit. A member that comes back gets its own shards back: of the shards that move to it,
// as many as can be are those that it had when it went, even if another that had them meanwhile has
// gone, too. If no other member has come or gone meanwhile, all are, up to its share. For that the
// plan remembers the members that went last, about as many as are present, and three for each
// shard, if a request has room for them.
//
// A session has room for so many nodes, some ten thousand with short paths. A member gets no more
// shards than three quarters of that. Shards that no member can have stay without an owner until
// another comes, and the member that plans logs a warning.
//
// # How it works
//
// The plan, a single node, says which member is to own which shard. There is no leader. Each member
// watches its neighbour, the next of a ring, and its own record, which says what it has to do.
// A member that has come, or whose neighbour is gone, reads the plan and the names of the members,
// places the shards by a pure function ([Balanced], or a [Placement] of the user's), and replaces
// the plan at the version that it has read, with the records that differ, in one transaction. If
// another was faster, it looks again. So a change costs the members that it concerns, and no
// others: about four requests for each shard that moves.
//
// A member whose record says so stands in the line of a shard; one whose record does not leaves the
// line, or has the shard revoked. The plan only says what is to be: the owner of a shard is decided
// by its line.
//
// # Layout
//
// Below the path are plan, plan/records/<id>, members/<id> (ephemeral), and shards/<n> with the
// contenders of shard n. Plan and records stay when the last member has left. Each write of the
// plan checks plan/generation-<id>: a plan that was deleted and made again is another one, whatever
// its version says. Records are below the plan, so that none outlives it.
//
// The number of shards is that of the members that are there: a member with another number leaves
// with [ErrShards], unless none of those is left. All members need the same Placement.
package shard
