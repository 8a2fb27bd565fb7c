// Package zktest gives tests a ZooKeeper to break: a server in memory ([Start]), real servers on
// this machine ([StartEnsemble]), and a proxy ([NewProxy]). The proxy stands between clients and
// servers, and disturbs their connections as networks do. The server in memory is for tests only:
// it has no persistence and no consensus, and its replicas share one memory.
//
// It speaks the real protocol to any client, and answers as ZooKeeper 3.8 does. To more than a
// thousand requests it gives the very answers that were recorded from a real server. go-zookeeper,
// kazoo and Curator cannot tell the difference.
//
// # Versions
//
// The server in memory answers as one of several versions, or as ClickHouse Keeper: see [Profile].
// Real servers come from Debian's package, or are of any version from 3.5 on ([Version],
// [Versions]). A version is downloaded from Maven once, into the user's cache directory. Its
// archives are checked at every use. An ensemble may mix versions. [Ensemble.Upgrade] replaces a
// server by one of another version over the same data.
//
// # Faults
//
// The interface [Faults] has the faults of connections. A server in memory and a proxy both
// implement it, so that a table of faults is written once. The server in memory offers more. It
// answers with errors ([Server.AnswerError]), keeps the nodes of expired sessions
// ([Server.KeepEphemerals]), and delivers notifications late ([Server.DelayEvent]). It loses
// requests or replies without cutting the connection ([Server.SwallowRequest],
// [Server.SwallowReply]).
//
// # Replicas
//
// With [Replicas] the server consists of several. Each client is connected to one replica, reads
// its state, and receives watch events from it. Writes, syncs and new sessions go through the
// leader, and bring the client's replica up to date. A replica that lags answers with older state.
// A replica that is cut off ([Server.Isolate]) continues to do so while the leader expires its
// clients.
//
// # Time
//
// The server works without sockets ([InProcess], [Server.Dialer]), and so in a bubble of
// testing/synctest, where half a minute of session timeout passes in microseconds. Elsewhere a
// [ManualClock] does the same. [Latency] delays each direction of a connection, and lets requests
// overlap, so that round trips can be counted.
//
// # What differs from a real server
//
// There is no persistence, no quota, no SASL, no TLS, no reconfiguration and no super user. A
// replica that lags catches up at once when it needs the leader. Sequence numbers continue from
// 2147483647 to -2147483648, as ZooKeeper's documentation says; but see [StuckSequences]. Nodes
// with a TTL are enabled.
package zktest
