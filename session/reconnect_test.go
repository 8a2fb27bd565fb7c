package session_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A slowHandler calls handle with every record, and waits for it.
type slowHandler struct {
	slog.Handler
	handle func(slog.Record)
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(_ context.Context, r slog.Record) error {
	h.handle(r)
	return nil
}

// TestLossIsToldBeforeTheReconnect: a logger that takes its time while a connection is lost
// does not let the next one overtake the loss.
func TestLossIsToldBeforeTheReconnect(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		var frozen atomic.Bool
		opts.Logger = slog.New(slowHandler{slog.DiscardHandler, func(slog.Record) {
			if frozen.CompareAndSwap(true, false) {
				srv.Thaw(0)
				pass(10 * time.Millisecond) // that a reconnect needs
			}
		}})
		s := mustOpen(t, srv.Addrs(), opts)
		pass(10 * time.Second)
		srv.Freeze(s.ID(), zktest.Both)
		frozen.Store(true)
		pass(time.Hour)
		synctest.Wait()
		check.Must(t, exists(t, s))
		if ev, ok := s.State().(session.Suspended); ok {
			t.Errorf("an hour after the reconnect, with requests answered, the session is %v", ev)
		}
	})
}

// TestWatchesComeBackFirst: what a watch has missed is told before Resumed, and before the answers
// to requests, however long the server takes to set it again.
func TestWatchesComeBackFirst(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: time.Millisecond}, func(w kit.World) {
		const path = "/a"
		ctx := w.Context()
		s, other := w.OpenGated(session.Options{Timeout: 12 * time.Second}), w.Open(session.Options{Timeout: 12 * time.Second})
		check.Have(other.Create(ctx, path, nil, session.Persistent))(w)
		check.Must(w, s.Sync(ctx, "/"))
		pass(10 * time.Second)
		var told []string // in the session's order
		s.Async(0).Watch(path, func([]byte, *session.Stat, error) {}, func(_ []byte, _ *session.Stat, err error) {
			check.Is(w, err, session.ErrNoNode)
			told = append(told, "deleted")
		})
		s.Subscribe(func(ev session.Event) <-chan struct{} {
			if _, is := ev.(session.Resumed); is {
				told = append(told, "resumed")
			}
			return nil
		})
		pass(time.Second)
		s.Cut()
		check.Must(w, other.Delete(ctx, path, session.AnyVersion))
		for range 2 {
			s.Async(0).Exists(path, func(*session.Stat, error) { told = append(told, "answer") })
		}
		w.Delay(zktest.Match{Op: zktest.OpSetWatches}, time.Second)
		s.Mend()
		pass(5 * time.Second)
		synctest.Wait()
		check.EqualSlices(w, told, []string{"deleted", "resumed", "answer", "answer"})
	})
}

var reconnects = flag.Int("session.reconnects", hasten.Usually(1000, 250), "reconnects to go through; 20000 are a campaign")

// TestReconnectsUnderLoad freezes the connections of many sessions at once, until each has
// noticed. Each is connected again, and says so.
func TestReconnectsUnderLoad(t *testing.T) {
	sessions := hasten.Sized(min(*reconnects/5, 400), 10)
	rounds := hasten.Sized(*reconnects/sessions, 3)
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		all := make([]*session.Session, sessions)
		events := make([]<-chan session.Event, sessions)
		for i := range all {
			all[i] = mustOpen(t, srv.Addrs(), opts)
			events[i] = all[i].Events(t.Context())
			await[session.Connected](t, events[i])
		}
		for range rounds {
			var back sync.WaitGroup
			for i, s := range all {
				srv.Freeze(s.ID(), zktest.Both)
				back.Go(func() {
					await[session.Suspended](t, events[i])
					srv.Thaw(s.ID())
					zktest.Await(t, events[i], func(ev session.Event) bool {
						check.Equal(t, fmt.Sprintf("%T", ev), "session.Resumed", "after Suspended")
						return true
					})
				})
			}
			back.Wait()
		}
		for _, s := range all {
			check.OK(t, exists(t, s))
		}
	})
}

// TestStuckHeartbeat: a server that stops to read, with no room left between, is left for
// another before the session is lost. A heartbeat blocks in a write until then.
func TestStuckHeartbeat(t *testing.T) {
	const timeout = 6 * time.Second
	synctest.Test(t, func(t *testing.T) {
		heartbeats, stuck := 0, make(chan struct{})
		bad := &scripted{timeout: timeout, answer: func(_ *scripted, conn net.Conn, xid, op int32) bool {
			if op == opSync {
				heartbeats++
			}
			if heartbeats > 2 {
				<-stuck
				return false
			}
			reply(conn, xid, op, 0)
			return true
		}}
		defer close(stuck)
		good := &scripted{timeout: timeout, answer: func(_ *scripted, conn net.Conn, xid, op int32) bool {
			reply(conn, xid, op, 0)
			return true
		}}
		var dialled atomic.Int32
		opts := &session.Options{Timeout: timeout, ServerTick: 200 * time.Millisecond, Lease: session.LeaseAnswered}
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialled.Add(1) == 1 {
				return bad.dial(ctx, network, addr)
			}
			return good.dial(ctx, network, addr)
		}
		s := mustOpen(t, []string{"a:1", "b:1"}, opts)
		defer s.Rely()()
		events := s.Events(t.Context())
		await[session.Suspended](t, events)
		_, resumed := (<-events).(session.Resumed)
		check.True(t, resumed, "the session was lost, and the other server not tried")
	})
}

// TestTimeoutShrinks: a server that takes the session over, and allows it less time, gives
// it away that much earlier.
func TestTimeoutShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before, after = 30 * time.Second, 4 * time.Second
		var dialled atomic.Int32
		var silent atomic.Bool // the network is cut for good
		first := make(chan net.Conn, 1)
		opts := &session.Options{Timeout: before, ServerTick: time.Second, Lease: session.LeaseAnswered}
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			server := &scripted{timeout: before, answer: func(_ *scripted, conn net.Conn, xid, op int32) bool {
				if !silent.Load() {
					reply(conn, xid, op, 0)
				}
				return true
			}}
			server.refuse.Store(silent.Load())
			if dialled.Add(1) > 1 {
				server.timeout = after
				return server.dial(ctx, network, addr)
			}
			conn, err := server.dial(ctx, network, addr)
			first <- conn
			return conn, err
		}
		s := mustOpen(t, []string{"scripted:1"}, opts)
		defer s.Rely()()
		defer s.Hold()()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := s.Events(ctx)
		pass(time.Minute)
		_ = (<-first).Close() // a pipe does not fail to
		var taken time.Time
		for ev := range events {
			if _, ok := ev.(session.Resumed); ok {
				taken = time.Now()
				silent.Store(true)
			}
			if _, ok := ev.(session.Lapsed); ok {
				break
			}
		}
		if lost := time.Since(taken); taken.IsZero() {
			t.Error("lost, though a server has just taken it over")
		} else if lost > after {
			t.Errorf("lost %v after a handshake with a timeout of %v", lost, after)
		}
	})
}

// TestConnectionsThatBreakAtOnce: each connection is lost when it has resumed the session, before a
// transaction that waits has proved the lease. The next proves it before it resumes the session.
// Such a session is not given up.
func TestConnectionsThatBreakAtOnce(t *testing.T) {
	inBubble(t, zktest.Config{Latency: 20 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Timeout = 10 * time.Second
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Close()
		defer s.Rely()()
		read := make(chan error, 1)
		s.Async(0).Watch("/", func(_ []byte, _ *session.Stat, err error) { read <- err }, func([]byte, *session.Stat, error) {})
		check.Must(t, <-read)
		events := s.Events(t.Context())
		zktest.Await(t, events, nil) // it is connected
		for until := time.Now().Add(3 * opts.Timeout); time.Now().Before(until); {
			srv.Delay(zktest.Match{Op: zktest.OpCheck}, time.Millisecond) // no two answers come at once
			srv.Disconnect(0)
			ev := zktest.Await(t, events, func(ev session.Event) bool {
				_, suspended := ev.(session.Suspended)
				return !suspended
			})
			_, resumed := ev.(session.Resumed)
			check.Require(t, resumed, "%v", ev)
		}
	})
}

// TestWatchOnConnectionsThatBreakAtOnce: each connection is lost while the read of a watch is the
// only request on it. That is not its fault: the watch goes on, and finds the change.
func TestWatchOnConnectionsThatBreakAtOnce(t *testing.T) {
	inBubble(t, zktest.Config{Latency: 20 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Timeout = 10 * time.Second
		s, calm := mustOpen(t, srv.Addrs(), opts), mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		check.Have(s.Create(t.Context(), "/seen", []byte("before"), session.Persistent))(t)
		readings := make(chan session.Reading, 100)
		sub := s.Async(0).Follow("/seen", session.AspectData, true, func(r session.Reading, err error) {
			check.OK(t, err)
			readings <- r
		})
		defer sub.Cancel()
		check.Equal(t, string((<-readings).Data), "before", "the data")
		check.Have(calm.Set(t.Context(), "/seen", []byte("after"), session.AnyVersion))(t)
		events := s.Events(t.Context())
		zktest.Await(t, events, nil)
		alone := 0
		for range 40 {
			if sub.Unsettled() {
				alone++
			}
			srv.Disconnect(s.ID())
			zktest.Await(t, events, func(ev session.Event) bool {
				_, resumed := ev.(session.Resumed)
				return resumed
			})
		}
		check.True(t, alone >= 20 && !sub.Over(), "the read was under way %d times; over: %v", alone, sub.Over())
		check.Equal(t, string((<-readings).Data), "after", "the data")
	})
}

// TestPoison: a request whose reply always ends the connection fails, and others go on.
func TestPoison(t *testing.T) {
	for _, v := range verbs() {
		if v.writes() || strings.HasPrefix(v.class, "create") {
			continue // these are not repeated
		}
		t.Run(v.name, func(t *testing.T) {
			tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
				plant(t, srv)
				s := mustOpen(t, srv.Addrs(), opts)
				id := s.ID()
				tp.strikeWith(strike{always: true, reply: func(*tapped, []byte) ([]byte, error) { return nil, errCut }})
				answered := make(chan error, 2)
				v.start(t.Context(), s, func(err error) { answered <- err })
				select {
				case err := <-answered:
					check.True(t, strings.HasPrefix(v.class, "withdraw") || errors.Is(err, session.ErrDisconnected), "%v", err)
				case <-time.After(patience):
					t.Fatal("no answer in", patience)
				}
				if reached := tp.arrived(); reached > 10 && !strings.HasPrefix(v.class, "withdraw") {
					t.Errorf("it was made %d times", reached)
				}
				if err := exists(t, s); err != nil || s.ID() != id {
					t.Errorf("session %#x, before %#x: %v", s.ID(), id, err)
				}
			})
		})
	}
}

// TestCredentialsAreRefusedLater: requests say so, instead of waiting for ever.
func TestCredentialsAreRefusedLater(t *testing.T) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
		s := mustOpen(t, srv.Addrs(), opts)
		const authFailed = -115
		tp.strikeWith(strike{auth: authFailed})
		srv.Disconnect(0)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 3 { // also when the session has expired
			check.Fails(s.Exists(ctx, "/"))(t, session.ErrAuthFailed) // a read
			if err := s.Delete(ctx, "/a", 0); !errors.Is(err, session.ErrAuthFailed) || errors.Is(err, session.ErrUnknownOutcome) {
				t.Errorf("a write: %v", err)
			}
			pass(time.Minute)
		}
	})
}

// TestOneServerRefuses: at a reconnect one server of two refuses the credentials, once. Nothing
// fails for that: what waits goes out when the other has accepted them. When both have refused, it
// fails, and so does Await until one accepts.
func TestOneServerRefuses(t *testing.T) {
	for _, refusals := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(refusals), func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
				s := mustOpen(t, srv.Addrs(), opts)
				const authFailed = -115
				for range refusals { // of connections
					srv.AnswerError(zktest.Match{Op: zktest.OpAuth}, authFailed)
				}
				want := error(nil)
				if refusals > 1 {
					want = session.ErrAuthFailed
				}
				srv.Refuse(true)
				srv.Disconnect(0)
				synctest.Wait()
				answers := make(chan error, 2)
				s.Async(1).Set("/", nil, session.AnyVersion, func(_ *session.Stat, err error) { answers <- err })
				s.Async(0).Exists("/", func(_ *session.Stat, err error) { answers <- err })
				srv.Refuse(false)
				for range cap(answers) {
					check.Is(t, <-answers, want, "a request that waits")
				}
				if refusals > 2 {
					check.Is(t, s.Await(t.Context()), session.ErrAuthFailed, "Await")
					check.Is(t, s.Healthy(t.Context()), session.ErrAuthFailed, "Healthy")
					check.Fails(s.Exists(t.Context(), "/"))(t, session.ErrAuthFailed)
				}
				pass(10 * time.Second)
				check.OK(t, s.Await(t.Context()), "Await, when a server has accepted")
				check.OK(t, s.Healthy(t.Context()))
				check.Have(s.Exists(t.Context(), "/"))(t)

				srv.AnswerError(zktest.Match{Op: zktest.OpAuth}, authFailed) // of the earlier refusals none counts
				srv.Disconnect(0)
				check.OK(t, s.Await(t.Context()), "Await, after one refusal more")
			})
		})
	}
}

// TestOpenIsRefused: by every server, or by one of two.
func TestOpenIsRefused(t *testing.T) {
	for refusals, want := range []error{nil, nil, session.ErrAuthFailed} {
		inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
			for range refusals {
				srv.AnswerError(zktest.Match{Op: zktest.OpAuth}, -115)
			}
			s, err := session.Open(t.Context(), srv.Addrs(), opts)
			if check.Is(t, err, want, refusals, " refusals"); err == nil {
				s.Close()
			}
		})
	}
}

// TestOpenIsRefusedOnce: each server is asked once, and the log has one error, although the servers
// have begun a session with the handshake.
func TestOpenIsRefusedOnce(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		j := newJournal(slog.LevelWarn)
		opts.Logger = slog.New(j)
		opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
		for range 20 {
			srv.AnswerError(zktest.Match{Op: zktest.OpAuth}, -115)
		}
		_, err := session.Open(t.Context(), srv.Addrs(), opts)
		check.Is(t, err, session.ErrAuthFailed)
		check.Equal(t, srv.Requests()[zktest.OpAuth], 3, "attempts")
		check.Equal(t, j.count("refuse the credentials"), 1, j.kept())
	})
}

// TestFailedDialsAreTold: to the logger, with the address and in moderation, and to
// requests that waited in vain.
func TestFailedDialsAreTold(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		j := newJournal(slog.LevelWarn)
		opts.Logger = slog.New(j)
		down := false
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down || addr != srv.Addrs()[0] {
				return nil, fmt.Errorf("no route to %s", strings.ToUpper(addr))
			}
			return srv.DialContext(ctx, network, addr)
		}
		servers := append([]string{"absent:1"}, srv.Addrs()...)
		s := mustOpen(t, servers, opts)
		down = true
		srv.Disconnect(0)
		synctest.Wait()
		for name, do := range map[string]func(context.Context) error{
			"a read":  func(ctx context.Context) error { _, err := s.Exists(ctx, "/"); return err },
			"a write": func(ctx context.Context) error { return s.Delete(ctx, "/a", 0) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			err := do(ctx)
			cancel()
			check.True(t, errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, session.ErrUnknownOutcome), "%s: %v", name, err)
			for _, server := range servers {
				check.True(t, strings.Contains(fmt.Sprint(err), "no route to "+strings.ToUpper(server)), "%s does not name the failure of %s: %v", name, server, err)
			}
		}
		pass(10 * time.Minute)
		for _, server := range servers {
			check.Within(t, j.count("server="+server+" reason=\"no route to"), 1, 60, "warnings in ten minutes of", server)
		}
	})
}

// TestMissingChrootIsNamed: a create below a chroot that does not exist says that.
func TestMissingChrootIsNamed(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Chroot = "/apps/biling" // a typing error
		s := mustOpen(t, srv.Addrs(), opts)
		for name, create := range map[string]func() error{
			"persistent": func() error { _, err := s.Create(t.Context(), "/a", nil, session.Persistent); return err },
			"sequential": func() error { _, err := s.Create(t.Context(), "/a-", nil, session.EphemeralSequential); return err },
		} {
			if err := create(); !errors.Is(err, session.ErrNoNode) || !strings.Contains(fmt.Sprint(err), "chroot") || !strings.Contains(fmt.Sprint(err), opts.Chroot) {
				t.Errorf("%s: %v", name, err)
			}
		}
		check.Must(t, s.EnsurePath(t.Context(), "/"))
		if _, err := s.Create(t.Context(), "/b/c", nil, session.Persistent); !errors.Is(err, session.ErrNoNode) || strings.Contains(fmt.Sprint(err), "chroot") {
			t.Errorf("with the chroot in place: %v", err)
		}
	})
}

// TestThrottledWhenReconnected: a server throttles what a connection begins with. The session
// insists on the connection that it has, and its requests and watches go on with it. It tries
// another when that takes too long.
func TestThrottledWhenReconnected(t *testing.T) {
	const throttled = -127
	for name, row := range map[string]struct {
		ops     []zktest.Op
		lasts   time.Duration
		dialled int32
	}{
		"the first sync":   {[]zktest.Op{zktest.OpSync}, 3 * time.Second, 1},
		"watches":          {[]zktest.Op{zktest.OpSetWatches}, 3 * time.Second, 1},
		"both":             {[]zktest.Op{zktest.OpSync, zktest.OpSetWatches}, 3 * time.Second, 1},
		"both, for longer": {[]zktest.Op{zktest.OpSync, zktest.OpSetWatches}, 7 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				var dialled atomic.Int32
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					dialled.Add(1)
					return srv.DialContext(ctx, network, addr)
				}
				s := mustOpen(t, srv.Addrs(), opts)
				other := mustOpen(t, srv.Addrs(), &session.Options{Timeout: 20 * time.Second, Dialer: srv.DialContext})
				told := make(chan string, 100)
				s.Async(0).Follow("/", session.AspectData, true, func(r session.Reading, _ error) { told <- string(r.Data) })
				<-told
				dialled.Store(0)
				for _, op := range row.ops {
					for range 1000 {
						srv.AnswerError(zktest.Match{Op: op, Session: s.ID()}, throttled)
					}
				}
				srv.Disconnect(s.ID())
				synctest.Wait()
				answer := make(chan error, 1)
				s.Async(0).Set("/", []byte("mine"), session.AnyVersion, func(_ *session.Stat, err error) { answer <- err })
				pass(row.lasts)
				check.None(t, answer, "a write that overtakes the sync")
				srv.ClearFaults()
				check.OK(t, <-answer, "the write that waited")
				for <-told != "mine" {
				}
				check.Have(other.Set(t.Context(), "/", []byte("theirs"), session.AnyVersion))(t)
				check.Equal(t, <-told, "theirs", "after another change")
				check.Equal(t, dialled.Load(), row.dialled, "dialled")
			})
		})
	}
}

// TestLateReconnect: a session that is connected again before its deadline lives on, also
// while a recipe relies on it.
func TestLateReconnect(t *testing.T) {
	for _, relied := range []bool{false, true} {
		inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			ready := make(chan struct{})
			close(ready)
			var mu sync.Mutex
			opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				wait := ready
				mu.Unlock()
				<-wait
				return srv.DialContext(context.WithoutCancel(ctx), network, addr)
			}
			s := mustOpen(t, srv.Addrs(), opts)
			defer s.Hold()()
			if relied {
				defer s.Rely()()
			}
			pass(time.Minute)
			mu.Lock()
			ready = make(chan struct{})
			mu.Unlock()
			events := s.Events(t.Context())
			srv.Disconnect(0)
			deadline := await[session.Suspended](t, events).Deadline
			pass(time.Until(deadline) - 100*time.Millisecond)
			close(ready)
			pass(time.Minute)
			if _, ok := s.State().(session.Resumed); !ok {
				t.Errorf("relied on %v: %v", relied, s.State())
			}
		})
	}
}
