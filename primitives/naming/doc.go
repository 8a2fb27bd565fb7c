// Package naming implements a name service: names, and the data of each.
//
// A name is persistent, or lives with the session that registered it
// ([Options.Ephemeral]): then it is gone when that ends. After an expiry it is registered
// again by itself in the next session, until [Unregister], or the end of the
// [session.Session]. [Register] leaves that to the session; [Keep] does the same, and
// returns a handle that tells as [Event] values what becomes of it:
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// Suspended and Resumed come in turn, and Resumed when the name was seen to be there still.
//
// # Layout
//
// The name is the name of one node under the path of the service, which holds the data.
// A name may contain slashes: every / is written %2F, every % is %25, and the names . and
// .. are %2E and %2E%2E. So there is no hierarchy among names: "a" and "a/b" are
// independent of each other, and each may be persistent or not. Nodes whose names
// could not have been written like this are no names, and [List] passes over them.
// A name is refused with [session.ErrInvalidArgument] if it is empty, and with
// [session.ErrInvalidPath] if ZooKeeper would refuse it.
//
// # Conflicts
//
// A name belongs to the session that registers it first: others get [ErrTaken], unless
// they ask to replace it ([Options.Replace]). The registration of an ephemeral name
// waits before that for [Options.ConflictAfter]: the node that stands may be a ghost of
// the same user, of a process that crashed. Ghosts of earlier sessions of the same
// [session.Session] are replaced at once. After an expiry only these are: another owner
// keeps the name.
//
// When the reply is lost, the node is read. A persistent name that stands for the same
// data counts as registered; if another client has changed or removed it since, the
// outcome is [session.ErrUnknownOutcome], and the node stays as it is. Only a new one
// that is not there is registered once more, though it may have been removed.
//
// A registration never waits for its reader. An undelivered [Suspended] vanishes with its
// [Resumed]; the others are never dropped.
package naming
