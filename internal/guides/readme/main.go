// Readme is the program of the README.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	opening, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := session.Open(opening, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, nil)
	if err != nil {
		log.Panic(err)
	}
	defer s.Close()
	l, err := lock.New(s, "/locks/report", nil) // joins the line, and returns at once
	if err != nil {
		log.Panic(err)
	}
	defer l.Close() // releases it
	for {
		select {
		case ev, ok := <-l.Events():
			if !ok { // closed after the last event: a select over it would spin
				log.Panic(l.Err())
			}
			log.Println(ev) // waiting ahead=1 … acquired token=8589934599 … suspended …
		case <-ctx.Done(): // and whatever else the service does
			return
		}
	}
}
