// Package presence keeps an ephemeral node under a fixed name, across sessions: the common part of
// members of a group and ephemeral names.
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// A node that stands at the path already is a ghost of ours, or belongs to another session. A ghost
// is replaced at once; the end of another session is waited for. Neither is adopted: our node is a
// node that the present session has created for this handle. After Joined only our own ghosts are
// replaced. A session that took the name when ours had expired keeps it. Resumed is emitted when
// the node was seen to stand.
//
// # Whose node it is
//
// ZooKeeper can compare the version of a node in a transaction, but not its owner, and the versions
// of every node begin anew. Three rules keep a request from a node that it is not meant for:
//
//   - Nodes are created here with version 1; new nodes of other clients have 0.
//   - A node is written to before it is deleted, with the data that it has, until its version is
//     above 1. The answers identify the node.
//   - No request is made while the session is suspended, and then none before a look.
//
// One case remains: while a write is on its way, the node is deleted, and another is created that
// has reached the same version. The write then hits the wrong node. The writer learns that from the
// answer, and does not count it as a success; an owner that uses this package restores its data. A
// node is deleted in error only if it is created between that answer and the deletion, and changed
// as often as its predecessor was.
//
// A session that may delete a node, but not write to it, cannot be as careful. It deletes its own
// node by the version that a look found one round trip before, and replaces no other.
package presence
