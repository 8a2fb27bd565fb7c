package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A Dialer connects to a server by any address of its name. It tries the addresses in random order,
// each a moment after the previous address, so that an address that does not answer costs only that
// moment. The dialer of package net waits two seconds.
//
// It remembers the addresses that have worked. While the name server is silent, or when it has no
// answer, these are tried, too: a name server costs no session of servers that are well.
type Dialer struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	worked map[string][]netip.Addr // by host:port, the newest first
}

// NewDialer returns the dialer of sessions whose options have none.
func NewDialer() *Dialer {
	return &Dialer{lookup: net.DefaultResolver.LookupNetIP, dial: new(net.Dialer).DialContext}
}

const (
	// stagger is the time between the dials of two addresses, and from the beginning of a look-up
	// to the first dial of an address that has worked. A dial that fails ends it early.
	stagger = 250 * time.Millisecond

	// mostWorked limits the addresses that are remembered for a name.
	mostWorked = 4
)

// DialContext connects to host:port.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isName(address) {
		return d.dial(ctx, network, address)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	answers := make(chan looked, 1)
	running.Go(func() { answers <- d.look(ctx, host) })
	t := trial{ended: make(chan outcome), known: d.remembered(address)}
	defer func() { // the dials that have lost
		cancel()
		go func() { running.Wait(); close(t.ended) }()
		for o := range t.ended {
			if o.err == nil {
				_ = o.socket.Close()
			}
		}
	}()
	var patience, turn <-chan time.Time
	if len(t.known) > 0 {
		patience = time.After(stagger)
	}
	for looking, dials := true, 0; ; {
		if to, ok := t.take(turn == nil); ok {
			running.Go(func() {
				socket, err := d.dial(ctx, network, net.JoinHostPort(to.String(), port))
				t.ended <- outcome{to, socket, err}
			})
			dials, turn = dials+1, time.After(stagger)
		}
		if !looking && dials == 0 {
			return nil, t.err()
		}
		select {
		case answer := <-answers:
			looking, turn = false, nil
			t.found(answer)
		case <-patience:
			t.enter(t.known...)
		case o := <-t.ended:
			if dials--; o.err == nil {
				d.remember(address, o.to)
				return o.socket, nil
			}
			t.failed, turn = o.err, nil
		case <-turn:
			turn = nil
		}
	}
}

// A trial is the state of one call of [Dialer.DialContext].
type trial struct {
	ended  chan outcome
	known  []netip.Addr // those that have worked before
	queue  []netip.Addr // that are to be dialled
	begun  []netip.Addr // that were entered into the queue
	lookup error        // why there is no answer of the name server
	failed error        // the last error of a dial
}

// take returns the next address, if it is time for one.
func (t *trial) take(isTime bool) (to netip.Addr, ok bool) {
	if !isTime || len(t.queue) == 0 {
		return to, false
	}
	to, t.queue = t.queue[0], t.queue[1:]
	return to, true
}

// enter puts addresses behind the others.
func (t *trial) enter(all ...netip.Addr) {
	for _, a := range all {
		if !slices.Contains(t.begun, a) {
			t.queue, t.begun = append(t.queue, a), append(t.begun, a)
		}
	}
}

// found follows the answer of the name server, whose addresses come first.
func (t *trial) found(answer looked) {
	if t.lookup = answer.err; answer.err != nil {
		t.enter(t.known...)
		return
	}
	rest := t.queue
	t.queue = nil
	t.begun = slices.DeleteFunc(t.begun, func(a netip.Addr) bool { return slices.Contains(rest, a) })
	t.enter(answer.all...)
	t.enter(rest...)
}

func (t *trial) err() error {
	switch {
	case t.lookup == nil:
		return t.failed
	case t.failed == nil:
		return t.lookup
	}
	return fmt.Errorf("%w; and the address that worked last: %w", t.lookup, t.failed)
}

// An outcome is the result of the dial of an address.
type outcome struct {
	to     netip.Addr
	socket net.Conn
	err    error
}

// A looked is the answer of a name server, in random order.
type looked struct {
	all []netip.Addr
	err error
}

func (d *Dialer) look(ctx context.Context, host string) looked {
	all, err := d.lookup(ctx, "ip", host)
	if err == nil && len(all) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	for i := range all {
		all[i] = all[i].Unmap()
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return looked{all, err}
}

func (d *Dialer) remembered(address string) []netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.worked[address])
}

func (d *Dialer) remember(address string, worked netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.worked == nil {
		d.worked = make(map[string][]netip.Addr)
	}
	all := slices.DeleteFunc(d.worked[address], func(a netip.Addr) bool { return a == worked })
	all = slices.Insert(all, 0, worked)
	d.worked[address] = all[:min(len(all), mostWorked)]
}
