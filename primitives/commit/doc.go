// Package commit implements two-phase commit. A coordinator proposes, named sites vote, and all
// parties learn one outcome.
//
// [Begin] returns a [Transaction], the coordinator's handle. Its events are
//
//	Voted* (Committed | Aborted | Left)
//
// [Join] returns a [Participant], which acts for a site in every transaction below the parent that
// names it. Its events are, for each transaction,
//
//	Prepare? (Committed | Aborted | Forgotten)?
//
// and Left after all others. A site that restarts is asked again if it has not voted, and receives
// Committed or Aborted again until [Participant.Finish] has returned nil.
//
// # Guarantees
//
// No two parties receive different outcomes of one transaction. The outcome is Committed only if every site
// voted Yes. It is recorded in ZooKeeper before any party receives it. A vote cannot be
// changed, and binds the site also after its session expired. Timeouts and deaths are recorded as Abort by the
// coordinator, or in [Peer] mode by any site; a site also takes over when two looks, Options.TakeoverAfter
// apart, show no coordinator. [Resume] continues after a crash of the coordinator. When all sites have finished,
// the transaction is removed.
//
// # Effects
//
// A site may receive Committed several times, so applying it must be idempotent. With a database, insert
// the transaction's id (Committed.Tx) into a table with a unique key, in the database transaction
// that applies it. If the key exists, the transaction was applied: only call Finish. Delete the key after Finish.
// For effects in ZooKeeper include [Committed.Once] in the transaction that applies them: it succeeds once.
//
// # Not guaranteed
//
// One process at a time acts for a site. Two that do are not kept apart beyond the vote, which is one. Yes means that the
// site can commit, also after a crash: it stores what it needs first. After a Yes a site waits for
// the outcome, however long all parties that could decide are gone. An id may be used again when its transaction is
// removed. If an operator deletes the nodes of a transaction, sites that voted Yes receive Forgotten.
//
// The protocol, node by node, is in docs/two-phase-commit.md.
package commit
