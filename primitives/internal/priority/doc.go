// Package priority is the layout of locks with priorities: the order of the contenders, and the
// claim by which a contender holds the lock on the server.
package priority
