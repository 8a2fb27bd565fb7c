package servers

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Dialer connects to a server by any address of its name. It tries the addresses in random order,
// each a moment after the previous address, so that an address that does not answer costs only that
// moment. The dialer of package net waits two seconds.
type Dialer struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewDialer returns the dialer of sessions whose options have none.
func NewDialer() *Dialer {
	return &Dialer{lookup: net.DefaultResolver.LookupNetIP, dial: new(net.Dialer).DialContext}
}

// stagger is the time between the dials of two addresses. A dial that fails ends it early.
const stagger = 250 * time.Millisecond

// DialContext connects to host:port.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isName(address) {
		return d.dial(ctx, network, address)
	}
	all, err := d.lookup(ctx, "ip", host)
	if err == nil && len(all) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan outcome, len(all))
	var dials sync.WaitGroup
	defer func() { // the dials that have lost
		cancel()
		dials.Wait()
		close(ended)
		for o := range ended {
			if o.err == nil {
				_ = o.socket.Close()
			}
		}
	}()
	for running, begun := 0, 0; ; {
		var turn <-chan time.Time
		if begun < len(all) {
			to := net.JoinHostPort(all[begun].Unmap().String(), port)
			dials.Go(func() {
				socket, err := d.dial(ctx, network, to)
				ended <- outcome{socket, err}
			})
			running, begun, turn = running+1, begun+1, time.After(stagger)
		}
		select {
		case o := <-ended:
			if running--; o.err == nil || running == 0 && begun == len(all) {
				return o.socket, o.err
			}
		case <-turn:
		}
	}
}

// An outcome is the result of the dial of an address.
type outcome struct {
	socket net.Conn
	err    error
}
