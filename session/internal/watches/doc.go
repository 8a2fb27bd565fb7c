// Package watches has the watches of a session: one on each aspect of each node, for all
// subscribers. A read delivers the node to them and plants the watch; when that fires, the node is
// read again.
//
//	session ── Follow ──► Table ── Read, Plant, Unwatch ──► Epoch ──► requests
//	   ▲                    │ ▲                                          │
//	   └─── Receiver ◄──────┘ └──── Answered, Planting.Answered, Fired ◄─┘
//
// The package makes no requests and knows no connection. An [Epoch] makes its requests, in one
// ZooKeeper session; their answers, and the events of watches, come to the [Table] in the session's
// order. keys.go names the watches that stand on the server, for the connection that sets them
// again.
package watches
