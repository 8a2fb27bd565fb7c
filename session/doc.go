// Package session talks to ZooKeeper.
//
// A [Session] is an actor. It keeps one ZooKeeper session after another, each an
// epoch with a client connection of its own, and tells what becomes of them:
//
//	(Connected (Suspended Resumed)* Suspended? Expired)* (Connected (Suspended Resumed)* Suspended?)? Closed
//
// # When a session is lost
//
// A server forgets a session that it has not heard of for the negotiated timeout T,
// and gives away what it held. The session knows when that may happen, by its own
// clock, and counts itself as lost before, whether or not a server says so. Only
// answers in which the leader had a part put that moment off: committed writes, a
// sync, an accepted handshake. Pings and reads do not, because a server that is cut
// off from its leader goes on answering them. When there is nothing else to ask, a
// sync goes out every T/6.
//
// The leader counts from what it has been told. A server that is in touch with it
// reports once in half a tick whom it has heard. So the newest request that was answered
// half a tick before another was sent, which the leader then had a part in, is one that
// the leader knows of: the deadline is when that was sent, plus T, minus a margin of T/40
// (10 to 250 ms). A handshake needs the leader's consent, and counts at once.
//
// The price: a failover among the servers that takes longer than what is left costs the
// session. With the default of [Options.ServerTick] that is about 0.47 T after a sign of
// life that did not come; telling the servers' true tickTime makes it up to 0.64 T.
//
// What it does not promise: a process that is paused between looking at the clock
// and acting can act too late.
//
// # Requests
//
// Requests are sent in the order in which one goroutine makes them, one behind the
// other, without waiting for replies. While the session is suspended they wait. What was
// made for one epoch is never executed in a later one. A read whose reply is lost is
// repeated; a write is not, if repeating could act twice: it fails with
// [ErrUnknownOutcome]. All errors of requests wrap an [*OpError].
//
// Recipes are built on the asynchronous requests of [Async], whose answers, together
// with watch events and the session's own, come in the order of the wire.
package session
