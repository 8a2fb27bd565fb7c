// Package zkmodel is a model of ZooKeeper and of the session layer, for tests: a tree,
// sessions that lose their connections and expire, requests that are lost or done late,
// followers that lag, and watches. It has the interface that performers ask
// ([client.Session]). So the machines and the performers of production run in it,
// callbacks included.
//
// # What is a step
//
// All is sequential. An [Action] is one thing that happens: a server executes the first
// request of a session, a machine takes the first input of its mailbox, a connection breaks.
// Or its client notices, or a timer fires. The walker chooses; the model is deterministic,
// so a list of actions is a history, which can be repeated, shortened and told.
//
// The server executes a request and the client has the reply in one action. That loses
// nothing: the inputs that follow from a reply wait in a mailbox for as long as the walker
// likes. Everything that the client does meanwhile could have been done before. Between the
// break of a connection and its client's notice the server executes, and the replies are
// lost. Requests of one session are executed in the order in which they were made. Each
// mailbox is read in the order of the wire. Everything else interleaves.
//
// # Faults
//
// [Faults] says how often each may happen: cuts, where requests on the way are in doubt,
// never sent, or done late. Expiry by the client's clock or by the server, a closed session,
// a crashed client. A busy server, which refuses one request, and a follower that lags until
// a sync, a write or a reconnect. Operators: a node deleted, a whole tree deleted, an empty
// container reaped.
//
// # States
//
// Callbacks are closures, and closures cannot be copied. So the walker never copies a world: it
// repeats the actions from the start, which are some microseconds each. It cuts off where it has
// been before. [World.Key] is a hash of every field of the world, by reflection, so that no field
// can be forgotten. It includes the machines, the performers and all that they share. What a
// closure has captured cannot be seen by reflection; but it is a function of what was asked and
// what was answered. All consequences of one effect are one activity, which keeps a hash of the
// effect and of all answers so far. Requests that wait are hashed with it. What performers keep
// outside of closures they keep in structs: [World.Share] takes these. Where several activities
// change what one closure has captured, the order between them counts too: with [World.Serial] the
// key depends on it.
//
// # Assumptions
//
// A late request is done before the janitor's list that looks for its node is answered: in
// package session, connections begin with a sync. After a reconnect the watches are set
// before anything else is served; with [World.Weak], reads that plant a watch and were lost
// are repeated after what waited. Timers fire in any order, and the clock jumps to the moment
// for which they were set.
package zkmodel
