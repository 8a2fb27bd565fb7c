// Package watch waits for what happens to znodes.
//
// The watches themselves are the session's: one on each node, however many wait,
// set again after every reconnect, and kept for the next who asks when nobody
// waits any more. Whoever waits here is told in the order of the wire, and learns
// of what happened while the session was disconnected.
package watch
