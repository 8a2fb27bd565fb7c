// Package election implements leader election: candidates, and observers that only look on.
//
// Candidates stand in line in the order in which they came, and the first of them leads. A
// [Candidate] stands until it is closed, through any number of sessions and terms:
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with Standing, LeaderChanged and Overrun anywhere before Left. Suspended and Resumed alternate. A
// candidate that is deposed, resigns or hands over stands again at the end of the line.
//
// # Safety
//
// No candidate is elected before the last leader has received [Deposed], unless another client
// deletes the leader's nodes; then the leader receives it within a round trip. But leadership is a
// claim about the ZooKeeper session, not about this process: a paused process may believe that it
// still leads. So pass [Elected.Term], which grows with every leader of the path, to whatever is
// led, and refuse smaller terms there; or include [Candidate.Guard] in transactions. The guards of
// two leaders never pass at the same time, whatever is deleted. Servers that come back with older
// data would elect with a smaller term: then the candidate leaves with [session.ErrHistoryLost].
//
// There is one exception to the order of terms. If an operator deletes the node of the candidate
// behind a leader that resigns, or ends its session, and that candidate receives its events late,
// then it may emit [Elected] after the next leader has, with a smaller term, and [Deposed] with the
// events that follow. Its guard does not pass.
//
// In short: one leader at a time on the servers; term and guard protect from a paused one.
//
// # Nodes
//
// Candidates stand under "candidates". Beside that, "leader" is an ephemeral node with a few lines
// of text that name the leader: observers watch it, and so does every candidate without
// [Options.IgnoreLeader]. The candidate behind a leader that resigns is elected by the event of
// that, and names itself there a moment later. After a [Candidate.Transfer] the leader has a node
// of its name under "successors" too. All of these belong to the election. [Curator] and [Kazoo]
// are layouts for elections with these libraries; they have no acknowledgement and no transfer. A
// candidate that finds contenders of another layout leaves with [ErrLayout]; a leader logs it.
//
// # Backpressure
//
// A candidate never waits for its reader. The next [LeaderChanged] replaces an undelivered one;
// within a session its term is never older. An undelivered [Suspended] vanishes with its [Resumed].
// No other event is dropped.
package election
