// Package watch turns znodes into channels of their states.
//
// A [Watch] is a view of one node: [Node] of its data, [Children] of the names of its children,
// [Value] of its data as a value of the user's type. Its channel begins with the present state, and
// delivers each newer state, or the newest of several:
//
//   - It converges, whatever happens to connections and sessions, even if the node is deleted,
//     created again, or does not exist yet. It delivers the newest state within two round trips
//     after a connection is back.
//   - It never goes back within a session, even if the session moves to a server that lags. The
//     next session is brought up to date before its first read. Then it delivers what the servers
//     have, which is older data if they were restored from a backup.
//   - It is a level, not a log: a slow reader receives the newest state, and delays no other. Added
//     and Removed are relative to the last state that this reader has received.
//
// In short: after the last change, every reader arrives at it.
//
// A [Cache], made by [Tree], has the same properties for a node and everything below it. It takes
// one round trip more for each level of new nodes.
//
// A watch ends when it is closed, when its session is closed, or when the server does not let the
// node be read. [Watch.Err] returns the reason, and the channel is closed.
//
// The session owns the watches on the server: one for each aspect of a node, however many
// subscribers it has here, and one read for each change. It keeps them for a while after the last
// subscriber.
package watch
