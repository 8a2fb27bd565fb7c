// Package election implements leader election: candidates, and observers that only look on.
//
// Candidates stand in line in the order in which they came, and the first of them leads. A
// [Candidate] stands until it is closed, whatever becomes of its sessions and its terms:
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with Standing, LeaderChanged and Overrun anywhere before Left. Suspended and Resumed come in turn.
// A candidate that is deposed, resigns or hands over stands again at the end of the line.
//
// # Safety
//
// No candidate is elected before the last leader has received [Deposed], unless another
// client deletes its nodes; then it is told within a round trip. But leadership is a claim
// about the ZooKeeper session, not about this process: a paused process may still believe
// that it leads. Pass [Elected.Term], which grows with every leader of the path, to whatever
// is led, and refuse smaller ones there; or put [Candidate.Guard] into transactions.
//
// # Nodes
//
// Candidates stand under "candidates", and the leader is written down beside that as "leader": an ephemeral node
// with a few lines of text, which observers watch, and every candidate without [Options.IgnoreLeader]. All of it
// belongs to the election. [Curator] and [Kazoo] are layouts for elections with these; they know no acknowledgement
// and no transfer. A candidate that finds others that stand by another layout leaves with [ErrLayout]; a leader logs
// it.
//
// # Backpressure
//
// A candidate never waits for its reader. An undelivered [LeaderChanged] is replaced by the
// next one, never by an older term, and an undelivered [Suspended] vanishes with its
// [Resumed]; the others are never dropped.
package election
