// Package zkmodel is a model of ZooKeeper and of the session layer, for tests: a tree, sessions
// that lose their connections and expire, requests that are lost or executed late, followers that
// lag, and watches. It implements the interface that performers use ([client.Session]). So the
// machines and the performers of production run in it, with their callbacks.
//
// # Steps
//
// The model is sequential. An [Action] is one thing that happens: a server executes the first
// request of a session, a machine takes the first input of its mailbox, a connection breaks, its
// client notices that, a timer fires. The walker chooses the actions, and the model is
// deterministic. So a list of actions is a history, which can be repeated, shortened and described.
//
// In one action the server executes a request and the client receives the reply. That loses no
// interleaving: the inputs that follow from a reply wait in a mailbox for as long as the walker
// likes, and whatever the client does before it takes them could have been done before the reply.
// After a connection breaks, the server executes requests until the client notices, and their
// replies are lost. Requests of one session are executed in their order, and each mailbox is read
// in the order of the wire. Everything else interleaves.
//
// # Faults
//
// [Faults] says how often each fault may happen. A connection breaks, and the requests on their
// way are in doubt, never sent, or executed late. A session expires by the client's clock or by
// the server, or is closed; a client crashes. A busy server refuses one request, or a client may
// not do what it asks for. A follower lags until a sync, a write or a reconnect. An operator
// deletes a node or a whole tree, reaps an empty container, or restores older data from a backup.
// A restore ends all sessions. A relapse is a restore that sessions outlive: their watches do not
// report data that is older than the data they have read.
//
// # States
//
// Callbacks are closures, which cannot be copied. So the walker never copies a world: it repeats
// the actions from the start, which takes some microseconds each. It stops where it has been
// before. [World.Key] is a hash of every field of the world, by reflection, so that no field is
// forgotten: machines, performers, and everything that they share. Reflection does not see the
// variables that a closure captures. But these depend only on requests and answers. So all
// consequences of one effect are one activity, which keeps a hash of the effect and of all answers
// so far, and waiting requests are hashed with their activity. State that performers keep outside
// of closures is in structs, which [World.Share] adds to the hash. If several activities change a
// variable that one closure has captured, their order counts too: with [World.Serial] the key
// depends on it.
//
// # Assumptions
//
// A late request is executed before the answer to the janitor's list that looks for its node: in
// package session, connections begin with a sync. After a reconnect the watches are set before any
// other request. With [World.Weak], reads that plant a watch and were lost are repeated after the
// requests that waited. Timers fire in any order, and the clock jumps to their time.
package zkmodel
