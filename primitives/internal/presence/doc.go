// Package presence keeps an ephemeral node under a fixed name, across sessions: what
// members of a group and ephemeral names have in common.
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// A node that stands there already is a ghost of ours, which is replaced at once; or
// belongs to another session, which is waited for, each anew. It is never adopted: what is
// ours has been created in the present session, by us. Once Joined was told, nobody is
// replaced but our own ghosts: who has got the name since, while our session expired,
// keeps it. Resumed is told when it was seen that the node stands.
//
// # Whose node it is
//
// ZooKeeper can compare the version of a node in a transaction, but not its owner, and
// versions begin anew with every node. So that a request does not hit another node than it
// was meant for,
//
//   - nodes are created here with version 1, and new ones of other clients have 0;
//   - what is to be deleted is written to before that, with the data that it has, until it
//     has a version above 1; and the answers say whose it is;
//   - nothing is requested while the session is suspended, and nothing after that before a
//     look.
//
// What remains is a node that goes, and another with the same version that comes, while
// a write is on its way. That one has the wrong data then: the writer learns it from the
// answer, and does not take it for a success; an owner that is kept by this package puts
// it right. One is deleted in error only if, within the one round trip between the answer
// and the deletion, it comes and is changed as often as the one before it had been.
//
// Who may not write to what he may delete cannot be as careful: he deletes his own node by
// the version that a look has found a round trip before, and replaces nobody's.
package presence
