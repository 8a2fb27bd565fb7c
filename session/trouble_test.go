package session_test

import (
	"context"
	"errors"
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
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file keeps what once went wrong.

// TestCloseIsNotMissed closes sessions while others do what the session's loop would.
func TestCloseIsNotMissed(t *testing.T) {
	for range 200 {
		inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			s := mustOpen(t, srv.Addrs(), opts)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for !errors.Is(exists(t, s), session.ErrClosed) {
						continue
					}
				})
			}
			begun := time.Now()
			s.Close()
			check.AtMost(t, time.Since(begun), time.Second, "Close took")
			wg.Wait()
		})
	}
}

func exists(t *testing.T, s *session.Session) error {
	_, err := s.Exists(t.Context(), "/")
	return err
}

// TestWatchOutlivesErrors: what goes wrong in a read after a change is no reason to stop
// watching.
func TestWatchOutlivesErrors(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		other := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		check.Have(other.Create(ctx, "/a", nil, session.Persistent))(t)
		told := make(chan string, 10)
		tell := func(data []byte, _ *session.Stat, err error) {
			told <- fmt.Sprintf("%s %v", data, errors.Is(err, session.ErrNoNode))
		}
		s.Async(0).Watch("/a", tell, tell)
		check.Equal(t, <-told, " false", "first")
		const throttled = -127
		for range 3 {
			srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: "/a"}, throttled)
		}
		check.Have(other.Set(ctx, "/a", []byte("new"), session.AnyVersion))(t)
		check.Equal(t, <-told, "new false", "after the change")
		check.Must(t, other.Delete(ctx, "/a", session.AnyVersion))
		check.Equal(t, <-told, " true", "after the deletion")
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

// TestCreateOnABusyServer: the server says that it is busy, and has created the node, or not.
// Create returns a node that stands. If the server is busy until the context ends, none is left.
func TestCreateOnABusyServer(t *testing.T) {
	const operationTimeout, throttled = -7, -127
	for _, mode := range []session.CreateMode{session.Ephemeral, session.EphemeralSequential, session.PersistentSequential} {
		for _, code := range []int32{operationTimeout, throttled} {
			for _, done := range []bool{false, true} {
				for _, always := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d/%d/%v/%v", mode, code, done, always), func(t *testing.T) {
						tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
							s := mustOpen(t, srv.Addrs(), opts)
							check.Have(s.Create(t.Context(), target, nil, session.Persistent))(t)
							busy := forge(func(frame []byte) []byte { return withInt32(frame, 12, code)[:replyHeader] })
							if busy.always = always; !done {
								busy.request = harmless
							}
							tp.strikeWith(busy)
							ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
							defer cancel()
							node, err := s.Create(ctx, target+"/node", nil, mode)
							check.AtMost(t, tp.arrived(), 80, "creates in a minute")
							tp.strikeWith(strike{})
							pass(time.Minute)
							want := 1
							if always && !done {
								check.Is(t, err, context.DeadlineExceeded)
								want = 0
							} else if check.OK(t, err); err == nil {
								check.Have(s.Set(t.Context(), node, nil, session.AnyVersion))(t)
							}
							names, _, err := s.Children(t.Context(), target)
							check.Must(t, err)
							check.Len(t, names, want, "nodes")
						})
					})
				}
			}
		}
	}
}

// TestManyWatchesAndSmallRequests: setting watches again needs more room than requests.
func TestManyWatchesAndSmallRequests(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.MaxRequest = 4 << 10
		s := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		gone := make(chan struct{}, 300)
		for i := range 300 {
			path := fmt.Sprintf("/%01000d", i)
			check.Have(s.Create(ctx, path, nil, session.Persistent))(t)
			s.Async(0).Watch(path, func([]byte, *session.Stat, error) {}, func([]byte, *session.Stat, error) { gone <- struct{}{} })
		}
		begun := time.Now()
		srv.Disconnect(0)
		synctest.Wait()
		if err := exists(t, s); err != nil || time.Since(begun) > time.Second {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		for i := range 300 {
			check.Must(t, s.Delete(ctx, fmt.Sprintf("/%01000d", i), session.AnyVersion))
			<-gone
		}
	})
}

// TestCreateInDoubtWhenTheSessionExpires returns.
func TestCreateInDoubtWhenTheSessionExpires(t *testing.T) {
	for _, mode := range []session.CreateMode{session.Ephemeral, session.EphemeralSequential} {
		inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			s := mustOpen(t, srv.Addrs(), opts)
			srv.DropReply(zktest.Match{Op: zktest.OpCreate})
			failed := make(chan error)
			go func() {
				_, err := s.Create(context.Background(), "/a", nil, mode)
				failed <- err
			}()
			check.Must(t, srv.AwaitFault(time.Second))
			srv.Refuse(true)
			pass(time.Minute)
			srv.Refuse(false)
			check.Is(t, <-failed, session.ErrExpired, "mode", mode)
		})
	}
}

// TestCreateInDoubtIsNotAnothers: two of one session want the same ephemeral node.
func TestCreateInDoubtIsNotAnothers(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		check.Have(s.Create(ctx, "/me", []byte("first"), session.Ephemeral))(t)
		srv.DropReply(zktest.Match{Op: zktest.OpCreate})
		check.Fails(s.Create(ctx, "/me", []byte("second"), session.Ephemeral))(t, session.ErrNodeExists) // the second
		srv.Freeze(s.ID(), zktest.ToClient)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		check.Fails(s.Create(short, "/me", []byte("third"), session.Ephemeral))(t, session.ErrUnknownOutcome) // the third
		srv.Thaw(0)
		pass(time.Second)
		check.Reads(s.Get(ctx, "/me"))(t, "first", "the node is")
	})
}

// TestPathAtTheLimit tries every length around what fits.
func TestPathAtTheLimit(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.MaxRequest = 160 << 10 // what the client below is given
		s := mustOpen(t, srv.Addrs(), opts)
		for n := opts.MaxRequest - 300; n < opts.MaxRequest+20; n += hasten.Sized(1, 7) {
			path := "/" + strings.Repeat("x", n-1)
			if _, _, err := s.Get(t.Context(), path); !errors.Is(err, session.ErrTooLarge) && !errors.Is(err, session.ErrNoNode) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	})
}

// TestDefaultLimits are those of the servers: requests of 1,048,575 bytes, and replies of
// 4 MiB.
func TestDefaultLimits(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		const path, least, name = "/a", 20 + len("/a"), 1000
		const most = (4<<20 - replyHeader - 4 - 68) / (4 + name) // children, beside how many there are, and a Stat
		check.Have(s.Create(ctx, path, nil, session.Persistent))(t)
		for _, row := range []struct {
			bytes int // of the request
			fits  bool
		}{{1e6, true}, {1<<20 - 2, true}, {1<<20 - 1, true}, {1 << 20, false}, {2e6, false}} {
			_, err := s.Set(ctx, path, make([]byte, row.bytes-least), session.AnyVersion)
			check.True(t, (!row.fits || err == nil) && (row.fits || errors.Is(err, session.ErrTooLarge)) && !errors.Is(err, session.ErrUnknownOutcome), "%d bytes: %v", row.bytes, err)
		}
		for i := range most + 1 {
			check.Have(s.Create(ctx, fmt.Sprintf("/a/%0*d", name, i), nil, session.Persistent))(t)
			if i < most-1 {
				continue
			}
			if names, _, err := s.Children(ctx, path); i < most && len(names) != most || i == most && !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("%d children of %d, %v", len(names), i+1, err)
			}
		}
	})
}

func TestChrootIsNotLeft(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Chroot = "/app"
		s := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		check.Must(t, s.EnsurePath(ctx, "/"))
		results, err := s.Multi(ctx, session.CreateOp("/", nil, session.PersistentSequential))
		check.True(t, err == nil && results[0].Path == "/0000000000", "created %+v, %v", results, err)
		check.Have(s.Create(ctx, "/", nil, session.PersistentSequential))(t)
		if names, _, err := s.Children(ctx, "/"); err != nil || len(names) != 2 {
			t.Errorf("below the chroot: %q, %v", names, err)
		}
	})
}

// TestEndedContextsDoNothing: neither on the server nor in the session.
func TestEndedContextsDoNothing(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if _, err := s.Create(ended, "/a", nil, session.Persistent); !errors.Is(err, context.Canceled) || errors.Is(err, session.ErrUnknownOutcome) {
				t.Fatal(err)
			}
		}
		// Those that wait for a connection, and give up, leave nothing of themselves.
		srv.Refuse(true)
		srv.Disconnect(0)
		synctest.Wait()
		name := "/" + strings.Repeat("x", 64<<10)
		for range 100 {
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			check.Fails(s.Create(short, name, nil, session.Ephemeral))(t, context.DeadlineExceeded)
			cancel()
		}
		srv.Refuse(false)
		check.Have(s.Create(t.Context(), "/b", nil, session.Ephemeral))(t) // afterwards
		isGone(t, s, "/a")
	})
}

// TestCreateEndsInDoubt: the reply to a create was lost, and the context ends before the session
// knows whether the node was made. The error names both.
func TestCreateEndsInDoubt(t *testing.T) {
	for _, mode := range []session.CreateMode{session.Ephemeral, session.EphemeralSequential, session.PersistentSequential} {
		inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			s := mustOpen(t, srv.Addrs(), opts)
			srv.DropReply(zktest.Match{Op: zktest.OpCreate})
			srv.Refuse(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Create(ctx, "/a", nil, mode)
			check.Is(t, err, session.ErrUnknownOutcome, "mode ", mode)
			check.Is(t, err, context.DeadlineExceeded, "mode ", mode)
		})
	}
}

// TestEnsureEndsInDoubt: the error has the cause once.
func TestEnsureEndsInDoubt(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		srv.Delay(zktest.Match{Path: "/a"}, 3*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.EnsurePath(ctx, "/a")
		check.Is(t, err, context.DeadlineExceeded)
		check.Equal(t, strings.Count(err.Error(), context.DeadlineExceeded.Error()), 1, err.Error())
	})
}

// TestLargeReplyToWrite: what was done is not said to have failed.
func TestLargeReplyToWrite(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.MaxReply = 4 << 10
		s := mustOpen(t, srv.Addrs(), opts)
		var ops []session.Op
		for i := range 60 {
			ops = append(ops, session.CreateOp(fmt.Sprintf("/%0100d", i), nil, session.Ephemeral))
		}
		if _, err := s.Multi(t.Context(), ops...); !errors.Is(err, session.ErrUnknownOutcome) || !errors.Is(err, session.ErrTooLarge) {
			t.Error(err)
		}
	})
}

// TestCloseWhileDisconnected: the server is told as soon as it can be.
func TestCloseWhileDisconnected(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
		srv.Disconnect(0)
		s.Close()
		check.Len(t, srv.Sessions(), 0, "the server still knows sessions")
	})
}

// TestFollowingIntoTheNextEpoch: who is told that an epoch has ended, and asks again at once,
// asks the next one.
func TestFollowingIntoTheNextEpoch(t *testing.T) {
	for name, end := range map[string]func(*zktest.Server, int64){
		"expired": func(srv *zktest.Server, id int64) { srv.Expire(id) },
		"overdue": func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.Both) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				s := mustOpen(t, srv.Addrs(), opts)
				var mu sync.Mutex
				told := map[string]int{}
				var follow func(path string, aspect session.Aspect)
				follow = func(path string, aspect session.Aspect) {
					s.Async(0).Follow(path, aspect, true, func(_ session.Reading, err error) {
						mu.Lock()
						told[fmt.Sprint(err)]++
						mu.Unlock()
						if errors.Is(err, session.ErrExpired) {
							follow(path, aspect)
						}
					})
				}
				for i := range 10 {
					follow(fmt.Sprintf("/n%d", i), session.AspectData)
					follow(fmt.Sprintf("/n%d", i), session.AspectChildren)
				}
				for range 3 {
					pass(time.Minute)
					end(srv, s.ID())
				}
				pass(time.Minute)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				check.True(t, told["<nil>"] == 4*20, "told %d times of 20 aspects in 4 epochs", told["<nil>"])
				delete(told, "<nil>")
				for why, n := range told {
					if n != 2*3 { // of both aspects
						t.Errorf("%d times: %s", n, why)
					}
				}
			})
		})
	}
}

// TestSubscriptionsAreForgotten: also those that ended before they began.
func TestSubscriptionsAreForgotten(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 1000 {
			s.Events(ended)
		}
		s.Close()
		for range 1000 {
			for ev := range s.Events(t.Context()) {
				check.Require(t, ev == (session.Closed{}), "%v", ev)
			}
		}
	})
}

// TestDeadlineEndsClose: when the deadline passes, the server need not be told any more.
func TestDeadlineEndsClose(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.CloseTimeout = time.Hour
		s := mustOpen(t, srv.Addrs(), opts)
		s.Subscribe(func(session.Event) <-chan struct{} { return make(chan struct{}) }) // it never settles
		srv.Freeze(0, zktest.Both)
		begun := time.Now()
		s.Close()
		check.AtMost(t, time.Since(begun), opts.Timeout, "Close took")
		srv.Thaw(0)
	})
}

// A slowLogger takes an hour for each record of a kind.
type slowLogger struct {
	slog.Handler
	is func(slog.Record) bool
}

func (h slowLogger) Enabled(context.Context, slog.Level) bool { return true }

func (h slowLogger) Handle(_ context.Context, r slog.Record) error {
	if h.is(r) {
		pass(time.Hour)
	}
	return nil
}

// TestSlowLogger: a logger that blocks delays neither the news of a loss nor the end of a
// request whose context has ended.
func TestSlowLogger(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Logger = slog.New(slowLogger{slog.DiscardHandler, func(r slog.Record) bool {
			return r.Level == slog.LevelWarn // and so is the record of the loss
		}})
		s := mustOpen(t, srv.Addrs(), opts)
		events := s.Events(t.Context())
		begun := time.Now()
		srv.Refuse(true)
		srv.Disconnect(0)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Fails(s.Exists(ctx, "/"))(t, context.DeadlineExceeded)
		await[session.Expired](t, events)
		check.AtMost(t, time.Since(begun), opts.Timeout, "the loss was told after")
		srv.Refuse(false)
	})
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
