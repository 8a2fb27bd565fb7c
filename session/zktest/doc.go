// Package zktest gives tests a ZooKeeper to break: real servers on this
// machine ([StartEnsemble]), and a proxy that stands between clients and
// servers and does to their connections what networks do ([NewProxy]).
//
// What can be done to connections is the interface [Faults]. It is the same
// for a server in memory, so that a table of faults is written once.
package zktest
