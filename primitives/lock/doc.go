// Package lock implements fair distributed locks: exclusive ones, and ones for readers and writers.
//
// Contenders stand in line in the order in which they came. The first holds the lock; readers hold
// it together, up to the first contender that excludes them. A handle is acquired at most once, and
// is over when it is released or lost. Its [Event] values arrive in the order in which things
// happened:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)* (Released | Lost) | Released | Failed)
//
// Suspended and Resumed alternate, and Revoked comes at most once. A waiter whose node is deleted,
// or whose session expires, joins the line again at its end, by itself and in time. A holder
// receives [Lost] in these cases. [Failed] comes to a contender that there is no place for: the
// servers forbid it, or the path is another recipe's. Before a grant nothing is lost.
//
// In the layout [Prioritized] waiters go by [Options.Priority], and may ask the holder to release
// the lock, or take it away. Waiters of a low priority may wait for ever there.
//
// [AcquireAll] holds several locks at once, all or none. Callers that do so never wait for each
// other, in whatever order they name the paths. See [All].
//
// [Once] runs a function once in the life of the cluster, while its caller holds a lock.
//
// # Safety
//
// No two grants of one lock overlap, unless another client deletes the holder's node; then the
// holder receives [Lost]. But ownership is a claim about the ZooKeeper session, not about this
// process: a paused process may believe that it holds a lock that the server has given away. So
// pass [Acquired.Token], which grows with every grant of the path, to whatever the lock protects,
// and refuse smaller tokens there. Servers that come back with older data would grant smaller
// tokens: then there is no grant, with [session.ErrHistoryLost].
//
// For a resource that checks no token, [Options.Delay] has the next holder wait after one that was
// lost.
//
// In short: one holder at a time on the servers, and the token protects from a paused one.
//
// # Neighbours
//
// Nodes have the layout of ZooKeeper's published recipe, `_c_<uuid>-lock-<number>` under the path
// of the lock, so Curator and go-zookeeper can stand in the same line. Children with other names
// are ignored, unless they look like contenders of another lock: see [Layout]. The path belongs to
// the lock: keep it empty. If it carries data when a session first uses it, or may not be written
// to, it is left alone, at the price of a round trip. Later data is lost.
//
// # Backpressure
//
// A lock never waits for its reader. Undelivered [Waiting] events collapse into the newest, and an
// undelivered [Suspended] vanishes with its [Resumed]. No other event is dropped.
package lock
