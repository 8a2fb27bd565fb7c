package servers

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A name may have several addresses. The dialer of package net gives each of them two seconds at
// least, and more if there is time. So a dial that is cut off after the patience of a short session
// never reaches the second address. A round repeats this dial beside the others, with longer and
// longer bounds.

// How long a dial beside others may take.
const (
	firstBeside   = 4 * time.Second
	longestBeside = 32 * time.Second
)

// A round dials the servers of a list until one is connected.
type round struct {
	*List

	end    context.CancelFunc // ends the context of all dials: one is connected
	beside sync.WaitGroup
	begun  map[string]bool // the names that are dialled beside the others

	mu     sync.Mutex
	server string
	socket net.Conn // of the server that was connected first; nil before
}

// won keeps a connection, unless it is not the first.
func (r *round) won(server string, socket net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.socket != nil {
		_ = socket.Close() // nothing was sent on it
		return
	}
	r.server, r.socket = server, socket
	r.end()
}

// result ends the round, and returns its connection; nil if there is none.
func (r *round) result() (string, net.Conn) {
	r.end()
	r.beside.Wait()
	return r.server, r.socket
}

// lost follows a dial that has failed. If the dial timed out, it dials the name again, beside the
// others.
func (r *round) lost(ctx context.Context, server string, why error) {
	var slow net.Error
	if r.begun[server] || !errors.As(why, &slow) || !slow.Timeout() || !isName(server) {
		return
	}
	r.begun[server] = true
	r.beside.Go(func() {
		for bound := firstBeside; ctx.Err() == nil; bound = min(2*bound, longestBeside) {
			began := time.Now()
			if socket, err := r.connect(ctx, server, server, bound, bound); err == nil {
				r.won(server, socket)
				return
			}
			select { // at once if it has taken its time
			case <-time.After(bound - time.Since(began)):
			case <-ctx.Done():
			}
		}
	})
}

// isName reports whether a server, host:port, is not an address.
func isName(server string) bool {
	_, err := netip.ParseAddrPort(server)
	return err != nil
}
