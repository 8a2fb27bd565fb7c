// Package naming implements a name service: names, and the data of each.
//
// A name is persistent, or lives with the session that registered it ([Options.Ephemeral]). An
// ephemeral name is registered again after an expiry, in the next session, until [Unregister] or
// the end of the [session.Session]. [Register] leaves the name to the session. [Keep] returns a
// handle as well, which reports the fate of the name as [Event] values:
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// Suspended and Resumed alternate. Resumed means that a read has found the name still registered.
//
// # Layout
//
// A name is one node under the path of the service, and the node has the name's data. A name may
// contain slashes: every / is written %2F, every % is %25, and the names . and .. are %2E and
// %2E%2E. So names have no hierarchy: "a" and "a/b" are independent of each other, and each may be
// persistent or ephemeral. [List] skips nodes whose names cannot result from this encoding. A name
// is refused with [session.ErrInvalidArgument] if it is empty, and with [session.ErrInvalidPath] if
// ZooKeeper would refuse it.
//
// # Conflicts
//
// A name belongs to the session that registers it first. Others receive [ErrTaken], unless they
// replace it ([Options.Replace]). An ephemeral registration first waits for
// [Options.ConflictAfter], because the existing node may be a ghost: a node of a crashed process of
// the same user. Ghosts of earlier sessions of the same [session.Session] are replaced at once.
// After an expiry only such ghosts are replaced: another owner keeps the name.
//
// If the reply to a persistent registration is lost, the node is read. If it has the same data, the
// name counts as registered. If another client has changed or removed it since, the error wraps
// [session.ErrUnknownOutcome], and the node stays as it is. A name that was new, and does not
// exist, is registered once more, although another client may have removed it.
//
// In short: the first owner keeps a name, and a lost reply never overwrites another owner.
//
// A registration never waits for its reader. An undelivered [Suspended] vanishes with its
// [Resumed]. No other event is dropped.
package naming
