package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestSmoke(t *testing.T) {
	ens := zktest.StartEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s, err := session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 300 {
		if i == 100 {
			proxy.ResetRequests()
		}
		l, err := lock.Acquire(ctx, s, "/locks/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	t.Log(proxy.Requests())
	start := time.Now()
	for range 300 {
		l, err := lock.Acquire(ctx, s, "/locks/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	t.Log("cycle", time.Since(start)/300)
	c, _, err := zk.Connect(proxy.Addrs(), 4*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	for range 300 {
		l := zk.NewLock(c, "/locks/b", zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			t.Fatal(err)
		}
		l.Unlock()
	}
	t.Log("zk cycle", time.Since(start)/300)
	c.Close()

	var wg sync.WaitGroup
	var mu sync.Mutex
	holders, last := 0, int64(0)
	for i := range 5 {
		s, err := session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			wg.Go(func() {
				for range 25 {
					l, err := lock.Acquire(ctx, s, "/locks/a", &lock.Options{Data: fmt.Append(nil, i)})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					holders++
					if holders != 1 || l.Token() <= last {
						t.Error(holders, last, l.Token())
					}
					last = l.Token()
					mu.Unlock()
					mu.Lock()
					holders--
					mu.Unlock()
					l.Close()
				}
			})
		}
		defer s.Close()
	}
	start = time.Now()
	wg.Wait()
	t.Log("contended", time.Since(start)/500)
	t.Log(lock.Contenders(ctx, s, "/locks/a"))
}
