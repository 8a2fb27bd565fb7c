package config_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

type limits struct {
	Rate  int
	Burst int
}

// TestValue: what is written is read, and Closed is the last event.
func TestValue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all ...*session.Session) {
		ctx, s := t.Context(), all[0]
		v := check.Open(config.Open(s, "/config/limits", config.JSON[limits], nil))(t)
		check.Must(t, v.Set(ctx, limits{Rate: 1}))
		check.Must(t, v.Update(ctx, func(old limits) (limits, error) { old.Burst = old.Rate * 10; return old, nil }))
		got, version, err := v.Get(ctx)
		check.True(t, err == nil && got == (limits{1, 10}) && version == 1, "%v %d %v", got, version, err)
		go func() { kit.Pass(time.Second); v.Close() }()
		var last config.Event
		for ev := range v.Events() {
			switch ev := ev.(type) {
			case config.Changed[limits]:
				check.True(t, ev.Value == (limits{1, 10}) && ev.Version == 1, "%+v", ev)
			case config.Deleted, config.Invalid:
				t.Error(ev)
			case config.Closed:
			}
			last = ev
		}
		check.True(t, last == (config.Closed{}) && v.Err() == nil, "the last event is %v, and the reason %v", last, v.Err())
		<-v.Done()
	})
}

// What a reader is told as the node comes, goes, is broken and comes again.
func TestEvents(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		v, other := counter(t, s[0]), counter(t, s[1])
		expect(t, v, "deleted")
		if _, _, has := v.Last(); has {
			t.Error("there has been no value yet")
		}
		if _, _, err := v.Get(ctx); !errors.Is(err, session.ErrNoNode) {
			t.Errorf("Get without a node: %v", err)
		}
		check.Must(t, other.Set(ctx, 5))
		check.Equal[config.Event](t, expect(t, v, "changed version=0"), config.Changed[int]{Value: 5})
		_, err := s[1].Set(ctx, "/app/counter", []byte("{"), 0)
		check.Must(t, err)
		ev := expect(t, v, "invalid version=1: value does not decode: unexpected end of JSON input")
		invalid := ev.(config.Invalid)
		check.Is(t, invalid.Err, config.ErrInvalid)
		if last, version, has := v.Last(); last != 5 || version != 0 || !has {
			t.Errorf("the last good value is %d version %d", last, version)
		}
		if got, version, err := v.Get(ctx); got != 5 || version != 1 || !errors.Is(err, config.ErrInvalid) {
			t.Errorf("Get of an invalid value: %d version %d, %v", got, version, err)
		}
		check.Is(t, v.Update(ctx, increment), config.ErrInvalid) // Update of an invalid value
		check.Must(t, s[1].Delete(ctx, "/app/counter", 1))       // no marker is in the way
		expect(t, v, "deleted")
		check.Must(t, v.Update(ctx, increment)) // makes it, from zero
		expect(t, v, "changed version=0")
		value(t, other, 1, 0)
		_, err = s[1].Set(ctx, "/app/counter", []byte("x"), 0)
		check.Must(t, err)
		check.Must(t, v.Set(ctx, 7)) // replaces what does not decode
		expect(t, v, "changed version=2")
	})
}

// A service sees every change in the end, whatever happens to its connection.
func TestLiveReload(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		v, other := counter(t, s[0]), counter(t, s[1])
		expect(t, v, "deleted")
		want := 0
		for i := range 60 {
			id := s[0].ID()
			if i%3 == 2 {
				srv.Refuse(true)
				synctest.Wait()
			}
			switch i % 6 {
			case 0:
				srv.Disconnect(id)
			case 2:
				srv.Disconnect(id)
			case 3:
				srv.DropReply(zktest.Match{Op: zktest.OpGetData, Session: id})
			case 5:
				srv.Expire(id)
			}
			if i%10 == 9 { // the version is then what it was
				check.Must(t, s[1].Delete(ctx, "/app/counter", session.AnyVersion))
				want = 1000 * i
				check.Must(t, other.Set(ctx, want))
			} else {
				want++
				check.Must(t, other.Update(ctx, func(int) (int, error) { return want, nil }))
			}
			srv.Refuse(false)
			v.Events()
			kit.Pass(20 * time.Second)
			select {
			case ev := <-v.Events():
				changed, is := ev.(config.Changed[int])
				check.Require(t, is && changed.Value == want, "round %d: %#v, want %d", i, ev, want)
			default:
				t.Fatalf("round %d: no event, want %d", i, want)
			}
		}
	})
}

// A slow reader gets the newest, and delays no other.
func TestSlowReader(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		slow, other := counter(t, s[0]), counter(t, s[1])
		slow.Events()
		for i := range 500 {
			check.Must(t, other.Set(t.Context(), i))
			if i%50 == 0 {
				check.Have(s[1].Set(t.Context(), "/app/counter", []byte("?"), session.AnyVersion))(t)
			}
		}
		synctest.Wait()
		ev, is := (<-slow.Events()).(config.Changed[int])
		check.True(t, is && ev.Value == 499, "%#v, want the newest value, 499", ev)
		check.None(t, slow.Events(), "one more event")
		check.Len(t, markers(srv), 1, "that of the writer")
	})
}

// The error of f ends the update, and so does its panic; neither leaves anything.
func TestUpdateIsAborted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		stop := errors.New("stop")
		check.Is(t, v.Update(t.Context(), func(int) (int, error) { return 1, stop }), stop)
		func() {
			defer func() {
				check.True(t, recover() != nil, "the panic of f is gone")
			}()
			_ = v.Update(t.Context(), func(int) (int, error) { panic("f") })
		}()
		check.Is(t, v.Update(t.Context(), nil), session.ErrInvalidArgument)
		check.Len(t, srv.Paths(), 0, "written")
		check.Must(t, v.Update(t.Context(), increment))
		value(t, v, 1, 0)
	})
}

// What a write costs, with the directories made: one request, and one read for Update. The
// first one of a handle makes its marker before.
func TestCost(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		check.Must(t, counter(t, s[1]).Set(t.Context(), 0))
		v := counter(t, s[0])
		synctest.Wait()
		srv.ResetRequests()
		proposals := srv.Proposals()
		check.Must(t, v.Set(t.Context(), 0))
		if counts := srv.RequestsOf(s[0].ID()); counts[zktest.OpMulti] != 1 || counts[zktest.OpCreate] != 1 || srv.Proposals()-proposals != 2 {
			t.Errorf("the first write costs %v, and %d proposals", counts, srv.Proposals()-proposals)
		}
		synctest.Wait()
		srv.ResetRequests()
		for range 10 {
			check.Must(t, v.Update(t.Context(), increment))
		}
		synctest.Wait()
		counts := srv.RequestsOf(s[0].ID())
		// Half of the reads are those of the view, one for each change.
		check.True(t, counts[zktest.OpMulti] == 10 && counts[zktest.OpGetData] <= 20 && srv.Proposals() == 10, "ten updates cost %v, and %d proposals", counts, srv.Proposals())
	})
}

// No node of a handle outlives its Close, whatever was lost before.
func TestNoGhosts(t *testing.T) {
	for name, trouble := range map[string]func(srv *zktest.Server, s *session.Session){
		"none":              func(*zktest.Server, *session.Session) {},
		"lost reply":        func(srv *zktest.Server, _ *session.Session) { srv.DropReply(zktest.Match{Op: zktest.OpMulti}) },
		"lost request":      func(srv *zktest.Server, _ *session.Session) { srv.DropRequest(zktest.Match{Op: zktest.OpMulti}) },
		"second lost reply": func(srv *zktest.Server, _ *session.Session) { srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: 1}) },
		"third lost reply":  func(srv *zktest.Server, _ *session.Session) { srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: 2}) },
		"lost marker":       func(srv *zktest.Server, _ *session.Session) { srv.DropReply(zktest.Match{Op: zktest.OpCreate}) },
		"marker not made":   func(srv *zktest.Server, _ *session.Session) { srv.DropRequest(zktest.Match{Op: zktest.OpCreate}) },
		"second marker": func(srv *zktest.Server, _ *session.Session) {
			srv.DropReply(zktest.Match{Op: zktest.OpCreate, Skip: 1}) // after the directory is made
		},
		"lost delete": func(srv *zktest.Server, _ *session.Session) { srv.DropRequest(zktest.Match{Op: zktest.OpDelete}) },
		"lost look": func(srv *zktest.Server, _ *session.Session) {
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: 2})
			srv.DropReply(zktest.Match{Op: zktest.OpGetData, Path: "/app/_config-markers/*"})
		},
		"suspended": func(srv *zktest.Server, _ *session.Session) {
			srv.Refuse(true)
			srv.Disconnect(0)
			time.AfterFunc(time.Second, func() { srv.Refuse(false) })
		},
		"expired": func(srv *zktest.Server, s *session.Session) { srv.Expire(s.ID()) },
		"frozen": func(srv *zktest.Server, _ *session.Session) {
			srv.Freeze(0, zktest.Both)
			time.AfterFunc(time.Minute, func() { srv.Thaw(0) })
		},
		"no answer any more": func(srv *zktest.Server, _ *session.Session) {
			srv.Freeze(0, zktest.ToClient)
			time.AfterFunc(time.Minute, func() { srv.Thaw(0) })
		},
		"container is reaped": func(*zktest.Server, *session.Session) { kit.Pass(10 * time.Minute) },
	} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, wait=%v", name, wait), func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					v := counter(t, s[0])
					trouble(srv, s[0])
					answered := make(chan error, 5)
					for range cap(answered) {
						go func() { answered <- v.Update(t.Context(), increment) }()
					}
					synctest.Wait()
					confirmed, unknown := 0, 0
					tally := func() {
						for range cap(answered) {
							switch err := <-answered; {
							case err == nil:
								confirmed++
							case errors.Is(err, session.ErrUnknownOutcome):
								unknown++
							case !errors.Is(err, config.ErrClosed):
								t.Error(err)
							}
						}
					}
					if wait {
						tally()
					}
					begun := time.Now()
					v.Close()
					check.AtMost(t, time.Since(begun), 12*time.Second, "Close took")
					if !wait {
						tally()
					}
					kit.Pass(5 * time.Minute) // also for a session that is gone by its own deadline
					noMarkers(t, srv)
					got, _, err := counter(t, s[0]).Get(t.Context())
					if err != nil && !errors.Is(err, session.ErrNoNode) || got < confirmed || got > confirmed+unknown {
						t.Errorf("counted to %d (%v), %d confirmed, %d unknown", got, err, confirmed, unknown)
					}
					if _, _, err := v.Get(t.Context()); !errors.Is(err, config.ErrClosed) {
						t.Errorf("Get after Close: %v", err)
					}
					if err := v.Set(t.Context(), 1); !errors.Is(err, config.ErrClosed) || errors.Is(err, session.ErrUnknownOutcome) {
						t.Errorf("Set after Close: %v", err)
					}
				})
			})
		}
	}
}

// A context that ends tells the truth: what has not been sent will not be.
func TestContextEnds(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v, other := counter(t, s[0]), counter(t, s[1])
		check.Must(t, v.Set(t.Context(), 0))
		srv.Freeze(s[0].ID(), zktest.ToClient)
		cause := errors.New("had enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		sent, queued := make(chan error, 1), make(chan error, 1)
		go func() { sent <- v.Set(ctx, 1) }()
		synctest.Wait()
		go func() { queued <- v.Set(ctx, 2) }()
		synctest.Wait()
		cancel(cause)
		if err := <-sent; !errors.Is(err, cause) || !errors.Is(err, session.ErrUnknownOutcome) {
			t.Errorf("sent: %v", err)
		}
		if err := <-queued; !errors.Is(err, cause) || errors.Is(err, session.ErrUnknownOutcome) {
			t.Errorf("queued: %v", err)
		}
		srv.Thaw(s[0].ID())
		if err := v.Set(ctx, 3); !errors.Is(err, cause) || errors.Is(err, session.ErrUnknownOutcome) {
			t.Errorf("too late: %v", err)
		}
		kit.Pass(time.Minute)
		value(t, other, 1, 1)
	})
}

// What waits for a connection has not been sent, and can be taken back.
func TestContextEndsWithoutAConnection(t *testing.T) {
	for name, first := range map[string]bool{"first write": true, "second write": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				v, other := counter(t, s[0]), counter(t, s[1])
				check.Must(t, other.Set(t.Context(), 1))
				if !first {
					check.Must(t, v.Set(t.Context(), 2))
				}
				before, version, err := other.Get(t.Context())
				check.Must(t, err)
				srv.Refuse(true)
				srv.Disconnect(s[0].ID())
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := v.Set(ctx, 3); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, session.ErrUnknownOutcome) {
					t.Errorf("it was never sent: %v", err)
				}
				srv.Refuse(false)
				kit.Pass(time.Minute)
				value(t, other, before, version)
				check.Must(t, v.Set(t.Context(), 4)) // nothing stands in its way
				value(t, other, 4, version+1)
			})
		})
	}
}

// What its caller does with the bytes when Set has returned does not reach the server, also
// if they are sent once more.
func TestBytesAreCopied(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v, other := open(t, s[0], "/app/blob", config.Bytes, nil), open(t, s[1], "/app/blob", config.Bytes, nil)
		check.Must(t, v.Set(t.Context(), []byte("old")))
		srv.DropRequest(zktest.Match{Op: zktest.OpMulti})
		srv.Refuse(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		buffer := []byte("new")
		check.Is(t, v.Set(ctx, buffer), session.ErrUnknownOutcome) // its outcome is not known
		copy(buffer, "bad")
		srv.Refuse(false)
		kit.Pass(time.Minute)
		check.Reads(other.Get(t.Context()))(t, "new", "the server has")
	})
}

// Nor has what waits for the marker that is to prove it.
func TestContextEndsBeforeTheMarker(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		srv.Delay(zktest.Match{Op: zktest.OpCreate}, 3*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := v.Set(ctx, 1)
		check.True(t, errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, session.ErrUnknownOutcome), "it was never sent: %v", err)
		check.Must(t, v.Update(t.Context(), increment))
		value(t, v, 1, 0)
		v.Close()
		noMarkers(t, srv)
	})
}

// A lateCtx has ended when somebody waits for its end, and not before what was asked for
// is done.
type lateCtx struct {
	context.Context //nolint:containedctx // it is one
	over            bool
}

func (c *lateCtx) Done() <-chan struct{} {
	<-time.After(time.Second)
	c.over = true
	done := make(chan struct{})
	close(done)
	return done
}

func (c *lateCtx) Err() error {
	if c.over {
		return context.Canceled
	}
	return nil
}

// An answer that is there when the context's end is noticed is the answer.
func TestContextEndsWithTheAnswer(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		for i := range 50 {
			check.Must(t, v.Set(&lateCtx{Context: context.Background()}, i), "round", i, "it was answered in time")
		}
		value(t, v, 49, 49)
	})
}

// The handle ends with its session, and says so.
func TestSessionIsClosed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		check.Must(t, v.Set(t.Context(), 1))
		s[0].Close()
		<-v.Done()
		check.Is(t, v.Err(), session.ErrClosed, "the reason is")
		var last config.Event
		for last = range v.Events() {
		}
		ev, is := last.(config.Closed)
		check.True(t, is && errors.Is(ev.Err, session.ErrClosed), "the last event is %v", last)
		for name, err := range map[string]error{"Set": v.Set(t.Context(), 1), "Update": v.Update(t.Context(), increment)} {
			check.True(t, errors.Is(err, config.ErrClosed) && errors.Is(err, session.ErrClosed), "%s: %v", name, err)
		}
		noMarkers(t, srv)
		check.Fails(config.Open(s[0], "/app/counter", config.JSON[int], nil))(t, session.ErrClosed) // Open on a closed session
	})
}

// A marker that an operator deletes is made again; only what it was to prove is unknown.
func TestMarkerIsDeleted(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := open(t, s[0], "/app/counter", config.JSON[int], &config.Options{Markers: "/else/where", Sync: true})
		check.Must(t, v.Update(t.Context(), increment))
		remove := func() {
			t.Helper()
			all := markers(srv)
			check.Require(t, len(all) == 1 && strings.HasPrefix(all[0], "/else/where/_c_"), "markers: %q", all)
			check.Must(t, s[1].Delete(t.Context(), all[0], session.AnyVersion))
		}
		remove()
		check.Must(t, v.Update(t.Context(), increment))
		value(t, v, 2, 1)
		srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: s[0].ID()})
		srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: s[0].ID(), Path: "/else/where/*"}, time.Second)
		done := make(chan error, 1)
		go func() { done <- v.Update(t.Context(), increment) }()
		kit.Pass(900 * time.Millisecond)
		remove()
		check.Is(t, <-done, session.ErrUnknownOutcome)
		check.Must(t, v.Update(t.Context(), increment))
		value(t, v, 4, 3)
	})
}

// TestMarkerProvesNothing: a marker that another client has deleted or written to before it is
// looked at proves nothing. The marker of a first write is no exception: that write is not done
// again.
func TestMarkerProvesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		written bool // by this handle before
		harm    func(t *testing.T, s *session.Session, marker string)
	}{
		"deleted, of the first write": {false, func(t *testing.T, s *session.Session, marker string) {
			check.Must(t, s.Delete(t.Context(), marker, session.AnyVersion))
		}},
		"changed": {true, func(t *testing.T, s *session.Session, marker string) {
			check.Have(s.Set(t.Context(), marker, []byte("1"), session.AnyVersion))(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				v := open(t, s[0], "/app/counter", config.JSON[int], &config.Options{Markers: "/else/where"})
				first := v
				if !row.written {
					first = counter(t, s[1])
				}
				check.Must(t, first.Update(t.Context(), increment))
				srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: s[0].ID()})
				srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: s[0].ID(), Path: "/else/where/*"}, time.Second)
				done := kit.Begin(func() error { return v.Update(t.Context(), increment) })
				kit.Pass(900 * time.Millisecond)
				for _, path := range markers(srv) {
					if strings.HasPrefix(path, "/else/where/") {
						row.harm(t, s[1], path)
					}
				}
				check.Is(t, <-done, session.ErrUnknownOutcome)
				check.Must(t, srv.AwaitFault(time.Second))
				value(t, v, 2, 1)
				check.Must(t, v.Update(t.Context(), increment))
				value(t, v, 3, 2)
			})
		})
	}
}

// sick is a codec that fails where it is told to.
type sick struct{ encode, decode func() }

func (c sick) Encode(v int) ([]byte, error) {
	c.encode()
	return fmt.Append(nil, v), nil
}

func (c sick) Decode([]byte) (int, error) {
	c.decode()
	return 1, nil
}

// A codec that panics, or ends its goroutine, is an error wherever it is called, and the
// handle goes on.
func TestSickCodec(t *testing.T) {
	healthy := func() {}
	for name, row := range map[string]struct {
		f    func()
		want string
	}{
		"panic":  {func() { panic("no") }, "codec failed: it panicked: no"},
		"goexit": {runtime.Goexit, "codec failed: it called runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				mute := open(t, s[0], "/sick", func() config.Codec[int] { return sick{row.f, healthy} }, nil)
				for name, err := range map[string]error{"Set": mute.Set(t.Context(), 1), "Update": mute.Update(t.Context(), increment)} {
					check.True(t, errors.Is(err, watch.ErrCodec) && !errors.Is(err, session.ErrUnknownOutcome), "%s: %v", name, err)
				}
				check.Len(t, srv.Paths(), 0, "written")
				blind := open(t, s[0], "/sick", func() config.Codec[int] { return sick{healthy, row.f} }, nil)
				check.Must(t, blind.Set(t.Context(), 1))
				expect(t, blind, "invalid version=0: value does not decode: "+row.want)
				if _, _, err := blind.Get(t.Context()); !errors.Is(err, watch.ErrCodec) || !errors.Is(err, config.ErrInvalid) {
					t.Errorf("Get: %v", err)
				}
				check.Is(t, blind.Update(t.Context(), increment), watch.ErrCodec)
				check.Must(t, blind.Set(t.Context(), 2))
				expect(t, blind, "invalid version=1: value does not decode: "+row.want)
				if v, err := config.Open(s[0], "/a", func() config.Codec[int] { row.f(); return nil }, nil); v != nil || !errors.Is(err, watch.ErrCodec) {
					t.Errorf("Open: %v", err)
				}
			})
		})
	}
}

// A function that ends the goroutine of its caller ends only that.
func TestUpdateEndsItsGoroutine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = v.Update(t.Context(), func(int) (int, error) { runtime.Goexit(); return 1, nil })
			t.Error("Update has returned")
		}()
		<-gone
		check.Must(t, v.Update(t.Context(), increment))
		value(t, v, 1, 0)
	})
}

func TestBadInput(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		for name, row := range map[string]struct {
			s     *session.Session
			path  string
			codec func() config.Codec[int]
			opts  *config.Options
			want  error
		}{
			"no session":              {nil, "/a", config.JSON[int], nil, session.ErrInvalidArgument},
			"empty path":              {s[0], "", config.JSON[int], nil, session.ErrInvalidPath},
			"relative path":           {s[0], "a/b", config.JSON[int], nil, session.ErrInvalidPath},
			"root":                    {s[0], "/", config.JSON[int], nil, session.ErrInvalidPath},
			"no codec":                {s[0], "/a", nil, nil, session.ErrInvalidArgument},
			"nil codec":               {s[0], "/a", func() config.Codec[int] { return nil }, nil, session.ErrInvalidArgument},
			"markers: no path":        {s[0], "/a", config.JSON[int], &config.Options{Markers: "m"}, session.ErrInvalidPath},
			"markers below the value": {s[0], "/a", config.JSON[int], &config.Options{Markers: "/a/m"}, session.ErrInvalidPath},
			"markers in the value":    {s[0], "/a", config.JSON[int], &config.Options{Markers: "/a"}, session.ErrInvalidPath},
		} {
			v, err := config.Open(row.s, row.path, row.codec, row.opts)
			check.Require(t, errors.Is(err, row.want) && v == nil, "%s: %v, want %v", name, err, row.want)
			check.True(t, strings.HasPrefix(err.Error(), "config: "), "%s: %v does not begin with the recipe", name, err)
		}
		counts := srv.Requests()
		check.True(t, counts[zktest.OpGetData] == 0 && counts[zktest.OpExists] == 0, "I/O before the refusal: %v", counts)

		large := open(t, s[0], "/large", config.Bytes, nil)
		srv.ResetRequests()
		check.Is(t, large.Set(t.Context(), bytes.Repeat([]byte("x"), 2<<20)), session.ErrTooLarge)
		check.Equal(t, srv.Requests()[zktest.OpMulti], 0, "transactions were sent")
		text := open(t, s[0], "/text", config.Text, nil)
		check.Must(t, text.Set(t.Context(), "größer"))
		value(t, text, "größer", 0)
		value(t, open(t, s[0], "/text", config.Text, &config.Options{Sync: true}), "größer", 0)
	})
}

// A node that may not be read ends the handle; one that may not be written to is an
// error of the write.
func TestForbidden(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const noAuth = -102
		v := counter(t, s[0])
		check.Must(t, v.Set(t.Context(), 1))
		srv.AnswerError(zktest.Match{Op: zktest.OpMulti}, noAuth)
		err := v.Set(t.Context(), 2)
		check.True(t, errors.Is(err, session.ErrNoAuth) && !errors.Is(err, session.ErrUnknownOutcome), "a write that is refused: %v", err)
		check.Must(t, v.Set(t.Context(), 3))
		synctest.Wait()
		srv.AnswerError(zktest.Match{Op: zktest.OpGetData}, noAuth)
		check.Have(s[0].Set(t.Context(), "/app/counter", []byte("4"), session.AnyVersion))(t)
		<-v.Done()
		check.Is(t, v.Err(), session.ErrNoAuth, "the reason is")
		noMarkers(t, srv)
	})
}

// A marker of the session before may still stand, and is not the present one's.
func TestMarkerOfThePast(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		check.Must(t, v.Update(t.Context(), increment))
		srv.KeepEphemerals(10 * time.Second)
		srv.Expire(s[0].ID())
		check.Must(t, v.Update(t.Context(), increment))
		check.Len(t, markers(srv), 2, "that of the past beside the present one")
		kit.Pass(time.Minute)
		check.Len(t, markers(srv), 1, "the present one")
		value(t, v, 2, 1)
		v.Close()
		noMarkers(t, srv)
	})
}

// Nothing is read any more for a handle that is closed.
func TestClosedHandleReadsNothing(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v, other := counter(t, s[0]), counter(t, s[1])
		check.Must(t, other.Set(t.Context(), 1))
		kit.Pass(time.Second)
		v.Close()
		srv.ResetRequests()
		for i := range 5 {
			check.Must(t, other.Set(t.Context(), i))
			kit.Pass(time.Second)
		}
		check.Equal(t, srv.RequestsOf(s[0].ID())[zktest.OpGetData], 0, "reads for nobody")
	})
}

// A session that is closed waits for the answer to a write that is under way.
func TestSessionIsClosedDuringAWrite(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := counter(t, s[0])
		check.Must(t, v.Set(t.Context(), 1))
		srv.Delay(zktest.Match{Op: zktest.OpMulti}, 100*time.Millisecond)
		done := kit.Begin(func() error { return v.Set(t.Context(), 2) })
		s[0].Close()
		check.OK(t, <-done)
		noMarkers(t, srv)
	})
}

// TestLargest: what is refused as too large does not depend on whether there is a node.
func TestLargest(t *testing.T) {
	opts := session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, MaxRequest: 4 << 10}
	kit.Sessions(t, zktest.Config{Tick: time.Second}, 1, opts, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		v := open(t, s[0], "/app/text", config.Text, nil)
		check.Must(t, v.Set(t.Context(), ""))
		largest := sort.Search(opts.MaxRequest, func(n int) bool {
			err := v.Set(t.Context(), strings.Repeat("x", n+1))
			check.True(t, err == nil || errors.Is(err, session.ErrTooLarge), "%d bytes: %v", n+1, err)
			return err != nil
		})
		check.Within(t, largest, opts.MaxRequest/2, opts.MaxRequest-1)
		check.Must(t, s[0].Delete(t.Context(), "/app/text", session.AnyVersion))
		check.OK(t, v.Set(t.Context(), strings.Repeat("x", largest)), largest)
	})
}

// TestSmallServer: a value that is too large for the server is refused, and was not written. The
// handle goes on.
func TestSmallServer(t *testing.T) {
	inBubbleOn(t, zktest.Config{MaxRequest: 100_000}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v := open(t, s[0], "/app/text", config.Text, nil)
		check.Must(t, v.Set(t.Context(), "first"))
		check.Is(t, v.Set(t.Context(), strings.Repeat("x", 200_000)), session.ErrTooLarge)
		value(t, v, "first", 0)
		check.Is(t, v.Update(t.Context(), func(old string) (string, error) { return strings.Repeat(old, 40_000), nil }), session.ErrTooLarge)
		check.Must(t, v.Set(t.Context(), strings.Repeat("x", 90_000)))
		v.Close()
		noMarkers(t, srv)
	})
}
