// Package primitives is the index of the recipes. It has no code of its own.
//
// # Lock
//
// Import github.com/zkactors/zkactors/primitives/lock for mutual exclusion
// between processes, first come, first served: exclusive locks, locks for readers and
// writers, and locks with priorities. Any of them can be asked for, and taken by force. Their
// events are
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)*)? (Released | Lost)
//
// From Acquired until Done is closed no client is granted the lock that the holder
// excludes, unless another client deletes its node; and every grant that excludes others
// has a token that is greater than those of all such grants before it.
//
// # Semaphore
//
// Import github.com/zkactors/zkactors/primitives/semaphore to bound how many work at once,
// with weights, first come, first served. Its events are
//
//	Waiting* (Acquired (Suspended | Resumed)*)? (Released | Lost)
//
// A lease is held with all of its weight or not at all. At every grant, its weight and
// those of all leases ahead of it are within the recorded limit. The limit can be changed
// at any time.
//
// # Election
//
// Import github.com/zkactors/zkactors/primitives/election for leader election: candidates,
// observers, and a function that works while its candidate leads. Its events are
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with Standing, LeaderChanged and Overrun anywhere before Left. No candidate is elected before
// the last leader has received Deposed, unless another client deletes its nodes; terms are fencing
// tokens, and the events about leaders never go back. A deposed candidate stands again by itself.
//
// # Commit
//
// Import github.com/zkactors/zkactors/primitives/commit for two-phase commit. The events of a
// coordinator are
//
//	Voted* (Committed | Aborted | Left)
//
// and those of a site, for each transaction, and Left after all others
//
//	Prepare? (Committed | Aborted | Forgotten)?
//
// No two parties receive different outcomes of one transaction, whatever crashes and whatever reply is
// lost. It is committed only if every site voted Yes.
//
// # Config
//
// Import github.com/zkactors/zkactors/primitives/config for typed values that are
// watched, set, and updated by compare-and-set. Its events are
//
//	(Changed | Deleted | Invalid)* Closed
//
// Every write is done once or not at all, whatever reply is lost; its outcome is unknown only
// if the session expired, the caller left, or another client touched the writer's marker,
// before it could be found out. The view never goes back, and ends with the newest value.
//
// # Group
//
// Import github.com/zkactors/zkactors/primitives/group for membership: which members
// are there, with what payload. Its events are
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// with MembersChanged anywhere before Left, until Blinded. A member that leaves is gone at
// once, and one that crashes with its session. A member whose session expires joins again
// by itself, unless another has its id by then; what is told of the others converges to
// what the server has, and never goes back.
//
// # Naming
//
// Import github.com/zkactors/zkactors/primitives/naming for a name service. Names are
// persistent, or live with a session and are registered again by themselves after an
// expiry. The events of a name that is kept are
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// A name belongs to one at a time; what became of a request whose reply was lost is found
// out, or said to be unknown if another client has changed the name since.
//
// # Barrier
//
// Import github.com/zkactors/zkactors/primitives/barrier to have clients wait for each other: at
// a barrier that any of them raises and lifts, whose events are
//
//	(Raised | Released)* Closed
//
// and in rounds that begin and end together. The events of a party are
//
//	(Waiting* (Entered Leaving* (Left | Lost) | Withdrawn))* Closed
//
// A round begins once, with a list of members whose nodes all stand at that moment. It does not
// end while a member has a node, and a crashed member delays the others for at most two session
// timeouts.
//
// # Queue
//
// Import github.com/zkactors/zkactors/primitives/queue for queues: first in, first out, or by priority; also delayed,
// or bounded. An item is taken at most once, or consumed at least once, with claims, acknowledgements and dead
// letters. The events of a
// consumer are
//
//	(Suspended | Resumed | Lost | Buried)* Closed
//
// An item is put once, taken once and acknowledged once, whatever reply is lost. An item that is not acknowledged is
// delivered again, to any consumer.
//
// # Inspect
//
// Import github.com/zkactors/zkactors/primitives/inspect for what all of these leave in ZooKeeper: it recognises recipes by
// their nodes, for operators.
//
// # Contexts and events
//
// A call that acquires, joins or makes something sends nothing if its context has ended before. The error wraps the cause of
// the context. A command to a handle may be carried out all the same: its context ends the waiting.
//
// A reader of events that comes late begins with what holds by then, such as a grant that was not lost. The newest
// event follows, unless it has undone another, as Resumed does Suspended: then neither is told.
package primitives
