// Package contention tests locks, semaphores and elections together: sessions on replicas that lag
// contend for a few paths, while every possible fault occurs, and an operator deletes nodes.
package contention
