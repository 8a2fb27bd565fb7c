// Members prints the changes of a group. Three workers join, the first one changes its data, the
// second one leaves, and the session of the third one ends.
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/zkactors-members/workers"

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	addrs := strings.Split(*servers, ",")
	if *servers == "" {
		srv, err := zktest.NewServer(zktest.Config{})
		if err != nil {
			log.Fatal(err)
		}
		defer srv.Close()
		addrs = srv.Addrs()
	}
	if err := run(ctx, addrs); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, servers []string) error {
	var sessions [4]*session.Session // of three workers, and of a watcher
	for i := range sessions {
		s, err := session.Open(ctx, servers, &session.Options{Timeout: 2 * time.Second})
		if err != nil {
			return err
		}
		defer s.Close()
		sessions[i] = s
	}
	watcher, err := group.Watch(sessions[3], path, nil)
	if err != nil {
		return err
	}
	defer watcher.Close()

	var members [3]*group.Membership
	for i := range members {
		members[i], err = group.Join(sessions[i], path, fmt.Sprintf("host-%d", i+1), []byte("idle"), nil)
		if err != nil {
			return err
		}
		defer members[i].Close()
	}
	if err := show(ctx, watcher, func(all []group.Member) bool { return len(all) == 3 }); err != nil {
		return err
	}
	if err := members[0].Update(ctx, []byte("busy")); err != nil {
		return err
	}
	if err := members[1].Leave(ctx); err != nil {
		return err
	}
	sessions[2].Close() // like the end of the process
	return show(ctx, watcher, func(all []group.Member) bool { return len(all) == 1 && string(all[0].Data) == "busy" })
}

// show prints the changes until the group is as expected.
func show(ctx context.Context, w *group.Watcher, expected func([]group.Member) bool) error {
	for {
		select {
		case ev, ok := <-w.Events():
			if !ok {
				return errors.Join(errors.New("the watch has ended"), w.Err())
			}
			for what, members := range map[string][]group.Member{"joined ": ev.Added, "changed": ev.Changed, "left   ": ev.Removed} {
				for _, m := range members {
					fmt.Println(what, m)
				}
			}
			if expected(ev.Members) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
