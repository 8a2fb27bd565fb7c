// Package observedtest has the calls of an observer that the tests of all exporters make.
package observedtest

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/zkactors/zkactors/metrics/internal/observed"
	zkqueue "github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// An Exporter is an observer that exports metrics.
type Exporter interface {
	session.Observer
	AddQueue(path string, queue observed.Queue)
}

// Parent is an option Path: it exports a lock under the path of its parent.
func Parent(recipe, at string) string {
	if recipe == "lock" {
		return path.Dir(at)
	}
	return at
}

type queue struct {
	n   int
	err error
}

func (q queue) Len(context.Context) (int, error) { return q.n, q.err }

// Report calls each method of the observer at least once.
func Report(v Exporter) {
	v.AddQueue("/q", queue{n: 7})
	v.AddQueue("/broken", queue{err: errors.New("x")})
	v.Request("get", time.Second, nil)
	v.Request("set", time.Second, session.ErrBadVersion)
	v.State(session.Connected{})
	v.State(session.Suspended{})
	v.State(session.Lapsed{})
	for _, order := range []string{"/orders/1", "/orders/2", "/orders/3", "/orders/4"} {
		v.Waiting("lock", order)
	}
	v.Waited("lock", "/orders/1", time.Second)
	v.Waited("lock", "/orders/2", time.Second)
	v.GaveUp("lock", "/orders/3", time.Second)
	v.Held("lock", "/orders/1", time.Second)
	v.Lost("lock", "/orders/1", session.ErrExpired)
	v.Failed("lock", "/orders/3", session.ErrNoAuth)
	v.Revoked("lock", "/orders/2")
	v.Leader("/e", "/e/n-1", []byte("a"), 1)
	v.Leader("/e", "", nil, 1)
	v.Leader("/e", "/e/n-2", []byte("b"), 2)
	v.Leader("/e", "/e/n-1", []byte("a"), 1) // comes late, with an older term
	v.Members("/g", 3)
	v.Put("/q", 4, time.Second, nil)
	v.Put("/q", 2, time.Second, zkqueue.ErrFull)
	for range 3 {
		v.Delivered("/q", time.Second, 1)
	}
	v.Delivered("/q", time.Minute, 2)
	v.Settled("/q", "acknowledged", time.Second)
	v.Settled("/q", "rejected", 2*time.Second)
	v.Settled("/q", "taken", 0)
	v.Buried("/q")
}
