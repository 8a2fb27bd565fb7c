package nodes

import "slices"

// The names of directories that a recipe has beside the nodes that users name. The ids of
// transactions do not begin with _.
const (
	ConfigMarkers      = "_config-markers"   // beside values of package config
	ConfigDeletions    = "_config-deletions" // beside values that transactions read: is written by each that deletes one
	QueueReceipts      = "_queue-receipts"   // beside queues
	LockDelays         = "_lock-delays"      // beside locks with a delay: has a record for each that is held
	Sites              = "_sites"            // beside transactions: has a node for each site that a process acts for
	TransactionRecords = "_records"          // beside transactions: has the records of those that are over
)

// Beside reports whether a directory of the name stands beside nodes of a recipe.
func Beside(name string) bool {
	return slices.Contains([]string{ConfigMarkers, ConfigDeletions, QueueReceipts, LockDelays, Sites, TransactionRecords}, name)
}
