package servers

import (
	"context"
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestIsMember: an address is that of a server if the configuration says so, and of no other.
func TestIsMember(t *testing.T) {
	const (
		static = "server.1=one:2888:3888:participant\nserver.2=two:2888:3888:participant\nserver.3=10.0.0.3:2888:3888:observer\nversion=0"
		moving = "server.1=one:2888:3888:participant;0.0.0.0:2181\nserver.2=one:2889:3889:participant;2182\r\nserver.3=two:2888:3888;192.168.0.2:2181\nversion=100000000"
		local  = "server.1=127.0.0.1:1:2:participant\nserver.2=127.0.0.1:3:4:participant\nversion=0"
		nets   = "server.1=10.0.0.1:2888:3888|10.1.0.1:2888:3888:participant\nserver.2=10.0.0.2:2888:3888|10.1.0.2:2888:3888:participant\n"
		six    = "server.1=[fd00::1]:2888:3888:participant;[::]:2181\nserver.2=[fd00::2]:2888:3888:participant;[fd00::2]:2181\n"
	)
	for _, row := range []struct {
		what, config, address string
		want                  bool
	}{
		{"a name", static, "10.0.0.1:2181", true},
		{"one of its addresses", static, "10.9.0.1:2181", true},
		{"an address", static, "10.0.0.3:2181", true},
		{"a balancer", static, "10.0.0.9:2181", false},
		{"a port that is forwarded", static, "10.0.0.3:32181", false},
		{"with TLS", static, "10.0.0.3:2281", true},
		{"no address", static, "one:2181", false},
		{"in memory", static, "pipe", false},
		{"nothing", "", "10.0.0.1:2181", false},
		{"its port", moving, "10.0.0.1:2181", true},
		{"the port of the other on that host", moving, "10.0.0.1:2182", true},
		{"another port", moving, "10.0.0.1:2183", false},
		{"its address for clients", moving, "192.168.0.2:2181", true},
		{"its address for servers", moving, "10.0.0.2:2181", false},
		{"several on one host", local, "127.0.0.1:2181", false},
		{"the second network", nets, "10.1.0.2:2181", true},
		{"IPv6", six, "[fd00::1]:2181", true},
		{"IPv6, its address for clients", six, "[fd00::2]:2181", true},
		{"IPv6, another", six, "[fd00::3]:2181", false},
		{"one that cannot matter", moving + "\nserver.4=lost:2888:3888;2180", "10.0.0.1:2181", true},
	} {
		got, err := IsMember(t.Context(), row.config, row.address, func(_ context.Context, host string) ([]string, error) {
			switch host {
			case "one":
				return []string{"10.9.0.1", "10.0.0.1"}, nil
			case "two":
				return []string{"10.0.0.2"}, nil
			}
			return nil, errors.New("no such host")
		})
		check.True(t, err == nil && got == row.want, "%s: %v %v", row.what, got, err)
	}
	silent := func(context.Context, string) ([]string, error) { return nil, errors.New("no answer") }
	is, err := IsMember(t.Context(), static, "10.0.0.3:2181", silent)
	check.True(t, !is && err != nil, "a name server that is silent: %v %v", is, err)
}
