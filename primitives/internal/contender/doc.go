// Package contender does the I/O of the contenders of package line. A [Recipe] describes the line.
// A [Performer] performs the effects of a [line.Machine]. A [Handle] runs both as an actor: it is
// what the handles of locks and semaphores consist of.
package contender
