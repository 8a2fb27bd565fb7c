// Package zktest gives tests a ZooKeeper to break: a server in memory
// ([Start]), real servers on this machine ([StartEnsemble]), and a proxy
// ([NewProxy]). The proxy stands between clients and servers, and treats their
// connections as networks do. The server in memory is for tests only: it has no
// persistence, and no consensus; its replicas share one memory.
//
// It speaks the real protocol to any client, and answers as ZooKeeper 3.8 does: to more
// than a thousand requests it gives the very answers that were recorded from a real
// server. go-zookeeper, kazoo and Curator cannot tell the difference.
//
// # Faults
//
// What can be done to connections is the interface [Faults]. It is the same
// for a server in memory and for a proxy, so that a table of faults is written
// once. The server in memory offers more: it answers with errors
// ([Server.AnswerError]), keeps the nodes of sessions that have expired
// ([Server.KeepEphemerals]), and delivers notifications late
// ([Server.DelayEvent]). It loses requests or replies without cutting the
// connection ([Server.SwallowRequest], [Server.SwallowReply]).
//
// # Replicas
//
// With [Replicas], the server is several: each client is connected to one of
// them, reads the state of that one, and gets its watch events from it.
// Writes, syncs and new sessions go through the leader, and bring the replica
// up to date. A replica that lags answers with what was; one that is cut off
// ([Server.Isolate]) goes on doing so while the leader expires its clients.
//
// # Time
//
// The server can do without sockets ([InProcess], [Server.Dialer]), so that it
// works in a bubble of testing/synctest: half a minute of session timeout
// passes in microseconds there. Elsewhere a [ManualClock] does the same.
// [Latency] makes each direction of a connection take its time, and lets
// requests overlap, so that round trips can be counted.
//
// # What differs from a real server
//
// There is no persistence, no quota, no SASL, no TLS, no reconfiguration and no
// super user. A replica that lags catches up at once when it has to talk to the
// leader. Sequence numbers go on from 2147483647 to -2147483648, as ZooKeeper's
// documentation has it, but see [StuckSequences]. Nodes with a TTL are enabled.
package zktest
