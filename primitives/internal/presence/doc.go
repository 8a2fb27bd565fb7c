// Package presence keeps an ephemeral node under a fixed name, across sessions: what
// members of a group and ephemeral names have in common.
//
//	(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left
//
// A node that stands there already is a ghost of ours, which is replaced at once; or
// belongs to another session, which is waited for. It is never adopted: what is ours
// has been created in the present session, by us.
//
// ZooKeeper cannot compare the owner of a node in a transaction, only its version. So
// between the look at a ghost and the transaction that replaces it, the ghost may have
// gone and a rival have come, who is then replaced instead: he sees that, and leaves
// with [ErrDuplicate]. There is one node in any case.
package presence
