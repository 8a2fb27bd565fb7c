// Package nodes has the names and the contents of nodes that more than one package reads: the
// recipe, and package inspect, which shows operators the nodes of all recipes. The words that it
// uses are explained in the recipes.
//
//	contenders.go    the names of contenders in line, and their order
//	layouts.go       these names in all layouts: this library's, ZooKeeper's, Curator's and kazoo's
//	sharing.go       which contenders share a lock, and for how many of them one waits
//	ranks.go         the names of contenders for locks with priorities
//	leases.go        semaphores
//	leader.go        elections
//	rounds.go        double barriers
//	buckets.go       queues
//	transactions.go  two-phase commits
//	beside.go        directories beside the nodes of a recipe
//	gates.go         barriers
//	owners.go        whose path it is, by its data or its children
package nodes
