package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zkactors/zkactors/session/internal/servers"
)

// ParseConnectString splits a ZooKeeper connect string such as "zk1:2181,zk2:2181/apps/billing"
// into its servers and its chroot, "" if there is none. The port of a server without a port is
// 2181. The chroot stands once, behind the last server. A chroot with a comma goes into
// [Options.Chroot].
func ParseConnectString(connect string) (addresses []string, chroot string, err error) {
	if strings.Contains(connect, "://") {
		return nil, "", fmt.Errorf("connect string: %w: %q: %s", ErrInvalidArgument, connect, isURL)
	}
	list := connect
	if i := strings.IndexByte(connect, '/'); i >= 0 {
		list, chroot = connect[:i], connect[i:]
		if strings.Contains(chroot, ",") { // most likely zk1/apps,zk2/apps, which would lose a server
			return nil, "", fmt.Errorf("connect string: %w: %q: the chroot stands once, behind the last server", ErrInvalidArgument, connect)
		}
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
// _zookeeper._tcp.example.com. Only the records of the smallest priority are used. Their weights
// are ignored, because sessions are to be spread evenly.
func SRV(service, proto, name string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		_, records, err := net.DefaultResolver.LookupSRV(ctx, service, proto, name)
		return serversIn(records), err
	}
}

// serversIn returns the servers that records of the smallest priority name. The records are sorted
// by priority.
func serversIn(records []*net.SRV) (addresses []string) {
	for _, r := range records {
		if r.Priority == records[0].Priority {
			addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
	}
	return addresses
}

// checkServers returns the servers as host:port. The port of a server without a port is 2181.
func checkServers(addresses []string) ([]string, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: servers: the list is empty", ErrInvalidArgument)
	}
	checked := make([]string, 0, len(addresses))
	for i, server := range addresses {
		address, why := hostAndPort(server)
		if why != "" {
			return nil, fmt.Errorf("%w: servers[%d]: %q is not host:port, nor a host: %s", ErrInvalidArgument, i, abbreviated(server), why)
		}
		checked = append(checked, address)
	}
	return checked, nil
}

// hostAndPort returns a server as host:port, or why it is none.
func hostAndPort(server string) (address, why string) {
	const split = "ParseConnectString splits a connect string into servers and chroot"
	switch {
	case server == "":
		return "", "it is empty"
	case strings.Contains(server, "://"):
		return "", isURL
	case strings.Contains(server, ","):
		return "", "it is more than one server: " + split
	case strings.Contains(server, "/"):
		return "", "it has a path: " + split
	}
	host, port, err := net.SplitHostPort(server)
	var flaw *net.AddrError
	switch {
	case err == nil:
	case errors.As(err, &flaw) && flaw.Err == "missing port in address":
		host, port = strings.Trim(server, "[]"), "2181"
	case isIP(server):
		return "", "an IPv6 address stands in brackets"
	default:
		return "", flaw.Err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Sprintf("the port is %.20q, want a number from 1 to 65535", port)
	}
	return net.JoinHostPort(host, port), flawOfHost(host)
}

const isURL = "it is a URL: an address has no scheme"

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// flawOfHost returns why a text is neither an IP address nor the name of a host; nothing if it is.
// Underscores, which DNS does not allow in names of hosts, are in use all the same.
func flawOfHost(host string) (why string) {
	const longestName, longestPart = 253, 63
	switch {
	case host == "":
		return "the host is empty"
	case isIP(host):
		return ""
	case strings.Contains(host, ":"), strings.Contains(host, ".") && strings.Trim(host, "0123456789.") == "":
		return fmt.Sprintf("%q is no IP address", host)
	}
	for _, r := range host {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r) {
			return fmt.Sprintf("the host has the character %q in it", r)
		}
	}
	if len(host) > longestName {
		return fmt.Sprintf("the host has %d bytes, the limit is %d", len(host), longestName)
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if part == "" || len(part) > longestPart {
			return fmt.Sprintf("the parts of a host have 1 to %d bytes, and %.70q has %d", longestPart, part, len(part))
		}
	}
	return ""
}

// SetServers replaces the list of servers of the session and its siblings, as in [Open]. The
// session keeps its server if it can. It moves if its server is not in the list. If the list has
// grown, it moves with the probability that spreads sessions evenly. So when many sessions receive
// the same list, they are spread as evenly as before, and no more of them move than necessary.
//
// A session that moves first waits for the answers to all the requests that it has sent. It is
// suspended for the time of a reconnect, and neither expires nor loses a request. With
// [Options.Resolve], the next resolution replaces the list again.
func (s *Session) SetServers(addresses []string) error {
	addresses, err := checkServers(addresses)
	if err != nil {
		return fmt.Errorf("set servers: %w", err)
	}
	return s.setServers(addresses)
}

func (s *Session) setServers(addresses []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return fmt.Errorf("set servers: %w", ErrClosed)
	}
	s.newest.SetServers(addresses)
	for sibling := range s.beside {
		_ = sibling.setServers(addresses) // a closed sibling needs no list
	}
	return nil
}

// resolve keeps the list of servers up to date until the session is closed.
func (s *Session) resolve() {
	ctx, cancel := s.conn.Workers.Until(s.conn.Workers.Closing)
	defer cancel()
	for ctx.Err() == nil {
		wait := s.opts.ResolveEvery
		if err := s.resolveOnce(ctx); err != nil && ctx.Err() == nil {
			s.conn.Servers.Unresolved(err)
			wait = min(wait, time.Second)
		}
		select {
		case <-time.After(wait):
		case <-s.conn.Servers.Exhausted():
		case <-ctx.Done():
		}
	}
}

func (s *Session) resolveOnce(ctx context.Context) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addresses, err := servers.Outlive(func() ([]string, error) { return s.opts.Resolve(ctx) })
	if err == nil {
		addresses, err = checkServers(addresses)
	}
	if err != nil {
		return err
	}
	return s.setServers(addresses)
}
