package lock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The events of one who has to wait.
func ExampleNew() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	first := must(lock.Acquire(ctx, a, "/locks/report", nil))
	second := must(lock.New(b, "/locks/report", nil))
	defer second.Close()
	for ev := range second.Events() {
		switch ev := ev.(type) {
		case lock.Waiting:
			fmt.Println("waiting, ahead:", ev.Ahead)
			first.Close()
		case lock.Acquired:
			fmt.Println("acquired, with a greater token:", ev.Token > first.Token())
			fmt.Println(second.Release(ctx))
		case lock.Suspended, lock.Resumed, lock.Revoked:
			fmt.Println("the network")
		case lock.Released:
			fmt.Println("released")
		case lock.Lost:
			fmt.Println(ev.Err)
		}
	}
	// Output:
	// waiting, ahead: 1
	// acquired, with a greater token: true
	// <nil>
	// released
}

// Two accounts are locked at once: another transfer between them, in the other direction, waits for
// this one, and this one never waits for that.
func ExampleAcquireAll() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	held := must(lock.AcquireAll(ctx, s, []lock.Want{{Path: "/accounts/ann"}, {Path: "/accounts/bob"}, {Path: "/rates", Kind: lock.Read}}, nil))
	defer held.Close()
	_, err := s.Multi(ctx, append(held.Guards(), session.CreateOp("/transfer-1", []byte("ann to bob: 5"), session.Persistent))...)
	fmt.Println(err)
	// Output:
	// <nil>
}

// A transaction that the server refuses to who holds the lock no more.
func ExampleLock_Guard() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	held := must(lock.Acquire(ctx, s, "/locks/report", nil))
	_, err := s.Multi(ctx, held.Guard(), session.CreateOp("/report", []byte("1"), session.Persistent))
	fmt.Println(err)
	held.Close()
	_, err = s.Multi(ctx, held.Guard(), session.SetOp("/report", []byte("2"), session.AnyVersion))
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}

func ExampleDo() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	err := lock.Do(ctx, s, "/locks/report", nil, func(_ context.Context, token int64) error {
		fmt.Println("holding, with a token:", token > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// holding, with a token: true
	// <nil>
}

func ExampleTryAcquire() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	held := must(lock.TryAcquire(ctx, a, "/locks/report", nil))
	defer held.Close()
	_, err := lock.TryAcquire(ctx, b, "/locks/report", nil)
	fmt.Println(err)
	// Output: try lock /locks/report: lock held by another
}

// The contenders in line.
func ExampleContenders() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	for name, s := range map[string]*session.Session{"host-1": a, "host-2": b} {
		l := must(lock.New(s, "/locks/report", &lock.Options{Data: []byte(name)}))
		defer l.Close()
		<-l.Events() // it stands in line
	}
	line := must(lock.Contenders(ctx, a, "/locks/report", nil))
	for _, c := range line {
		fmt.Println(c.Kind, c.Holding)
	}
	// Output:
	// exclusive true
	// exclusive false
}

// Readers share; a writer waits for them, and they for it.
func ExampleAcquireRead() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	first := must(lock.AcquireRead(ctx, a, "/locks/table", nil))
	defer first.Close()
	second := must(lock.AcquireRead(ctx, b, "/locks/table", nil))
	defer second.Close()
	_, err := lock.TryAcquireWrite(ctx, b, "/locks/table", nil)
	fmt.Println(err)

	// A reader that would wait for itself gets an error.
	work, cancel := first.Context(ctx)
	defer cancel()
	_, err = lock.AcquireWrite(work, a, "/locks/table", nil)
	fmt.Println(err)
	// Output:
	// try lock /locks/table: lock held by another
	// acquire lock /locks/table: a read lock cannot be upgraded: release it first
}

// A writer that lets readers in, and no other writer.
func ExampleLock_Downgrade() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	held := must(lock.AcquireWrite(ctx, a, "/locks/table", nil))
	defer held.Close()
	_, err := lock.TryAcquireRead(ctx, b, "/locks/table", nil)
	fmt.Println(err)

	token := held.Token()
	fmt.Println(held.Downgrade(ctx), held.Token() == token)
	reader := must(lock.TryAcquireRead(ctx, b, "/locks/table", nil))
	defer reader.Close()
	fmt.Println(held.Downgrade(ctx))
	// Output:
	// try lock /locks/table: lock held by another
	// <nil> true
	// downgrade lock /locks/table: no write lock
}

// A mutex is locked and unlocked as often as needed.
func ExampleMutex() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	m := must(lock.NewMutex(s, "/locks/report", nil))
	for range 2 {
		if err := m.Lock(ctx); err != nil {
			fmt.Println(err)
			return
		}
		work, cancel := m.Context(ctx) // ends when the lock is lost
		fmt.Println("holding:", work.Err() == nil, m.TryLock(ctx))
		cancel()
		fmt.Println(m.Unlock(ctx))
	}
	fmt.Println(m.Unlock(ctx))
	// Output:
	// holding: true try lock /locks/report: lock held by another
	// <nil>
	// holding: true try lock /locks/report: lock held by another
	// <nil>
	// unlock /locks/report: not held
}

// Functions that call each other lock a reentrant mutex, each for itself.
func ExampleNewReentrantMutex() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	m := must(lock.NewReentrantMutex(s, "/locks/report", nil))
	if err := m.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	work, cancel := m.Context(ctx)
	defer cancel()
	fmt.Println(m.Lock(work)) // its own context: it is held already
	fmt.Println(m.Unlock(work))
	fmt.Println(m.Unlock(ctx))
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

// A service that waits for a lock in the same select as for everything else. A closed channel is
// always ready: without ok, the loop spins when the lock is over.
func ExampleLock_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	l := must(lock.New(s, "/locks/report", nil))
	defer l.Close()
	requests := make(chan string, 1)
	for {
		select {
		case ev, ok := <-l.Events():
			if !ok { // after Released or Lost
				fmt.Println("over:", l.Err())
				return
			}
			if _, held := ev.(lock.Acquired); held {
				requests <- "report"
			}
		case r := <-requests:
			fmt.Println("held:", r)
			fmt.Println(l.Release(ctx))
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// held: report
	// <nil>
	// over: <nil>
}

// A migration runs once, whichever process comes first.
func ExampleOnce() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	for range 2 {
		outcome, err := lock.Once(ctx, s, "/migrations/7", nil, func(_ context.Context, token int64) ([]byte, error) {
			fmt.Println("adds the column")
			return []byte("12 rows"), nil
		})
		fmt.Println(string(outcome), err)
	}
	// Output:
	// adds the column
	// 12 rows <nil>
	// 12 rows <nil>
}

// The holder is asked to release the lock.
func ExampleRevoke() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	held := must(lock.Acquire(ctx, s, "/locks/report", nil))
	defer held.Close()
	fmt.Println(lock.Revoke(ctx, s, "/locks/report", nil))
	select {
	case <-held.Revoked():
		fmt.Println("somebody asks for it:", held.Release(ctx))
	case <-held.Done():
		fmt.Println(held.Err())
	}
	// Output:
	// <nil>
	// somebody asks for it: <nil>
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
