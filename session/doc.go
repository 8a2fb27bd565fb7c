// Package session talks to ZooKeeper.
//
// A [Session] is an actor. It keeps one ZooKeeper session after another, each an
// epoch with a client connection of its own, and tells what becomes of them:
//
//	(Connected (Suspended Resumed)* Suspended? Expired)* (Connected (Suspended Resumed)* Suspended?)? Closed
//
// # When a session is lost
//
// The leader of the servers expires a session of which it has heard nothing for the
// negotiated timeout T, and deletes its ephemeral nodes. The session computes a deadline
// before that moment, by its own clock. When the deadline passes, the session counts
// itself as lost, whether or not a server says so:
//
//	deadline = base + T - margin
//
// The base is the time at which a request was sent that the leader has provably heard of.
// The margin is T/40 (10 to 250 ms). It absorbs clocks that run at different rates.
//
// A leader hears of sessions in reports. It pings each follower every half a tick, and the
// follower answers with the sessions that it has heard since the ping before. Messages
// between the two arrive in order. Three requests on one connection prove that a report
// has arrived:
//
//  1. The server answers request A: it has heard the session.
//  2. The session sends request B at least 5/8 of a tick after that answer. The leader
//     takes part in the answer to B. A ping arrives between the two answers, so a report
//     with A has left the server when the answer to B arrives.
//  3. The session sends request C after that. The leader takes part in the answer to C.
//     The report was ahead of C: the leader counts from A, or from later.
//
// Committed transactions and syncs can be B and C. Reads and pings can only be A: a server
// that is cut off from its leader continues to answer them. A handshake is proof by itself,
// because the leader agrees to it.
//
// This proof concerns the leader that the server of the connection follows. That leader
// may be deposed without knowing it, and continues to answer syncs and handshakes until it
// notices, which takes syncLimit ticks. The next leader gives each session a whole timeout
// when its reign begins. A committed transaction proves that no such reign had begun when
// the transaction was sent: a quorum followed the old leader. So while a recipe holds, or
// contends for, what excludes others, it relies on the session: the base is the earlier of A
// and the newest committed transaction of the same connection.
//
// The base that is proven when the reliance begins is kept, without a transaction. A grant
// rests on a transaction that is sent later. The leader that commits it is the leader of
// this connection, or it agrees to a later handshake. In both cases it counts from the base
// or from later, and its successors begin later.
//
// A heartbeat is a sync every T/9, unless other requests make it superfluous. While a recipe relies on the session, every
// second heartbeat is a transaction that checks a node and changes nothing. Each reconnect begins with one.
// [LeaseAnswered] saves these transactions, and gives up the protection against deposed leaders.
//
// The price: a failover among the servers that takes longer than the rest of the lease
// costs the session. At the first heartbeat without an answer the rest is 0.64 T if
// [Options.ServerTick] is a small tick, and 0.41 T by default.
//
// Limits: a process that is paused between a look at the clock and its next action can act
// too late. On Linux the session's clock goes on while the machine sleeps; elsewhere it does
// not. Timers stand still meanwhile: if the deadline passes during the sleep, the loss is
// reported within T/9 after it. A leader that is paused for longer than an eighth of a tick,
// and is cut off at that moment, may have missed a report. All servers must allow the same
// session timeouts: a server that grants a shorter one, and whose answer to the handshake is
// lost, shortens the lease without the knowledge of the session.
//
// # Servers
//
// [Start] returns at once, and the session is connected when a server answers. [Open] waits for that.
// [Session.SetServers] and [Options.Resolve] replace the list of servers. A session moves only if its
// server leaves the list, or if an even spread over a longer list demands it. It loses no request by
// that. [Options.Auth], [Options.SASL] and [Options.TLS] authenticate the session. With
// [Options.ReadOnly], a server that has lost its quorum answers blocking reads. It extends no lease,
// and recipes do not notice it.
//
// # Requests
//
// Requests are sent in the order in which one goroutine makes them, one behind the other,
// without waiting for replies. While the session is suspended they wait. A request for one
// epoch is never executed in a later one. A read whose reply is lost is repeated; a write
// is not, if repeating could act twice: it fails with [ErrUnknownOutcome]. All errors of
// requests wrap an [*OpError].
//
// Recipes are built on the asynchronous requests of [Async]. Their answers, watch
// events and the session's own events come in the order of the wire.
package session
