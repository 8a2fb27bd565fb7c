// Package session talks to ZooKeeper.
package session
