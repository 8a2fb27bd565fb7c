package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ParseConnectString splits a ZooKeeper connect string such as
// "zk1:2181,zk2:2181/apps/billing" into its servers and its chroot, "" if it has
// none. A server without a port gets 2181.
func ParseConnectString(connect string) (addresses []string, chroot string, err error) {
	list := connect
	if i := strings.IndexByte(connect, '/'); i >= 0 {
		list, chroot = connect[:i], connect[i:]
		if err := ValidatePath(chroot); err != nil {
			return nil, "", fmt.Errorf("connect string: chroot: %w", err)
		}
		if chroot == "/" {
			chroot = ""
		}
	}
	for server := range strings.SplitSeq(list, ",") {
		addresses = append(addresses, strings.TrimSpace(server))
	}
	addresses, err = checkServers(addresses)
	if err != nil {
		return nil, "", fmt.Errorf("connect string: %w", err)
	}
	return addresses, chroot, nil
}

// SRV returns a function for [Options.Resolve] that looks up the DNS SRV records of a service, as
// [net.Resolver.LookupSRV] does: SRV("zookeeper", "tcp", "example.com") looks up
// _zookeeper._tcp.example.com. Of the records only those of the smallest priority are used. All of them
// are used alike, whatever their weight, because sessions are to be spread evenly.
func SRV(service, proto, name string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		_, records, err := net.DefaultResolver.LookupSRV(ctx, service, proto, name)
		return serversIn(records), err
	}
}

// serversIn returns the servers that records of the smallest priority name. The records are sorted by
// priority.
func serversIn(records []*net.SRV) (addresses []string) {
	for _, r := range records {
		if r.Priority == records[0].Priority {
			addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
	}
	return addresses
}

// checkServers returns the servers as host:port.
func checkServers(addresses []string) ([]string, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: servers: the list is empty", ErrInvalidArgument)
	}
	checked := make([]string, 0, len(addresses))
	for _, server := range addresses {
		host, port, err := net.SplitHostPort(server)
		var missing *net.AddrError
		if errors.As(err, &missing) && missing.Err == "missing port in address" {
			host, port, err = strings.Trim(server, "[]"), "2181", nil
		}
		n, portErr := strconv.Atoi(port)
		if err != nil || portErr != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, " /@") {
			return nil, fmt.Errorf("%w: servers: %q is not host:port", ErrInvalidArgument, server)
		}
		checked = append(checked, net.JoinHostPort(host, port))
	}
	return checked, nil
}
