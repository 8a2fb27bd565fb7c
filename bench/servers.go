package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/relay"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A fleet is the servers of timed runs.
type fleet struct {
	name    string // for readers: "1 server, 1ms away"
	kind    string // the name without the distance
	rtt     time.Duration
	trip    float64  // a round trip as measured, in ms
	addrs   []string // of all servers
	clients []string // the addresses for the systems: the leader's alone, so that all systems have the same server
	pids    []int    // of the processes that this program started
	close   func()
}

// An offer is one choice of servers by the flag -servers. One of its fields is set.
type offer struct {
	count int      // of servers to start
	addrs []string // of servers that run already
}

// parseServers parses the flag -servers: numbers of servers to start, each for a run of its own, or
// the addresses of running servers.
func parseServers(flag string) ([]offer, error) {
	var all []offer
	for part := range strings.SplitSeq(flag, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			break
		}
		if n != 1 && n != 3 && n != 5 {
			return nil, fmt.Errorf("-servers %s: 1, 3 or 5 servers can be started, not %d", flag, n)
		}
		all = append(all, offer{count: n})
	}
	if len(all) == strings.Count(flag, ",")+1 {
		return all, nil
	}
	addrs, chroot, err := session.ParseConnectString(flag)
	if err != nil {
		return nil, fmt.Errorf("-servers %s: %w", flag, err)
	}
	if chroot != "" {
		return nil, fmt.Errorf("-servers %s: a chroot is of no use here", flag)
	}
	if len(all) > 0 {
		return nil, fmt.Errorf("-servers %s: either numbers or addresses", flag)
	}
	return []offer{{addrs: addrs}}, nil
}

// parseRoundTrips parses the flag -rtt.
func parseRoundTrips(flag string, offers []offer) (all []time.Duration, err error) {
	for part := range strings.SplitSeq(flag, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		switch {
		case err != nil || d < 0 || d > time.Second:
			return nil, fmt.Errorf("-rtt %s: each must be a time from 0 to 1s, such as 1ms", flag)
		case d > 0 && slices.ContainsFunc(offers, func(o offer) bool { return o.addrs != nil }):
			return nil, fmt.Errorf("-rtt %s: servers that run already have a network of their own", flag)
		}
		all = append(all, d)
	}
	return all, nil
}

// start starts the servers, or checks that the servers at the given addresses answer.
func (o offer) start(ctx context.Context, onDisk bool, rtt time.Duration) (*fleet, error) {
	if o.addrs != nil {
		if err := answering(ctx, o.addrs); err != nil {
			return nil, err
		}
		name := strings.Join(o.addrs, ",")
		return &fleet{name: name, kind: name, addrs: o.addrs, clients: o.addrs, close: func() {}}, nil
	}
	dir, err := os.MkdirTemp(dataDir(onDisk), "zkactors-bench-")
	if err != nil {
		return nil, err
	}
	var between *relay.Relay
	end := func() { _ = os.RemoveAll(dir) } // it is in the system's directory for temporary files
	var link func(string) (string, error)
	if rtt > 0 {
		between = relay.New(rtt / 2)
		link = between.To
		end = func() {
			between.Close()
			_ = os.RemoveAll(dir)
		}
	}
	ens, err := zktest.NewEnsemble(zktest.EnsembleConfig{ //nolint:contextcheck // the servers have an end of their own
		Servers: o.count, Dir: dir, DirectLinks: true, Link: link, TickTime: 200 * time.Millisecond,
		// These replace the flags with which zktest starts servers quickly. In a bench servers must
		// run at full speed.
		JVMFlags: []string{"-Xmx1g", "-XX:TieredStopAtLevel=4", "-Dznode.container.checkIntervalMs=60000"},
	})
	if err != nil {
		end()
		return nil, err
	}
	f := &fleet{kind: "1 server", rtt: rtt, addrs: ens.Addrs(), close: sync.OnceFunc(func() {
		ens.Close()
		end()
	})}
	if o.count > 1 {
		f.kind = strconv.Itoa(o.count) + " servers"
	}
	f.name = f.kind
	leader, err := ens.LeaderContext(ctx)
	if err == nil {
		f.clients = []string{ens.Addr(leader)}
	}
	if err == nil && rtt > 0 {
		f.name += ", " + away(rtt) + " away"
		f.clients[0], err = between.To(f.clients[0])
	}
	if err != nil {
		f.close()
		return nil, err
	}
	if onDisk {
		f.name += ", on disk"
		f.kind += ", on disk"
	}
	for i := range o.count {
		f.pids = append(f.pids, ens.Pid(i))
	}
	return f, nil
}

// inOneLine returns the first line of an error. If a server's log follows, it adds the last
// exception in it, or else its last line.
func inOneLine(err error) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	why := ""
	for line := range strings.Lines(rest) {
		if strings.Contains(line, "Exception: ") || !strings.Contains(why, "Exception: ") {
			why = ": " + strings.TrimSpace(line)
		}
	}
	return first + why
}

// dataDir returns the directory for the data of servers: in memory if possible, unless onDisk is
// set.
func dataDir(onDisk bool) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); !onDisk && err == nil && info.IsDir() {
		return memory
	}
	return os.TempDir()
}

// answering returns nil if a session can be opened on one of the servers.
func answering(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := session.Open(ctx, addrs, nil)
	if err != nil {
		return fmt.Errorf("no ZooKeeper answers at %s: %w", strings.Join(addrs, ","), err)
	}
	s.Close()
	return nil
}

// events counts the watches that fired when nodes were deleted.
type events struct {
	sum float64 // of all deletions
	max float64 // of one deletion, since the counters were reset
}

// watchEvents reads the counters of all servers. A server without an answer counts as zero.
func watchEvents(addrs []string) (all events) {
	for _, addr := range addrs {
		text, err := fourLetterWord(addr, "mntr")
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
			n, err := strconv.ParseFloat(value, 64)
			switch {
			case err != nil:
			case name == "zk_sum_node_deleted_watch_count":
				all.sum += n
			case name == "zk_max_node_deleted_watch_count":
				all.max = max(all.max, n)
			}
		}
	}
	return all
}

func fourLetterWord(addr, word string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // it was read from
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// resetCounters resets the counters of the servers, unless they belong to another user.
func (f *fleet) resetCounters() {
	if f.pids == nil {
		return
	}
	for _, addr := range f.addrs {
		_, _ = fourLetterWord(addr, "srst") // a server that does not answer here does not answer watchEvents either
	}
}

// sweep deletes the node and all nodes below it, however many they are.
func sweep(ctx context.Context, addrs []string, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := session.Open(ctx, addrs, &session.Options{Timeout: 30 * time.Second, MaxReply: 64 << 20})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := empty(ctx, s, path); err != nil {
		return err
	}
	return gone(s.Delete(ctx, path, session.AnyVersion))
}

// gone returns nil if err says that the node does not exist, and err otherwise.
func gone(err error) error {
	if errors.Is(err, session.ErrNoNode) {
		return nil
	}
	return err
}

// empty deletes all nodes below path.
func empty(ctx context.Context, s *session.Session, path string) error {
	names, _, err := s.Children(ctx, path)
	if err != nil {
		return gone(err)
	}
	const batch, atOnce = 200, 32
	slots := make(chan struct{}, atOnce)
	errs := make([]error, (len(names)+batch-1)/batch)
	var wg sync.WaitGroup
	for i := range errs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = deleteAll(ctx, s, path, names[i*batch:min(len(names), (i+1)*batch)])
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// deleteAll deletes children of path in one transaction. If the servers refuse that, because some
// of them have children or do not exist, it deletes them one by one.
func deleteAll(ctx context.Context, s *session.Session, path string, names []string) error {
	var ops []session.Op
	for _, name := range names {
		ops = append(ops, session.DeleteOp(znode.Join(path, name), session.AnyVersion))
	}
	if _, err := s.Multi(ctx, ops...); err == nil {
		return nil
	}
	for _, name := range names {
		child := znode.Join(path, name)
		err := s.Delete(ctx, child, session.AnyVersion)
		if errors.Is(err, session.ErrNotEmpty) {
			if err := empty(ctx, s, child); err != nil {
				return err
			}
			err = s.Delete(ctx, child, session.AnyVersion)
		}
		if err := gone(err); err != nil {
			return err
		}
	}
	return nil
}
