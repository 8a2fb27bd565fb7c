// Package conn is the part of a session that is close to the wire: one ZooKeeper session after the
// other, the connections of each, one after the other, and the calls that go out on them.
//
//	session.go      what the epochs of a session share, and the interface to the session above
//	epoch.go        one ZooKeeper session: the queue of calls, and its state across connections
//	call.go         one request, from its submission until its answer
//	coalescer.go    which writes share a transaction
//	connection.go   one connection: frames go out, and replies are matched with calls
//	client.go       go-zookeeper's client, which dials and keeps the session's id
//	handshake.go    the beginning of a connection: the server's answer to the connect request
//	restore.go      after the handshake: credentials, and watches that are set again
//	dialect.go      operations that some servers do not have, and their replacements
//	readonly.go     connections to servers that have lost their quorum
//	heartbeat.go    requests of the session itself, and when the server counts as silent
//	nudge.go        a ping for a server that has forgotten to answer
//	stake.go        the proofs for the lease, and when it ends
//	tend.go         the regular work on a connection, and when it is due next
//	reconnect.go    after the end of a connection, or of the epoch
//	rebalance.go    the return to the server where the session belongs
//
// A [Session] has the state that the epochs share. The package calls two interfaces above itself:
// the [Owner], which is the session of users, and the [Caller] of each [Call].
package conn
