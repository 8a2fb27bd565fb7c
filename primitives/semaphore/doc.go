// Package semaphore implements fair distributed semaphores with weights.
//
// A semaphore limits how many work at the same time, on however many machines. It limits
// concurrency, not rate. Contenders stand in line in the order in which they came, each for a lease
// of some weight. A lease is held with its whole weight or not at all, and the first contenders
// whose weights are within the limit in sum hold theirs. So no two contenders wait for each other.
// No contender overtakes one that wants more than is free, so none starves. A handle is acquired at
// most once. Its [Event] values arrive in the order in which things happened:
//
//	Waiting* (Acquired (Suspended | Resumed)* (Released | Lost) | Released | Failed)
//
// Suspended and Resumed alternate. A waiter whose node is deleted, or whose session expires, joins
// the line again at its end, by itself. A holder receives [Lost] in these cases. [Failed]
// comes to a contender that there is no place for, as when another limit is recorded.
//
// # The limit
//
// The first contender records the limit at the path. It goes with the path some time after the last
// lease, unless [SetLimit] has created it. A contender that asks for another limit gets [ErrLimit],
// unless it has [Options.AnyLimit]. [SetLimit] changes the limit at once: when it rises, waiters
// proceed; when it sinks, holders keep their leases, so for a while more may be held.
//
// # Numbers
//
// A lease with [Options.Numbered] has the smallest free number, which no other lease has while it
// is held: for the workers of a generator of IDs, for ports, for slots. See [Lease.Number].
//
// # Safety
//
// At every grant, the weights of the lease and of all leases ahead of it are within the server's
// limit at that moment. But a lease is a claim about the ZooKeeper session: a paused process may
// believe in a lease that the server has given away. [Lease.Guard] makes the server refuse its
// transactions. There is no fencing token: [Lease.ID] identifies a lease, and has no order.
//
// In short: the limit holds on the servers, and the guard protects from a paused holder.
//
// # Layout
//
// The path holds the limit as text: "10 unit", or "10" once there has been a lease of another
// weight than 1, or where it was written by hand. The line is `<path>/leases`, with nodes
// `_c_<uuid>-lease-<number>` and `_c_<uuid>-lease-<weight>-<number>`. The number of a lease is an
// ephemeral node in `<path>/numbers`, whose data is the name of the lease's node. Where contenders
// of another layout stand, such as Curator's or kazoo's, the error is [ErrLayout]. Holders write to
// their own nodes to wake the contenders behind. A lease never waits for its reader: undelivered
// [Waiting] events collapse into the newest, and an undelivered [Suspended] vanishes with its
// [Resumed].
package semaphore
