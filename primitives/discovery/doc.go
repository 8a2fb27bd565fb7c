// Package discovery registers the instances of services, and finds them, in the formats that others
// read and write: [Curator] (x-discovery of Curator, Spring Cloud Zookeeper) and [ServerSet]
// (Finagle, linkerd, Aurora, Prometheus).
//
// [Register] keeps one instance registered, and reports its fate as [Event] values:
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// Suspended and Resumed alternate. [Watch] follows the instances of a service: [Watcher.Changes] is
// a channel of them, and [Watcher.Pick] chooses one by a [Strategy].
//
// # Layout
//
// An instance is one node: <path>/<service>/<id> of Curator, <path>/<service>/member_<number> of a
// ServerSet. Its data is JSON. The node is ephemeral, unless the instance was published to stay
// ([Publish]). Readers ignore what they do not know: a payload is kept as raw JSON. Nodes that are
// no instances are skipped, and reported to WatchOptions.Skipped.
//
// It departs from Curator's library and from ServerSets: a number in a node's name is chosen by the
// client, above those that servers give out. So a creation whose reply was lost is found again.
//
// # No phantoms
//
// An instance is registered again by itself after an expiry, in the newest session, with its newest
// content, under the same name. A node of an earlier session is replaced, so an outdated instance
// never stands beside the present one; and once Unregister has returned nil, the instance is not
// registered again. Two processes with one ID are not both registered: the second waits for the
// end of the first, which may be a ghost of its own, for Options.ConflictAfter, and then gives up
// with [ErrDuplicate]. With Options.TakeOver it replaces the first at once. The nodes of the type
// [DynamicSequential] have a number as well, so two with one ID both stand.
//
// A crashed process stays registered until its session has timed out. A process that is started
// again with an ID of its own choice, as of its host and port, replaces its ghost; one that has a
// random ID stands beside it for that time.
//
// # What a watcher knows
//
// The instances converge to those on the server, and never go back within a session. While the
// connection is lost, they stay as they were, and Pick goes on with them. No promise is made that
// an instance is alive: users tell of failures ([Watcher.Use]), and an instance that has failed is
// left out for a while, unless all have.
package discovery
