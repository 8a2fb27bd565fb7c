// Package session talks to ZooKeeper.
//
// A [Session] is an actor. It keeps one ZooKeeper session after another, each an epoch with its own
// connections, and reports their fate, with Away for Suspended Lapsed?:
//
//	(Connected (Away Resumed)* Away? Expired)* (Connected (Away Resumed)* Away?)? Closed
//
// A session lives for as long as the servers keep it, however long they are out of reach: Expired
// is what a server has said. What excludes others is lost earlier.
//
// # When a grant is lost
//
// The leader of the servers expires a session of which it has heard nothing for the negotiated
// timeout T. It deletes the session's ephemeral nodes, and others may be granted what they stood
// for. So while a recipe holds something exclusive, the session has a lease, whose deadline is
// before that moment by its own clock. When the deadline passes, the session lapses: all that is
// held is lost, whether or not a server says so.
//
//	deadline = base + T - margin
//
// The session goes on, and so does all else that it has: members, instances, names, places in line,
// watches. The nodes of what was lost are deleted first when it is connected again. Requests that
// have waited fail, because they may have been made under a grant. A session that holds nothing
// does not lapse, and its requests wait for their contexts. An ephemeral node of the caller's own
// excludes others only if they agree on that, so the session has no deadline for it: a program that
// builds on such a node stops at Suspended.
//
// The base is the time at which a request was sent that the leader has provably heard of. The
// margin is T/40 (10 to 250 ms). It absorbs clocks that run at different rates.
//
// In short: a holder learns of the loss before the servers give its nodes away.
//
// A leader hears of sessions in reports. It pings each follower every half a tick. The follower
// answers with the sessions that it has heard since the last ping. Messages between the two arrive
// in order. Three requests on one connection prove that a report has arrived:
//
//  1. The server answers request A: it has heard the session.
//  2. The session sends request B at least 5/8 of a tick after that answer. The leader takes part
//     in the answer to B. A ping arrives between the two answers, so a report with A has left the
//     server when the answer to B arrives.
//  3. The session sends request C after that. The leader takes part in the answer to C. The report
//     was ahead of C: the leader counts from A, or from later.
//
// Committed transactions and syncs can be B and C. Reads and pings can only be A: a server that is
// cut off from its leader continues to answer them. A handshake is proof by itself, because the
// leader agrees to it.
//
// This proof concerns the leader that the server of the connection follows. That leader may be
// deposed without knowing it. It continues to answer syncs and handshakes until it notices, which
// takes syncLimit ticks. The next leader gives each session a whole timeout when its reign begins.
// A committed transaction proves that no such reign had begun when the transaction was sent: a
// quorum followed the old leader. So a recipe that holds, or contends for, something exclusive
// relies on the session. Meanwhile the base is the earlier of A and the newest committed
// transaction of the same connection.
//
// The base that is proven when the reliance begins is kept, without a transaction. A grant rests on
// a transaction that is sent later. The leader that commits it is the leader of this connection, or
// it agrees to a later handshake. In both cases it counts from the base or from later, and its
// successors begin later.
//
// A session with nothing at stake, neither a recipe that relies on it nor an ephemeral node, needs
// no proof. Its base is the newest request that was answered. Its heartbeat is a ping every T/3, as
// with a plain client, which the server answers alone. If something is at stake then, and the last
// proof is older than half of the lease, the session sends a sync at once. Requests wait for its
// answer, so that the first grant rests on a proof: the sync is B, and the creation is C. The first
// grant after pings takes one round trip more. Later grants and waiters do not pay it. After the
// last recipe the heartbeats are syncs for one T more.
//
// A session that has lapsed has no base. The requests of recipes go out when a later connection has
// proved the lease anew, by a committed transaction. An answer of before is not given to a recipe
// any more.
//
// A session with claims of items only needs no proof if all answers are slow. Its base is then the
// newest request in whose answer the leader took part, less 5/8 of a tick and T/9. When a recipe
// relies on the session, the proven base counts.
//
// With something at stake, heartbeats are syncs, unless other requests make them superfluous. They
// are T/9 apart, or longer if [Options.ServerTick] allows it. While a recipe relies on the session,
// some heartbeats are transactions that check a node and change nothing. A heartbeat is a
// transaction if its answer would otherwise prove more than the newest transaction bears: one of
// five by default, one of three with a small tick. Each reconnect begins with one. The second
// heartbeat behind another request comes up to half an interval early, so that heartbeats of many
// sessions do not coincide. If the server of the session is certain to follow another, the
// transactions of all clients serve, and if it is certain to be alone, none is needed: see
// [LeaseProven]. [LeaseAnswered] saves the transactions anywhere, and gives up the protection
// against deposed leaders.
//
// Heartbeats do not wait for each other. If an answer takes longer than T/36, proofs overlap: each
// begins T/9 after the last, and its requests B and C are sent at the first moment. So the lease
// bears answers that take a quarter of it: see [Options.Timeout].
//
// A long reply keeps the connection full. The answers to heartbeats come behind it, all at once.
// The next request of a caller waits for these answers, at most for a sixteenth of the time that
// the reply took. A heartbeat goes out ahead of it. That heartbeat is request C of one proof and A
// of another, and B is sent during the reply. A proof takes two replies, or three if one takes less
// than 5/8 of a tick: the lease bears replies that take nearly half of it.
//
// A server is silent if requests wait for replies, no byte of a reply arrives, and the server takes
// no byte of a request. Events of watches count for a while. Then the session looks for another
// server. The requests of callers in flight are bounded: by the time that they take, T/20, so that
// no heartbeat waits longer behind them; by 512 requests; and by 64 MiB of requests and replies.
// Further requests wait in the session, and fail by their own context only.
//
// The price: a failover among the servers that takes longer than the rest of the lease costs the
// grants. At the first heartbeat without an answer the rest is 0.64 T if [Options.ServerTick] is a
// small tick, and 0.41 T by default. Where 0.64 T is over 10 s, the session saves heartbeats
// instead: the rest is then 10 s, or the default if that is more.
//
// Limits: a process that is paused between a look at the clock and its next action can act too
// late. On Linux the session's clock continues while the machine sleeps; elsewhere it does not.
// Timers stand still meanwhile: if the deadline passes during the sleep, the session reports that
// within T/9 after it. A leader that is paused for longer than an eighth of a tick, and is cut
// off at that moment, may have missed a report. An observer that is connected to a follower
// (observerMasterPort) reports one hop later than the proof allows. Give a session that relies on
// its lease voting servers, or observers of the leader: see docs/adr/0044. All servers must allow
// the same session timeouts. If a server grants a shorter one, and its answer to the handshake is
// lost, the lease ends earlier than the session knows.
//
// # Servers
//
// [Start] returns at once, and the session is connected when a server answers. [Open] waits for
// that. [Session.SetServers] and [Options.Resolve] replace the list of servers. A session moves
// only if its server leaves the list, or if an even spread over a longer list demands it. A move
// loses no request. A session that had to go to another server returns to its own when that is
// back: see [Options.Rebalance]. [Options.Auth], [Options.SASL] and [Options.TLS] authenticate the
// session. With [Options.ReadOnly], a server that has lost its quorum answers blocking reads. It
// extends no lease, and recipes do not notice it.
//
// The session learns which operations a server lacks, without a request of its own. ZooKeeper 3.4
// is refused with [ErrUnimplemented]. ClickHouse Keeper resumes no session: there, a lost
// connection is an expiry, containers are persistent nodes, and operations without a substitute are
// refused. See docs/adr/0058.
//
// # Requests
//
// Requests are sent in the order in which one goroutine makes them, one behind the other, without
// waiting for replies. While the session is suspended they wait; if it lapses, which it does only
// if something was held, they fail with [ErrLapsed]. A request for one epoch is never executed in a
// later one. A read whose reply is lost is repeated. A write is repeated only if that cannot act
// twice; otherwise it fails with [ErrUnknownOutcome]. All errors of requests wrap an [*OpError].
//
// In short: a write takes effect at most once. If the outcome is unknown, its error says so.
//
// Recipes use the asynchronous requests of [Async]. Their answers, watch events and the session's
// own events arrive in the order of the wire.
package session
