// Package config keeps typed values in ZooKeeper: a service's configuration, a feature switch, a
// counter.
//
// A [Value] is a view of one node that follows its changes, with methods to write it. Its [Event]
// values are
//
//	(Changed | Deleted | Invalid)* Closed
//
// The first event reports the present state. Each event is a level: the next replaces it if it was
// not received yet. A slow reader delays no other. Data that does not decode is [Invalid], and
// [Value.Last] still returns the last good value.
//
// # Writes
//
// [Value.Set] and [Value.Update] happen once or not at all, whatever reply is lost. Reading the
// value back could not show which client wrote it. So each write is one transaction, which also
// writes to a marker: the marker records that the client's newest write was done. An error wraps
// [session.ErrUnknownOutcome] in three cases only: the session expired before the reply came; the
// caller's context ended while the write was in flight; or another client deleted the marker, wrote
// to it, or made it unreadable. Every other error means that nothing was written.
//
// In short: ten clients that each increment a counter a hundred times end at one thousand.
//
// The record of another recipe, such as that of a semaphore, is not overwritten: [ErrForeign].
//
// A [Transactor] reads and writes several values at once: its transactions are serializable, and
// run again by themselves.
//
// [CuratorLong], [CuratorInteger] and [KazooCounter] are codecs for counters that Curator and kazoo
// count too.
//
// The server compares versions, and a node that is deleted and created again begins with version 0
// again. While others update a node, set it, and do not delete it.
//
// # Markers
//
// A handle that has written has one ephemeral node, `_c_<uuid>-<epoch>-<name>`. It is in the
// directory `_config-markers` beside the value, or in [Options.Markers]: never below the value,
// which could not be deleted then. Its data is the number of the handle's newest write. The first
// write waits for the first reading of the value, and then for the marker: a round trip each.
// [Value.Close] deletes the marker, and so does the end of the session. The server removes the
// directory, a container, when it has been empty for a while.
//
// A value can be deleted with [session.Session.Delete]. It is a persistent node, and Set creates
// its missing ancestors as containers. Never keep a value in an ancestor of another value: the
// server removes a container, with its data, after its last child.
package config
