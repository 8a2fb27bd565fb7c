// Service is a service of two instances. It has a scheduler on the elected instance, a lock per
// tenant in request handlers, a semaphore for exports, settings that change while it runs, and the
// list of its instances. Its tests inject faults with the server in memory.
//
// The program takes some orders and ends. It starts a server in memory; -servers zk1:2181,zk2:2181
// uses an ensemble of yours instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session/zktest"
)

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
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
	ctx, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	errs := make([]error, 2)
	defer loops.Wait()
	defer stop()
	for i := range errs {
		v, err := open(servers, fmt.Sprintf("instance-%d", i+1))
		if err != nil {
			return err
		}
		defer v.close()
		loops.Go(func() { errs[i] = v.run(ctx) })
		for range 2 {
			_, body := call(ctx, v, "POST", "/tenants/acme/orders")
			_, _ = fmt.Fprint(os.Stdout, body)
		}
	}
	stop()
	loops.Wait()
	return errors.Join(errs...)
}

// call sends a request to an instance, as a client would.
func call(ctx context.Context, v http.Handler, method, path string) (status int, body string) {
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
	return w.Code, w.Body.String()
}
