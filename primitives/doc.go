// Package primitives is the index of the recipes. It has no code of its own.
//
// # Lock
//
// Import github.com/zkactors/zkactors/primitives/lock for mutual exclusion between processes, first
// come, first served: exclusive locks, locks for readers and writers, and locks with priorities.
// Any lock can be revoked, by request or by force. Several locks can be held at once, all or none:
// callers that acquire locks so never wait for each other. The events are
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)* (Released | Lost) | Released | Failed)
//
// From Acquired until Done is closed, no client is granted the lock that the holder excludes,
// unless another client deletes the holder's node. Every grant that excludes others has a token,
// which is greater than the tokens of all such grants before it. If the servers have come back with
// older data, and a token would not grow, the lock fails with session.ErrHistoryLost.
//
// In short: one holder at a time, and a token by which the protected resource can check that.
//
// # Semaphore
//
// Import github.com/zkactors/zkactors/primitives/semaphore to limit how many clients work at once,
// with weights, first come, first served. The events are
//
//	Waiting* (Acquired (Suspended | Resumed)* (Released | Lost) | Released | Failed)
//
// A lease is held with all of its weight or not at all. At every grant, its weight and the weights
// of all leases ahead of it are within the recorded limit. The limit can be changed at any time.
//
// In short: a grant never exceeds the limit, and no late small lease overtakes a large one.
//
// # Election
//
// Import github.com/zkactors/zkactors/primitives/election for leader election: candidates,
// observers, and a function that runs while its candidate leads. The events of a candidate are
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with Standing, LeaderChanged and Overrun anywhere before Left. No candidate is elected before the
// last leader has received Deposed, unless another client deletes the leader's nodes. Terms are
// fencing tokens like those of locks. Within a session the events about leaders never go back. A
// deposed candidate stands again by itself.
//
// In short: the old leader knows that its term is over before the next leader is elected.
//
// # Commit
//
// Import github.com/zkactors/zkactors/primitives/commit for two-phase commit. The events of a
// coordinator are
//
//	Voted* (Committed | Aborted | Left)
//
// The events of a site are, for each transaction, and with Left after all others,
//
//	Prepare? (Committed | Aborted | Forgotten)?
//
// No two parties receive different outcomes of one transaction, whatever crashes and whatever reply
// is lost. It is committed only if every site voted Yes.
//
// In short: one transaction, one outcome.
//
// # Config
//
// Import github.com/zkactors/zkactors/primitives/config for typed values that are watched, set, and
// updated by compare-and-set. The events are
//
//	(Changed | Deleted | Invalid)* Closed
//
// Every write is done once or not at all, whatever reply is lost. Its outcome is unknown only if,
// before it was known, the session expired, the caller gave up, or another client touched the
// writer's marker. The view never goes back within a session, and ends with the newest value.
//
// In short: no write is done twice, and every reader arrives at the newest value.
//
// # Group
//
// Import github.com/zkactors/zkactors/primitives/group for membership: the members of a group, and
// the payload of each. The events of a member are
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// with MembersChanged anywhere before Left, until Blinded. A member that leaves is removed at once,
// and one that crashes is removed with its session. A member whose session expires joins again by
// itself, unless another session has taken its id meanwhile. The reported members converge to those
// on the server, and never go back within a session.
//
// In short: after the last change, every list shows the members that the server has.
//
// # Naming
//
// Import github.com/zkactors/zkactors/primitives/naming for a name service. Names are persistent,
// or they live with a session and are registered again after an expiry. The events of a name that
// is kept are
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// A name has one owner at a time. If the reply to a registration is lost, naming finds out whether
// it was done. If another client has changed or removed the name since, the outcome is reported as
// unknown.
//
// In short: one name, one owner.
//
// # Shard
//
// Import github.com/zkactors/zkactors/primitives/shard to divide n shards among the members that
// are there. The events of a member are
//
//	((Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)?) Left
//
// and, for each shard, anywhere before Left
//
//	(Assigned Revoke? Lost?)*
//
// Each shard is owned by one member at a time, as by a lock, with a fencing token. Shards move only
// as even shares demand, when their owner gives them, or at its time limit.
//
// In short: every shard has one owner, and no leader decides.
//
// # Discovery
//
// Import github.com/zkactors/zkactors/primitives/discovery to register the instances of services,
// and to find and choose them, in the formats of Curator and of ServerSets. The events of an
// instance that is registered are
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// An instance is registered again after an expiry, as it is then, in the place of the old one. One
// that was unregistered does not come back. A watcher converges to the instances on the server, and
// keeps them while it is cut off.
//
// In short: no phantoms, and no outdated instance beside the present one.
//
// # Barrier
//
// Import github.com/zkactors/zkactors/primitives/barrier to make clients wait for each other. A
// barrier is raised and lifted by any client. Its events are
//
//	(Raised | Released)* Closed
//
// The parties of a double barrier begin and end their work together, in rounds. The events of a
// party are
//
//	(Waiting* (Entered Leaving* (Left | Lost) | Withdrawn))* Closed
//
// A round begins once, with a list of members whose nodes all stand at that moment. It does not end
// while a member has a node. A crashed member delays the others for at most two session timeouts.
//
// In short: no member begins before all are present, and Leave returns when all members have left.
//
// # Queue
//
// Import github.com/zkactors/zkactors/primitives/queue for queues: first in, first out, or by
// priority, also with delays and bounds. An item is taken at most once. Or it is consumed at least
// once, with claims, acknowledgements and dead letters. The events of a consumer are
//
//	(Suspended | Resumed | Lost | Buried)* Closed
//
// An item is put once, taken once and acknowledged once, whatever reply is lost. An item that is
// not acknowledged is delivered again, to any consumer.
//
// In short: no item is put or acknowledged twice, and an unacknowledged item comes again.
//
// # Inspect
//
// Import github.com/zkactors/zkactors/primitives/inspect for operators' programs. It reads the
// nodes that the recipes have left in ZooKeeper, and recognises each recipe by its nodes.
//
// # Contexts and events
//
// A call that acquires, joins or creates something sends no request if its context has already
// ended. The error wraps the cause of the context. A command to a handle may still be carried out:
// the context ends only the wait for it.
//
// A late reader of events begins with the state that holds, such as a grant that was not lost. The
// newest event follows. If that event has undone another, as Resumed undoes Suspended, the reader
// receives neither. When a handle has ended, its last event comes alone.
package primitives
