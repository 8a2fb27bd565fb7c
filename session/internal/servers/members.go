package servers

import (
	"context"
	"net"
	"slices"
	"strings"
)

// A Lookup resolves a host name, as [net.Resolver.LookupHost] does.
type Lookup func(ctx context.Context, host string) (addresses []string, err error)

// A member is a server in the configuration of an ensemble.
type member struct {
	hosts  []string // at which other servers reach it
	client string   // at which it takes clients, if it is not those, or all
	port   string   // on which it does; "" if it is not said
}

// IsMember reports whether the address is that of one server in the configuration of an ensemble,
// the data of /zookeeper/config. So nothing between a client and that address chooses a server. If
// the ports for clients are not said, as in a static configuration, no other server may have the
// host, and the port must be a usual one: a node of a cluster forwards others. The error is that of
// a name that cannot be resolved, and may be that host.
func IsMember(ctx context.Context, config, address string, lookup Lookup) (bool, error) {
	host, port, _ := net.SplitHostPort(address)
	at := net.ParseIP(host)
	if at == nil {
		return false, nil
	}
	is := 0
	for _, m := range membersOf(config) {
		names := m.hosts
		if m.client != "" {
			names = []string{m.client}
		}
		has, err := resolves(ctx, names, at, lookup)
		switch {
		case m.port != "" && m.port != port, m.port == "" && port != "2181" && port != "2281":
		case err != nil:
			return false, err
		case has:
			is++
		}
	}
	return is == 1, nil
}

// resolves reports whether one of the names is of the host.
func resolves(ctx context.Context, names []string, at net.IP, lookup Lookup) (bool, error) {
	for _, name := range names {
		addresses := []string{name}
		if net.ParseIP(name) == nil {
			var err error
			if addresses, err = lookup(ctx, name); err != nil {
				return false, err
			}
		}
		if slices.ContainsFunc(addresses, func(a string) bool { return at.Equal(net.ParseIP(a)) }) {
			return true, nil
		}
	}
	return false, nil
}

// membersOf parses lines as
//
//	server.1=host:2888:3888:participant;0.0.0.0:2181
//
// Without the part behind the semicolon, the server has the port in a file of its own. There may be
// several hosts, with bars between them.
func membersOf(config string) (all []member) {
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !strings.HasPrefix(name, "server.") {
			continue
		}
		var m member
		hosts, client, _ := strings.Cut(value, ";")
		for h := range strings.SplitSeq(hosts, "|") {
			m.hosts = append(m.hosts, hostOf(h))
		}
		if i := strings.LastIndexByte(client, ':'); i >= 0 {
			m.client, m.port = hostOf(client[:i]+":"), client[i+1:]
		} else {
			m.port = client
		}
		if ip := net.ParseIP(m.client); ip != nil && ip.IsUnspecified() {
			m.client = ""
		}
		all = append(all, m)
	}
	return all
}

// hostOf returns the host of an address, behind which are ports.
func hostOf(address string) string {
	if rest, is := strings.CutPrefix(address, "["); is {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(address, ":")
	return host
}
