// Package direct writes to a socket without waiting for the peer.
package direct
