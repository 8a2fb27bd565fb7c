// Package commit implements two-phase commit. A coordinator proposes, named sites vote, and all
// parties learn one outcome. [Begin] returns a [Transaction], the coordinator's handle. Its events
// are
//
//	Voted* (Committed | Aborted | Left)
//
// [Join] returns a [Participant], which acts for a site in every transaction below the parent that
// names the site. Its events are, for each transaction, and with Left after all others,
//
//	Prepare? (Committed | Aborted | Forgotten)?
//
// A site that restarts is asked again if it has not voted. It receives the outcome again until
// [Participant.Finish] has returned nil, and nothing while another process acts for the site.
//
// # Guarantees
//
// No two parties receive different outcomes of one transaction. The outcome is Committed only if
// every site voted Yes. It is recorded in ZooKeeper before any party receives it. A vote never
// changes, and still binds the site after its session expired. On a timeout or a death the
// coordinator records Abort; in [Peer] mode any site does. A site also takes over when two looks,
// Options.TakeoverAfter apart, find no coordinator. [Resume] continues after a crash of the
// coordinator. When all sites have finished, the transaction is removed.
//
// In short: one transaction, one outcome, which survives any crash.
//
// # Effects
//
// A site may receive Committed several times, so applying it must be idempotent. With a database,
// insert Committed.Tx.GUID into a table with a unique key, in the database transaction that applies
// it. If the key exists, the transaction was applied: only call Finish. Delete the key after
// Finish. For effects in ZooKeeper, [Committed.Once] makes a transaction succeed once.
//
// # Not guaranteed
//
// Yes means that the site can commit, even after a crash: it stores what that needs first. It then
// waits for the outcome, however long all parties that could decide are gone. An id may be used
// again when its transaction is removed; votes for the earlier transaction fail with [ErrStale]. If
// an operator deletes the nodes, the sites receive Forgotten. If servers come back with older data,
// another outcome may follow: docs/adr/0041-a-new-session-begins-a-new-history.md. The nodes are in
// docs/two-phase-commit.md.
package commit
