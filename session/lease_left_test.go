package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/zktest"
)

// A fragile connection breaks in the place of the next heartbeat when it is armed.
type fragile struct {
	net.Conn
	armed *atomic.Bool
}

func (f fragile) Write(frames []byte) (int, error) {
	if len(frames) < 12 { // a word
		return f.Conn.Write(frames)
	}
	if op := int32(binary.BigEndian.Uint32(frames[8:])); (op == opSync || op == opMulti) && f.armed.CompareAndSwap(true, false) {
		return 0, errors.New("it breaks before a heartbeat")
	}
	return f.Conn.Write(frames)
}

// TestRestAmongRequests: a holder whose user makes requests at odd times has at least what
// lease.Terms.Rest says when a heartbeat is due. Its connection breaks at that moment, and
// Suspended says what is left.
func TestRestAmongRequests(t *testing.T) {
	users := map[string]func(s *session.Session){
		"writes": func(s *session.Session) { s.Async(0).Set("/a", nil, session.AnyVersion, func(*session.Stat, error) {}) },
		"reads":  func(s *session.Session) { s.Async(0).Exists("/a", func(*session.Stat, error) {}) },
	}
	chosen := hasten.OneIn(3, 6)
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for _, tick := range []time.Duration{0, 2 * time.Second, timeout / 50} {
			for user, request := range users {
				for _, trust := range []session.Lease{session.LeaseCommitted, session.LeaseAnswered, session.LeaseProven} {
					if trust != session.LeaseCommitted && (timeout != 10*time.Second || user != "writes") {
						continue // one timeout and one user show the others
					}
					if !chosen() {
						continue
					}
					t.Run(fmt.Sprintf("%v tick %v %s lease %d", timeout, tick, user, trust), func(t *testing.T) {
						inBubble(t, zktest.Config{Tick: timeout / 20, Latency: time.Millisecond, Replicas: replicas(trust)}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
							var armed atomic.Bool
							s := mustOpen(t, followed(srv), &session.Options{
								Timeout: timeout, ServerTick: tick, Lease: trust,
								Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
									conn, err := srv.DialContext(ctx, network, addr)
									return fragile{conn, &armed}, err
								},
							})
							defer s.Rely()()
							check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
							terms := lease.TermsOf(timeout, tick)
							rng := rand.New(rand.NewPCG(uint64(timeout), uint64(tick)))
							ctx, cancel := context.WithCancel(t.Context())
							var asking sync.WaitGroup
							defer asking.Wait()
							defer cancel()
							asking.Go(func() {
								odd := rand.New(rand.NewPCG(1, 2))
								for ctx.Err() == nil {
									pass(time.Duration((0.1 + 1.5*odd.ExpFloat64()) * float64(terms.Heartbeat)))
									request(s)
								}
							})
							events := s.Events(ctx)
							least := timeout
							for range hasten.Sized(hasten.Usually(150, 40), 30) {
								pass(timeout + time.Duration(rng.Int64N(int64(2*timeout)))) // the proofs of the connection go on
								armed.Store(true)
								until := await[session.Suspended](t, events).Deadline
								least = min(least, time.Until(until))
								await[session.Resumed](t, events)
							}
							t.Logf("left %v of %v", least, terms.Rest())
							check.AtLeast(t, least, terms.Rest()-2*time.Millisecond, "what is left when a heartbeat is due") // timers have milliseconds
						})
					})
				}
			}
		}
	}
}
