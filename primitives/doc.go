// Package primitives is the index of the recipes. It has no code of its own.
//
// # Lock
//
// Import github.com/zkactors/zkactors/primitives/lock for mutual exclusion
// between processes, first come, first served. Its events are
//
//	Waiting* (Acquired (Suspended | Resumed)*)? (Released | Lost)
//
// From Acquired until Done is closed no other client is granted the lock,
// unless somebody else deletes its node; and every grant has a token that is
// greater than those of all grants before it.
package primitives
