// Package watch turns znodes into channels: what is there, and whatever becomes of it.
//
// A [Watch] is a view of one node: [Node] of its data, [Children] of the names of its
// children, [Value] of its data as a value of the user's. Its channel begins with the
// present state and brings the newest from then on:
//
//   - it converges: whatever happens to connections and sessions meanwhile, and also if
//     the node is deleted, made again, or not there yet. Within two round trips after
//     there is a connection again the newest state is told;
//   - it never goes back: no state is older than one that was told before, also when the
//     session moves to a server that lags;
//   - it is a level, not a log: a slow reader gets the newest state. What it is told to
//     have been added and removed is relative to what it has received itself, and it
//     delays no other.
//
// A [Cache], made by [Tree], is all that for a node and everything below it. It takes one
// round trip more for each level of nodes that are new.
//
// A watch ends when it is closed, when its session is, or when the server refuses to
// let the node be read: [Watch.Err] tells. Its channel is closed then.
//
// The watches on the server are the session's: one on each aspect of a node, and one read
// for each change, however many watch it here. They are kept for a while after the last
// subscriber.
package watch
