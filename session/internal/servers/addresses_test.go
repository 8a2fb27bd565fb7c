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
