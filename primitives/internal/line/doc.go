// Package line is everything that stands in line: contenders with a sequential ephemeral
// node each, a rule that says which contender waits for which, and a watch on exactly
// the node that matters. Locks, semaphores and elections are its rules.
//
// A [Machine] is one place in line, as a pure function; a [Performer] starts the requests
// that it asks for; a [Handle] is both as an actor, with what the handles of all recipes
// have in common.
package line
