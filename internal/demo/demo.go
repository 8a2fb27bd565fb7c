// Package demo is the set-up of the programs in examples and of the Example functions: sessions
// with a server in memory, or with servers that a flag names.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// Main runs a program on the servers of the flag -servers, or on a server in memory. It ends the
// process if that fails. The context ends after the time, or at an interrupt.
func Main(limit time.Duration, run func(ctx context.Context, servers []string) error) {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	name := filepath.Base(os.Args[0])
	flag.Usage = func() {
		_, _ = fmt.Fprintf(flag.CommandLine.Output(), "%s: what it shows is said by go doc ./examples/%s. Its flags are:\n", name, name)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%s: there are no arguments, but %q; %s -h lists the flags\n", name, flag.Args(), name)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := On(ctx, *servers, run)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// patience is how long servers have to answer.
const patience = 3 * time.Second

// On runs a function on the servers, separated by commas, or on a server in memory if there are
// none. If there are servers, one of them has answered before the function runs.
func On(ctx context.Context, servers string, run func(ctx context.Context, servers []string) error) error {
	if servers == "" {
		srv, err := zktest.NewServer(zktest.Config{})
		if err != nil {
			return fmt.Errorf("server in memory: %w", err)
		}
		defer srv.Close()
		return run(ctx, srv.Addrs())
	}
	addrs, chroot, err := session.ParseConnectString(servers)
	if err == nil && chroot != "" {
		err = fmt.Errorf("%w: there is no place for the chroot %s", session.ErrInvalidArgument, chroot)
	}
	if err != nil {
		return fmt.Errorf("-servers: %w", err)
	}
	waits, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	s, err := session.Open(waits, addrs, nil)
	if err != nil {
		return fmt.Errorf("-servers %s: %w", strings.Join(addrs, ","), err)
	}
	s.Close()
	return run(ctx, addrs)
}

var errNoAnswer = errors.New("no server has answered")

// Sessions opens sessions with a server in memory. It ends the process if that fails.
func Sessions(n int) (all []*session.Session, end func()) {
	srv := Must(zktest.NewServer(zktest.Config{}))
	for range n {
		all = append(all, Must(session.Open(context.Background(), srv.Addrs(), nil)))
	}
	return all, func() {
		for _, s := range all {
			s.Close()
		}
		srv.Close()
	}
}

// Session opens one session with a server in memory. It ends the process if that fails.
func Session() (s *session.Session, end func()) {
	all, end := Sessions(1)
	return all[0], end
}

// Must returns the value. It ends the process if there is an error.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check ends the process if there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
