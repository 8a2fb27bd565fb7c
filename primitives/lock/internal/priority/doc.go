// Package priority is the layout of locks with priorities: who goes first, and how the lock is
// claimed on the server.
package priority
