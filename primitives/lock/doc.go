// Package lock implements fair distributed locks: exclusive ones, and ones for readers
// and writers.
//
// A lock is a place in line: contenders stand in the order in which they came, and the
// first holds the lock, or all readers before the first that excludes them. One handle is
// one tenancy: acquired at most once, and over when it is released or lost. Its [Event]
// values arrive in the order in which things happened:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)*)? (Released | Lost)
//
// Suspended and Resumed come in turn, and Revoked at most once. A waiter whose node is deleted by
// another client, or whose session expires, joins the line again at its end, by itself; a holder
// receives [Lost] in these cases.
//
// In the layout [Prioritized] waiters go by [Options.Priority], and may ask the holder to
// release it, or have it taken away. Low priorities may wait for ever there.
//
// # Safety
//
// No two grants of one lock overlap, unless another client deletes the node of the
// holder, which receives [Lost] then. But ownership is a claim about the ZooKeeper
// session, not about this process: a paused one may still believe that it holds what the
// server has given away. Pass [Acquired.Token], which grows with every grant of the path,
// to whatever the lock protects, and refuse smaller tokens there.
//
// # Neighbours
//
// Nodes are laid out as in ZooKeeper's published recipe, `_c_<uuid>-lock-<number>` under
// the path of the lock. So Curator and go-zookeeper can stand in the same line. Children
// with other names are ignored. The path belongs to the lock: keep it empty. Data that
// it carries when a session first uses it is left alone, and so is a path that may not
// be written to. Each costs a round trip. Later data is lost.
//
// # Backpressure
//
// A lock never waits for its reader. Undelivered [Waiting] events collapse into
// the newest, and an undelivered [Suspended] vanishes with its [Resumed]; the
// others are never dropped.
package lock
