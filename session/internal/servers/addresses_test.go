package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// TestAddressesOfAName: one that accepts is found, whatever the others do. Of those that are
// connected one stays.
func TestAddressesOfAName(t *testing.T) {
	deaf, accepts, refuses, late := address{deaf: true}, address{}, address{refuses: true}, address{after: 260 * time.Millisecond}
	for name, row := range map[string]struct {
		all    []address
		within time.Duration
		fails  bool
	}{
		"one":             {[]address{accepts}, 0, false},
		"one deaf":        {[]address{deaf, accepts}, stagger, false},
		"three deaf":      {[]address{deaf, deaf, deaf, accepts}, 3 * stagger, false},
		"some refuse":     {[]address{refuses, refuses, accepts, refuses}, 0, false},
		"all refuse":      {[]address{refuses, refuses}, 0, true},
		"late":            {[]address{late, late, late}, 260 * time.Millisecond, false},
		"late or refuses": {[]address{late, refuses}, 260 * time.Millisecond, false},
		"all are deaf":    {[]address{deaf, deaf}, time.Minute, true},
		"none":            {nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the order is random
				synctest.Test(t, func(t *testing.T) {
					var open atomic.Int32
					d := &Dialer{
						lookup: func(context.Context, string, string) (all []netip.Addr, err error) {
							for i := range row.all {
								all = append(all, netip.MustParseAddr(fmt.Sprintf("::ffff:127.0.0.%d", i)))
							}
							return all, nil
						},
						dial: func(ctx context.Context, _, to string) (net.Conn, error) {
							switch a := row.all[netip.MustParseAddrPort(to).Addr().As4()[3]]; {
							case a.refuses:
								return nil, errors.New("refused")
							case a.deaf:
								<-ctx.Done()
								return nil, ctx.Err()
							default:
								<-time.After(a.after) // also when it is not wanted any more
								open.Add(1)
								return counted{nil, &open}, nil
							}
						},
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					began := time.Now()
					socket, err := d.DialContext(ctx, "tcp", "zk:2181")
					check.AtMost(t, time.Since(began), row.within+260*time.Millisecond, "took")
					check.Equal(t, err != nil, row.fails, err)
					want := int32(1)
					if row.fails {
						want = 0
					}
					check.Equal(t, socket != nil, !row.fails, "connected")
					var unknown *net.DNSError
					check.Equal(t, errors.As(err, &unknown) && unknown.IsNotFound, len(row.all) == 0, "the name is unknown")
					check.Equal(t, open.Load(), want, "connections")
				})
			}
		})
	}
}

// TestAddressesInAnyOrder: not all clients dial the same address first.
func TestAddressesInAnyOrder(t *testing.T) {
	first := make(map[string]int)
	d := &Dialer{
		lookup: func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}, nil
		},
		dial: func(_ context.Context, _, to string) (net.Conn, error) {
			first[to]++
			return counted{nil, new(atomic.Int32)}, nil
		},
	}
	for range 100 {
		check.Have(d.DialContext(t.Context(), "tcp", "zk:2181"))(t)
	}
	check.True(t, first["127.0.0.1:2181"] > 10 && first["127.0.0.2:2181"] > 10, "dialled first: %v", first)
}

// TestAddressIsDialled: an address is not looked up.
func TestAddressIsDialled(t *testing.T) {
	for _, server := range []string{"127.0.0.1:2181", "[::1]:2181", "no port"} {
		var dialled string
		d := &Dialer{dial: func(_ context.Context, _, to string) (net.Conn, error) {
			dialled = to
			return nil, errors.New("refused")
		}}
		_, err := d.DialContext(t.Context(), "tcp", server)
		check.True(t, err != nil, "connected")
		check.Equal(t, dialled, server)
	}
}

// TestAddressThatWorked: while the name server is silent, or has no answer, the addresses that have
// worked are dialled. New answers come first.
func TestAddressThatWorked(t *testing.T) {
	old, other := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	for name, row := range map[string]struct {
		lookup func(ctx context.Context) ([]netip.Addr, error)
		fails  bool // the address that has worked
		to     netip.Addr
		after  time.Duration
		says   string // an error
	}{
		"silent": {
			lookup: func(ctx context.Context) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() },
			to:     old, after: stagger,
		},
		"no answer":    {lookup: func(context.Context) ([]netip.Addr, error) { return nil, errors.New("SERVFAIL") }, to: old},
		"no addresses": {lookup: func(context.Context) ([]netip.Addr, error) { return nil, nil }, to: old},
		"a new answer": {lookup: func(context.Context) ([]netip.Addr, error) { return []netip.Addr{other}, nil }, to: other},
		"a late answer": {lookup: func(context.Context) ([]netip.Addr, error) {
			<-time.After(time.Second)
			return []netip.Addr{other}, nil
		}, fails: true, to: other, after: time.Second},
		"neither": {lookup: func(context.Context) ([]netip.Addr, error) { return nil, errors.New("SERVFAIL") }, fails: true, says: "SERVFAIL; and the address that worked last: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var open atomic.Int32
				var dialled netip.Addr
				lookup := func(ctx context.Context) ([]netip.Addr, error) { return []netip.Addr{old}, ctx.Err() }
				fails := false
				d := &Dialer{
					lookup: func(ctx context.Context, _, _ string) ([]netip.Addr, error) { return lookup(ctx) },
					dial: func(_ context.Context, _, to string) (net.Conn, error) {
						if dialled = netip.MustParseAddrPort(to).Addr(); dialled == old && fails {
							return nil, errors.New("refused")
						}
						open.Add(1)
						return counted{nil, &open}, nil
					},
				}
				check.Have(d.DialContext(t.Context(), "tcp", "zk:2181"))(t)
				lookup, fails = row.lookup, row.fails
				began := time.Now()
				_, err := d.DialContext(t.Context(), "tcp", "zk:2181")
				check.Equal(t, time.Since(began), row.after, "took")
				if row.says != "" {
					check.True(t, err != nil && err.Error() == row.says, "%v", err)
					return
				}
				check.OK(t, err)
				check.Equal(t, dialled, row.to)
				check.Equal(t, open.Load(), 2, "connections")
			})
		})
	}
}
