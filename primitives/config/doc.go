// Package config keeps typed values in ZooKeeper: a service's configuration, a
// feature's switch, a counter.
//
// A [Value] is a view of one node that stays true, and writes to it. The view is told
// as [Event] values:
//
//	(Changed | Deleted | Invalid)* Closed
//
// The first tells what is there at present. Data that does not decode is [Invalid], and
// the last good value stays: [Value.Last]. Each is a level: an event that was not
// received yet is replaced by the next, and a slow reader delays no other.
//
// # Writes
//
// [Value.Set] and [Value.Update] happen once or not at all, whatever reply is lost: a
// counter that ten clients increment a thousand times ends at one thousand. Reading the
// value back could not tell which client wrote it. So each write is one transaction with a
// write to a marker, which says that the client's newest write was done. An error that wraps
// [session.ErrUnknownOutcome] is left for three cases. The session expired before the reply
// came. The caller's context ended while the write was under way. Or another client deleted
// the marker, wrote to it, or keeps it from being read. Every other error means that nothing
// was written.
//
// The server compares versions, and a node that is deleted and made again begins with
// version 0 again. While others update a node, set it, and do not delete it.
//
// # Markers
//
// A handle that has written has one ephemeral node, `_c_<uuid>-<epoch>-<name>`, in the
// directory `_config-markers` beside the value, or in [Options.Markers]: not below the value,
// which could not be deleted then. The node holds the number of the handle's newest write. It is
// created before the first write, which costs a round trip, and is gone after [Value.Close], or
// with the session; a handle that only reads has none. The directory is a container, which the
// server removes when it has been empty for a while.
//
// A value can be deleted with [session.Session.Delete]. It is a persistent node; what
// is missing above it is made with it, as containers. So do not keep a value in what stands
// above another one: the server removes a container with its last child, and with its data.
package config
