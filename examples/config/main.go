// Config shows a service that reloads its limits live. An operator sets the limits, raises them,
// and makes a mistake, which the service ignores, and then corrects the mistake.
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/zkactors-config/limits"

type limits struct {
	RequestsPerSecond int `json:"requestsPerSecond"`
}

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
	if err := run(ctx, os.Stdout, addrs); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, servers []string) error {
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := config.Open(s, path, config.JSON[limits], nil)
	if err != nil {
		return err
	}
	defer v.Close()
	return serve(ctx, out, s, v)
}

// serve is the service. After each change it also makes the operator's next change.
func serve(ctx context.Context, out io.Writer, s *session.Session, v *config.Value[limits]) error {
	double := func(old limits) (limits, error) { old.RequestsPerSecond *= 2; return old, nil }
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	for {
		select {
		case ev := <-v.Events():
			var err error
			switch ev := ev.(type) {
			case config.Changed[limits]:
				say("serving %d requests a second", ev.Value.RequestsPerSecond)
				switch ev.Value.RequestsPerSecond {
				case 10:
					err = v.Update(ctx, double)
				case 20:
					_, err = s.Set(ctx, path, []byte("{requestsPerSecond: lots}"), session.AnyVersion)
				default:
					return s.Delete(ctx, path, session.AnyVersion)
				}
			case config.Invalid:
				last, _, _ := v.Last()
				say("still serving %d: %v", last.RequestsPerSecond, ev.Err)
				err = v.Set(ctx, limits{RequestsPerSecond: 40})
			case config.Deleted:
				say("there are no limits yet")
				err = v.Set(ctx, limits{RequestsPerSecond: 10})
			case config.Closed:
				return ev.Err
			}
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
