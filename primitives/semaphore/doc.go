// Package semaphore implements fair distributed semaphores with weights.
//
// A semaphore bounds how many work at once, on however many machines: not how often, it is
// no rate limiter. Contenders stand in line in the order in which they came, each for a
// lease of some weight. Those at the head whose weights are within the limit in sum hold
// their leases. A lease is held with all of its weight or not at all. So two contenders
// that want two of two never wait for each other; and no contender overtakes one that wants
// more than is free, so that none starves. One handle is one tenancy, as with locks. Its
// [Event] values arrive in the order in which things happened:
//
//	Waiting* (Acquired (Suspended | Resumed)*)? (Released | Lost)
//
// Suspended and Resumed come in turn. A waiter whose node is deleted by another client, or
// whose session expires, joins the line again at its end, by itself; a holder receives
// [Lost] in these cases.
//
// # The limit
//
// The first contender records it at the path. It goes with the path some time after the last
// lease, unless [SetLimit] made it. To ask for another limit is [ErrLimit], unless
// [Options.AnyLimit] says that any will do. [SetLimit] changes it live: contenders in line go
// on, waiters proceed at once when it rises, and holders keep their leases when it sinks. Until
// they have released, more may be held.
//
// # Safety
//
// At every grant, the weights of the lease and of all leases ahead of it are within the
// server's limit at that moment. But a lease is a claim about the ZooKeeper session: a
// paused process may believe in one that the server has given away. [Lease.Guard] has
// the server refuse its transactions. There is no fencing token: [Lease.ID] tells leases
// apart, and has no order.
//
// # Layout
//
// The path holds the limit as text: "10 unit", or "10" once there has been a lease of another weight than 1, or where it was written by hand; the line is
// `<path>/leases`, with nodes `_c_<uuid>-lease-<number>` and `_c_<uuid>-lease-<weight>-<number>`. Where others have leases or contend in another layout, such as
// Curator's or kazoo's, the error is [ErrLayout]. Holders write to their own nodes to wake the contenders behind. A lease never waits for the reader of its events:
// undelivered [Waiting] events collapse into the newest, and an undelivered [Suspended] vanishes with its [Resumed].
package semaphore
