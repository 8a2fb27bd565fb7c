package lock_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// What is measured here is measured beside it with zk.Lock of go-zookeeper. Run it with
//
//	go test -bench . -run '^$' ./primitives/lock

// benchServers starts servers that keep their data in memory, and has them run for
// some time, so that they are as fast for the first as for the last.
func benchServers(b *testing.B, n int) (ens *zktest.Ensemble, addrs []string) {
	b.Helper()
	ens = zktest.StartEnsemble(b, n, zktest.DataIn("/dev/shm"), zktest.DirectLinks())
	addrs = []string{ens.Addr(ens.Leader())} // the same for all
	s, conn := kit.Open(b, addrs, nil), connect(b, addrs)
	kit.Ensure(b, s, "/warm", nil)
	for range 1500 {
		acquire(b, s, "/warm").Close()
		if err := cycle(conn, "/warm"); err != nil {
			b.Fatal(err)
		}
	}
	s.Close()
	conn.Close()
	return ens, addrs
}

// connect opens a session of go-zookeeper.
func connect(b *testing.B, addrs []string) *zk.Conn {
	b.Helper()
	conn, events, err := zk.Connect(addrs, 20*time.Second, zk.WithLogInfo(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are gone
		}
	})
	return conn
}

func zkLock(conn *zk.Conn, path string) *zk.Lock {
	return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
}

// cycle acquires and releases a lock of go-zookeeper.
func cycle(conn *zk.Conn, path string) error {
	l := zkLock(conn, path)
	if err := l.Lock(); err != nil {
		return err
	}
	return l.Unlock()
}

// BenchmarkUncontended is one acquire-and-release of a lock without other contenders.
func BenchmarkUncontended(b *testing.B) {
	for _, where := range []struct {
		servers int
		trip    time.Duration // there and back, on top of what this machine takes
	}{{1, 0}, {3, 0}, {3, time.Millisecond}} {
		b.Run(fmt.Sprintf("servers=%d/network=%v", where.servers, where.trip), func(b *testing.B) {
			_, addrs := benchServers(b, where.servers)
			operator := kit.Open(b, addrs, nil)
			kit.Ensure(b, operator, "/uncontended", nil)
			if where.trip > 0 {
				proxy := zktest.NewProxy(b, addrs...)
				proxy.Latency(where.trip / 2)
				addrs = proxy.Addrs()
			}
			for _, test := range []struct {
				name string
				opts *lock.Options
			}{{"zkactors", nil}, {"zkactors-background", &lock.Options{ReleaseInBackground: true}}} {
				b.Run(test.name, func(b *testing.B) {
					ctx := b.Context()
					s := kit.Open(b, addrs, nil)
					b.ReportAllocs()
					for b.Loop() {
						l, err := lock.Acquire(ctx, s, "/uncontended", test.opts)
						if err != nil {
							b.Fatal(err)
						}
						l.Close()
					}
				})
			}
			b.Run("zk.Lock", func(b *testing.B) {
				conn := connect(b, addrs)
				b.ReportAllocs()
				for b.Loop() {
					if err := cycle(conn, "/uncontended"); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// A contestant takes a lock of its own session, again and again.
type contestant interface {
	join()        // begins to wait for the lock
	wait() error  // until it is held
	leave() error // gives it up, and returns when that is done
	watches() int // that it has while it holds the lock
	waiting() int // that it has while it waits for it
}

type ourContestant struct {
	ctx  context.Context //nolint:containedctx // of the benchmark
	s    *session.Session
	path string
	l    *lock.Lock
	err  error
}

func (c *ourContestant) join() { c.l, c.err = lock.New(c.s, c.path, nil) }

func (c *ourContestant) wait() error {
	if c.err != nil {
		return c.err
	}
	for ev := range c.l.Events() {
		if _, ok := ev.(lock.Acquired); ok {
			return nil
		}
	}
	return c.l.Err()
}

func (c *ourContestant) leave() error {
	err := c.l.Release(c.ctx)
	c.l.Close()
	return err
}

func (*ourContestant) watches() int { return 1 }
func (*ourContestant) waiting() int { return 2 }

type zkContestant struct {
	conn *zk.Conn
	path string
	l    *zk.Lock
	got  chan error
}

func (c *zkContestant) join() {
	c.l, c.got = zkLock(c.conn, c.path), make(chan error, 1)
	go func() { c.got <- c.l.Lock() }()
}

func (c *zkContestant) wait() error  { return <-c.got }
func (c *zkContestant) leave() error { return c.l.Unlock() }
func (*zkContestant) watches() int   { return 0 }
func (*zkContestant) waiting() int   { return 1 }

// BenchmarkHandOver is the time from a release in one session until the acquisition in
// another, which has been waiting; ns/op has the waiter's coming as well.
func BenchmarkHandOver(b *testing.B) {
	ens, addrs := benchServers(b, 1)
	operator := kit.Open(b, addrs, nil)
	kit.Ensure(b, operator, "/hand-over", nil)
	measure := func(b *testing.B, one, two contestant) {
		b.Helper()
		one.join()
		if err := one.wait(); err != nil {
			b.Fatal(err)
		}
		var total time.Duration
		for b.Loop() {
			two.join()
			for want := strconv.Itoa(one.watches() + two.waiting()); ens.Mntr(0)["zk_watch_count"] != want; {
			}
			left := make(chan error, 1)
			began := time.Now()
			go func() { left <- one.leave() }()
			if err := two.wait(); err != nil {
				b.Fatal(err)
			}
			total += time.Since(began)
			if err := <-left; err != nil {
				b.Fatal(err)
			}
			one, two = two, one
		}
		if err := one.leave(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns/hand-over")
	}
	b.Run("zkactors", func(b *testing.B) {
		ours := func() contestant {
			return &ourContestant{ctx: b.Context(), s: kit.Open(b, addrs, nil), path: "/hand-over"}
		}
		measure(b, ours(), ours())
	})
	b.Run("zk.Lock", func(b *testing.B) {
		theirs := func() contestant { return &zkContestant{conn: connect(b, addrs), path: "/hand-over"} }
		measure(b, theirs(), theirs())
	})
}
