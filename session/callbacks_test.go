package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// onTestsGoroutine reports whether a function of package testing has called, however
// indirectly. The goroutines of a session have no such caller.
func onTestsGoroutine() bool {
	var pcs [100]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "testing.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// An eavesdropper is told of requests, and keeps on which goroutine.
type eavesdropper struct {
	session.NopObserver
	mu      sync.Mutex
	callers map[string]int // callbacks on the goroutine of the test
	told    map[string]int // requests
	given   map[string]int // those of them that ended with their context
}

func (e *eavesdropper) called(what string) {
	if onTestsGoroutine() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.callers[what]++
	}
}

func (e *eavesdropper) State(session.Event) { e.called("Observer.State") }

func (e *eavesdropper) Request(op string, _ time.Duration, err error) {
	e.called("Observer.Request")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told[op]++
	if errors.Is(err, context.DeadlineExceeded) {
		e.given[op]++
	}
}

func eavesdropping(opts *session.Options) *eavesdropper {
	e := &eavesdropper{callers: make(map[string]int), told: make(map[string]int), given: make(map[string]int)}
	opts.Observer = e
	return e
}

// TestCallbacksAreNotTheCallers: no callback, for whatever is due, runs on the goroutine
// that calls a method: it may hold a lock that the callback wants, and may recover panics.
func TestCallbacksAreNotTheCallers(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		e := eavesdropping(opts)
		s := mustOpen(t, srv.Addrs(), opts)
		use := func() {
			for _, path := range []string{"/", "no path"} {
				for range 100 {
					a := s.Async(0)
					a.Create(path, nil, session.Persistent, func(string, error) { e.called("Create") })
					a.Delete(path, 0, func(error) { e.called("Delete") })
					a.Get(path, func([]byte, *session.Stat, error) { e.called("Get") })
					a.Exists(path, func(*session.Stat, error) { e.called("Exists") })
					a.Multi([]session.Op{session.CheckOp(path, 0)}, func([]session.OpResult, error) { e.called("Multi") })
					a.EnsurePath(path, func(bool, error) { e.called("EnsurePath") })
					a.Withdraw("/none", func(error) { e.called("Withdraw") })
					sub := a.Follow(path, session.AspectData, true, func(session.Reading, error) { e.called("Follow") })
					cancel := a.Watch(path, func([]byte, *session.Stat, error) { e.called("Watch") }, func([]byte, *session.Stat, error) { e.called("Watch") })
					unsubscribe := s.Subscribe(func(session.Event) <-chan struct{} { e.called("Subscribe"); return nil })
					ctx, end := context.WithCancel(t.Context())
					s.Events(ctx)
					end()
					s.Events(ctx)
					_, _ = s.Exists(ctx, path)
					_, _ = s.Create(ctx, path, nil, session.Ephemeral)
					sub.Cancel()
					cancel()
					unsubscribe()
				}
			}
		}
		use()
		_, _ = s.Exists(t.Context(), "/")
		srv.Disconnect(0)
		use()
		srv.Expire(0)
		use()
		s.Close()
		use()
		synctest.Wait()
		for what, n := range e.callers {
			t.Errorf("%s: %d callbacks on the caller's goroutine", what, n)
		}
	})
}

// TestGivenUpIsObserved: once, as given up if the request was waiting for a connection, and
// as what it was if it was waiting for a reply that came.
func TestGivenUpIsObserved(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"queued": func(srv *zktest.Server) { srv.Refuse(true); srv.Disconnect(0); synctest.Wait() },
		"sent":   func(srv *zktest.Server) { srv.Freeze(0, zktest.ToClient) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				e := eavesdropping(opts)
				s := mustOpen(t, srv.Addrs(), opts)
				fault(srv)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var wg sync.WaitGroup
				for _, request := range []func(){
					func() { _, _ = s.Exists(ctx, "/") },
					func() { _, _, _ = s.Get(ctx, "/") },
					func() { _, _, _ = s.Children(ctx, "/") },
					func() { _ = s.Sync(ctx, "/") },
					func() { _, _ = s.Set(ctx, "/a", nil, 0) },
					func() { _ = s.Delete(ctx, "/a", 0) },
					func() { _, _ = s.Create(ctx, "/a", nil, session.Persistent) },
					func() { _, _ = s.Multi(ctx, session.CheckOp("/a", 0)) },
					func() { _ = s.EnsurePath(ctx, "/a") },
				} {
					wg.Go(request)
				}
				wg.Wait()
				srv.Refuse(false)
				srv.Thaw(0)
				pass(time.Minute)
				e.mu.Lock()
				defer e.mu.Unlock()
				want := map[string]int{"exists": 1, "get": 1, "children": 1, "sync": 1, "set": 1, "delete": 1, "create": 1, "multi": 1, "ensure": 1}
				check.True(t, fmt.Sprint(e.told) == fmt.Sprint(want) && (name != "queued" || fmt.Sprint(e.given) == fmt.Sprint(want)), "told %v, of these given up %v, want %v", e.told, e.given, want)
			})
		})
	}
}

// TestRefusedIsObserved: as every request that is answered.
func TestRefusedIsObserved(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		e := eavesdropping(opts)
		s := mustOpen(t, srv.Addrs(), opts)
		_ = s.Delete(t.Context(), "no path", 0)
		s.Close()
		_, _ = s.Exists(t.Context(), "/")
		e.mu.Lock()
		defer e.mu.Unlock()
		if want := map[string]int{"delete": 1, "exists": 1}; fmt.Sprint(e.told) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", e.told, want)
		}
	})
}

// An unlocked observer, which is a handler of a log too, takes the locks of the session: it hangs
// if one is held.
type unlocked struct {
	slog.Handler
	session.NopObserver
	session atomic.Pointer[session.Session]
	mu      sync.Mutex
	calls   map[string]int
}

func unlocking(opts *session.Options) *unlocked {
	u := &unlocked{Handler: slog.DiscardHandler, calls: make(map[string]int)}
	opts.Logger, opts.Observer = slog.New(u), u
	return u
}

func (u *unlocked) called(ctx context.Context, what string) {
	u.mu.Lock()
	u.calls[what]++
	u.mu.Unlock()
	s := u.session.Load()
	if s == nil {
		return
	}
	s.AwaitLocks()
	_, _, _ = s.String(), s.ReadOnly(), s.Healthy(ctx)
	s.Async(0).Exists("no path", func(*session.Stat, error) {})
	s.Async(0).Follow("/", session.AspectData, true, func(session.Reading, error) {}).Cancel()
}

func (u *unlocked) Enabled(context.Context, slog.Level) bool { return true }
func (u *unlocked) Handle(ctx context.Context, r slog.Record) error {
	u.called(ctx, r.Message)
	return nil
}
func (u *unlocked) State(ev session.Event) { u.called(context.Background(), fmt.Sprintf("%T", ev)) }
func (u *unlocked) Request(op string, _ time.Duration, err error) {
	if !errors.Is(err, session.ErrInvalidPath) { // its own
		u.called(context.Background(), op)
	}
}

// TestNothingIsLockedMeanwhile: an observer, or a handler of the log, may ask the session.
func TestNothingIsLockedMeanwhile(t *testing.T) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		u := unlocking(opts)
		opts.ReadOnly, opts.Timeout = true, 6*time.Second
		opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
		s := mustOpen(t, srv.Addrs(), opts)
		u.session.Store(s)
		const throttled, authFailed = -127, -115
		for range 3 {
			srv.AnswerError(zktest.Match{Op: zktest.OpGetData}, throttled)
			srv.AnswerError(zktest.Match{Op: zktest.OpDelete}, throttled)
		}
		s.Async(0).Follow("/", session.AspectData, true, func(session.Reading, error) {})
		s.Async(0).Withdraw("/none", func(error) {})
		for range 10 { // some share a transaction
			s.Async(1).In(new(session.Lane)).Share([]session.Op{session.CheckOp("/", session.AnyVersion)}, func([]session.OpResult, error) {})
		}
		pass(time.Second)
		_ = s.EnsurePath(t.Context(), "/a/b")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		srv.Freeze(0, zktest.ToClient)
		_, _ = s.Set(short, "/", nil, session.AnyVersion)
		srv.Thaw(0)
		for _, trouble := range []strike{{greeting: readOnly, always: true}, {auth: authFailed, always: true}} {
			tp.strikeWith(trouble)
			srv.Disconnect(0)
			_, _ = s.Exists(t.Context(), "/")
			s.Async(0).Set("/", nil, session.AnyVersion, func(*session.Stat, error) {})
			pass(10 * time.Second)
			tp.strikeWith(strike{})
			pass(10 * time.Second)
		}
		srv.Disconnect(0)
		pass(time.Second)
		srv.Expire(0)
		pass(time.Second)
		srv.Refuse(true)
		srv.Disconnect(0)
		pass(10 * time.Second)
		srv.Refuse(false)
		pass(time.Second)
		s.Close()
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, what := range []string{
			"trying again", "reads are answered by a read-only server", "server cannot be used", "connection lost", "session expired",
			"the servers refuse the credentials in Options.Auth or Options.SASL", "client", "session closed",
			"session.Suspended", "session.Resumed", "session.Expired", "session.Closed",
			"watch", "exists", "set", "multi", "delete", "ensure",
		} {
			check.AtLeast(t, u.calls[what], 1, what)
		}
	})
}

// An exiting observer ends the goroutine of its first report of that kind.
type exitingObserver struct {
	session.NopObserver
	ev     session.Event // of this type; or a request, if it is nil
	exited atomic.Bool
}

func (e *exitingObserver) State(ev session.Event) {
	if fmt.Sprintf("%T", ev) == fmt.Sprintf("%T", e.ev) && e.exited.CompareAndSwap(false, true) {
		runtime.Goexit()
	}
}

func (e *exitingObserver) Request(string, time.Duration, error) {
	if e.ev == nil && e.exited.CompareAndSwap(false, true) {
		runtime.Goexit()
	}
}

// exitingSASL ends the goroutine of each exchange.
type exitingSASL struct{ begun chan struct{} }

func (e exitingSASL) Start(context.Context, string) (session.SASLExchange, []byte, error) {
	e.begun <- struct{}{}
	runtime.Goexit()
	return nil, nil, nil
}

// TestSASLThatExits: it is a failure of the server, and another is tried.
func TestSASLThatExits(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		exiting := exitingSASL{make(chan struct{})}
		opts.SASL = exiting
		s := check.Have(session.Start(srv.Addrs(), opts))(t)
		for range 3 {
			<-exiting.begun
		}
		synctest.Wait()
		check.True(t, strings.Contains(s.Healthy(t.Context()).Error(), "Goexit"), "%v", s.Healthy(t.Context()))
		go func() {
			for range exiting.begun { // until Close has returned
			}
		}()
		s.Close()
		close(exiting.begun)
	})
}

// TestCallbacksThatExit: a callback ends its goroutine, as t.FailNow does. Requests are answered
// all the same, other subscribers hear of each event, a loss is noticed in time, and Close returns.
func TestCallbacksThatExit(t *testing.T) {
	type act func(srv *zktest.Server, s *session.Session)
	once := func() (exit func()) {
		var exited atomic.Bool
		return func() {
			if exited.CompareAndSwap(false, true) {
				runtime.Goexit()
			}
		}
	}
	disconnect := func(srv *zktest.Server, _ *session.Session) { srv.Disconnect(0) }
	observed := func(ev session.Event) func(opts *session.Options, srv *zktest.Server) act {
		return func(opts *session.Options, _ *zktest.Server) act {
			opts.Observer = &exitingObserver{ev: ev}
			return disconnect
		}
	}
	var readings atomic.Int32
	does := func(f act) func(opts *session.Options, srv *zktest.Server) act {
		return func(*session.Options, *zktest.Server) act { return f }
	}
	for name, arrange := range map[string]func(opts *session.Options, srv *zktest.Server) act{
		"answer": does(func(_ *zktest.Server, s *session.Session) {
			s.Async(0).Exists("/", func(*session.Stat, error) { runtime.Goexit() })
		}),
		"answers of one reply": does(func(_ *zktest.Server, s *session.Session) {
			for range 20 {
				s.Async(1).In(new(session.Lane)).Share([]session.Op{session.CheckOp("/", session.AnyVersion)}, func([]session.OpResult, error) { runtime.Goexit() })
			}
		}),
		"answer on the way down": does(func(srv *zktest.Server, s *session.Session) {
			srv.Freeze(0, zktest.ToClient)
			s.Async(0).Exists("/", func(*session.Stat, error) { runtime.Goexit() })
			s.Async(0).Set("/", nil, 0, func(*session.Stat, error) { runtime.Goexit() })
			srv.Disconnect(0)
			srv.Thaw(0)
		}),
		"refused": does(func(_ *zktest.Server, s *session.Session) {
			s.Async(0).Delete("no path", 0, func(error) { runtime.Goexit() })
		}),
		"withdrawn": does(func(_ *zktest.Server, s *session.Session) {
			s.Async(0).Withdraw("/none", func(error) { runtime.Goexit() })
		}),
		"watch": does(func(_ *zktest.Server, s *session.Session) {
			s.Async(0).Watch("/", func([]byte, *session.Stat, error) { runtime.Goexit() }, func([]byte, *session.Stat, error) {})
		}),
		"watch, at the end": does(func(srv *zktest.Server, s *session.Session) {
			for range 3 {
				exit := once()
				s.Async(0).Follow("/", session.AspectData, true, func(_ session.Reading, err error) {
					if err != nil {
						exit()
					}
				})
			}
			srv.Expire(0)
			pass(time.Second)
			for range 5 { // in the place of those that have ended
				s.Async(0).Follow("/", session.AspectData, true, func(session.Reading, error) { readings.Add(1) })
			}
		}),
		"subscriber": does(func(_ *zktest.Server, s *session.Session) {
			s.Subscribe(func(session.Event) <-chan struct{} { runtime.Goexit(); return nil })
		}),
		"subscriber, suspended": does(func(srv *zktest.Server, s *session.Session) {
			srv.Refuse(true)
			srv.Disconnect(0)
			pass(time.Second)
			exit := once()
			s.Subscribe(func(session.Event) <-chan struct{} { exit(); return nil })
			pass(time.Second)
			srv.Refuse(false)
		}),
		"observer, requests":  observed(nil),
		"observer, connected": observed(session.Connected{}),
		"observer, suspended": observed(session.Suspended{}),
		"observer, expired":   observed(session.Expired{}),
		"observer, closed":    observed(session.Closed{}),
		"handler of the log": func(opts *session.Options, _ *zktest.Server) act {
			opts.Logger = slog.New(slowHandler{slog.DiscardHandler, func(slog.Record) { runtime.Goexit() }})
			return disconnect
		},
		"dialer": func(opts *session.Options, srv *zktest.Server) act {
			exit := once()
			opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				exit()
				return srv.DialContext(ctx, network, addr)
			}
			return disconnect
		},
		"resolver": func(opts *session.Options, srv *zktest.Server) act {
			exit := once()
			opts.Resolve = func(context.Context) ([]string, error) {
				exit()
				return srv.Addrs(), nil
			}
			return disconnect
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				act := arrange(opts, srv)
				addrs := srv.Addrs()
				if opts.Resolve != nil {
					addrs = nil
				}
				s := mustOpen(t, addrs, opts)
				events := s.Events(nil) //nolint:staticcheck // until it is closed
				defer s.Hold()()
				var suspended, lapsed atomic.Int32
				for range 5 {
					s.Async(0).Follow("/", session.AspectData, true, func(session.Reading, error) { readings.Add(1) })
					s.Subscribe(func(ev session.Event) <-chan struct{} {
						switch ev.(type) {
						case session.Suspended:
							suspended.Add(1)
						case session.Lapsed:
							lapsed.Add(1)
						case session.Connected, session.Resumed, session.Expired, session.Closed:
						}
						return nil
					})
				}
				pass(time.Second)
				act(srv, s)
				pass(5 * time.Second)
				check.Have(s.Exists(t.Context(), "/"))(t)
				synctest.Wait()
				for _, n := range []*atomic.Int32{&readings, &suspended, &lapsed} {
					n.Store(0)
				}
				srv.Refuse(true)
				srv.Freeze(0, zktest.Both)
				pass(12 * time.Second)
				synctest.Wait()
				check.EqualSlices(t, []int32{suspended.Load(), lapsed.Load(), readings.Load()}, []int32{5, 5, 0}, "T after the server fell silent: suspended, lapsed, readings")
				srv.Thaw(0)
				srv.Refuse(false)
				pass(5 * time.Second)
				check.Have(s.Exists(t.Context(), "/"))(t)
				s.Close()
				var newest session.Event
				for ev := range events {
					newest = ev
				}
				check.Equal(t, newest, session.Event(session.Closed{}), "the last event")
			})
		})
	}
}

// TestNilCallbacks: a method whose callback is nil panics, with the name of the argument: the
// goroutine that would call it has no trace of the caller.
func TestNilCallbacks(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		synctest.Wait()
		srv.ResetRequests()
		a := s.Async(0)
		read := func([]byte, *session.Stat, error) {}
		for argument, call := range map[string]func(){
			"Subscribe: tell":          func() { s.Subscribe(nil) },
			"Async.Withdraw: answer":   func() { a.Withdraw("/a", nil) },
			"Async.Create: answer":     func() { a.Create("/a", nil, session.Persistent, nil) },
			"Async.Delete: answer":     func() { a.Delete("/a", 0, nil) },
			"Async.Get: answer":        func() { a.Get("/", nil) },
			"Async.Set: answer":        func() { a.Set("/", nil, 0, nil) },
			"Async.Exists: answer":     func() { a.Exists("/", nil) },
			"Async.Children: answer":   func() { a.Children("/", nil) },
			"Async.Sync: answer":       func() { a.Sync("/", nil) },
			"Async.Multi: answer":      func() { a.Multi(nil, nil) },
			"Async.EnsurePath: answer": func() { a.EnsurePath("/a", nil) },
			"Async.Watch: answer":      func() { a.Watch("/", nil, read) },
			"Async.Watch: changed":     func() { a.Watch("/", read, nil) },
			"Async.Follow: tell":       func() { a.Follow("/", session.AspectData, true, nil) },
		} {
			func() {
				defer func() { check.Equal(t, recover(), any("session: "+argument+" is nil")) }()
				call()
			}()
		}
		synctest.Wait()
		check.Equal(t, srv.Requests().Total(), 0, "requests")
	})
}
