package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/session/internal/servers"
)

// ParseConnectString splits a ZooKeeper connect string such as "zk1:2181,zk2:2181/apps/billing"
// into its servers and its chroot, "" if there is none. The port of a server without a port is
// 2181. The chroot stands once, behind the last server. A chroot with a comma goes into
// [Options.Chroot].
func ParseConnectString(connect string) (addresses []string, chroot string, err error) {
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
	for _, server := range addresses {
		host, port, err := net.SplitHostPort(server)
		var missing *net.AddrError
		if errors.As(err, &missing) && missing.Err == "missing port in address" {
			host, port, err = strings.Trim(server, "[]"), "2181", nil
		}
		n, portErr := strconv.Atoi(port)
		if err != nil || portErr != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, " /@") {
			hint := ""
			if strings.ContainsAny(server, ",/") {
				hint = ": ParseConnectString splits a connect string into servers and chroot"
			}
			return nil, fmt.Errorf("%w: servers: %q is not host:port, nor a host%s", ErrInvalidArgument, server, hint)
		}
		checked = append(checked, net.JoinHostPort(host, port))
	}
	return checked, nil
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
