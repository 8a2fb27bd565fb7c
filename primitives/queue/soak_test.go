package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A ledger counts what became of each item.
type ledger struct {
	mu        sync.Mutex
	put       map[string]bool // true: confirmed; false: unknown
	taken     map[string]int
	delivered map[string]int
	acked     map[string]int
	unknown   map[string]bool // a take or an acknowledgement whose outcome is unknown
}

// finished reports whether every item that was confirmed is out of the queue.
func (l *ledger) finished(confirmed int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := 0
	for x, sure := range l.put {
		if sure && (l.taken[x] > 0 || l.acked[x] > 0 || l.unknown[x]) {
			done++
		}
	}
	return len(l.put) == confirmed && done >= l.confirmed()
}

func (l *ledger) confirmed() (n int) {
	for _, sure := range l.put {
		if sure {
			n++
		}
	}
	return n
}

// soak has producers, takers and consumers work on one queue, while trouble happens, until all is done, and checks the
// books.
func soak(t *testing.T, srv zktest.Faults, open func() *session.Session, producers, takers, consumers, each int, trouble func(ctx context.Context, i int)) {
	l := &ledger{put: map[string]bool{}, taken: map[string]int{}, delivered: map[string]int{}, acked: map[string]int{}, unknown: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producing, working sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			s := open()
			defer s.Close()
			q, err := queue.New(s, at, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for i := 0; i < each; i += 10 {
				var batch []string
				for j := range 10 {
					batch = append(batch, fmt.Sprintf("%d/%d", p, i+j))
				}
				_, err := q.PutAll(ctx, bytesOf(batch))
				if err != nil && !session.InDoubt(err) {
					i -= 10 // nothing was put
					continue
				}
				l.mu.Lock()
				for _, x := range batch {
					l.put[x] = err == nil
				}
				l.mu.Unlock()
			}
		})
	}
	check := func() {
		if l.finished(producers * each) {
			cancel()
		}
	}
	for range takers {
		working.Go(func() {
			s := open()
			defer s.Close()
			q, err := queue.New(s, at, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for ctx.Err() == nil {
				data, err := q.Take(ctx)
				l.mu.Lock()
				switch {
				case err == nil:
					l.taken[string(data)]++
				case session.InDoubt(err):
					l.unknown[string(data)] = true
				}
				l.mu.Unlock()
				check()
			}
		})
	}
	for i := range consumers {
		working.Go(func() {
			for round := 0; ctx.Err() == nil; round++ { // each is closed, or killed with its session, again and again
				s := open()
				q, err := queue.New(s, at, nil)
				if err != nil {
					t.Error(err)
					return
				}
				c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 8})
				if err != nil {
					t.Error(err)
					return
				}
				for range 100 {
					var item queue.Item
					var more bool
					select {
					case item, more = <-c.Items():
					case <-ctx.Done():
					}
					if !more {
						break
					}
					l.mu.Lock()
					l.delivered[string(item.Data)]++
					l.mu.Unlock()
					err := item.Ack(context.WithoutCancel(ctx))
					l.mu.Lock()
					switch {
					case err == nil:
						l.acked[string(item.Data)]++
					case session.InDoubt(err):
						l.unknown[string(item.Data)] = true
					}
					l.mu.Unlock()
					check()
				}
				if (i+round)%2 == 0 {
					srv.Expire(s.ID())
				} else {
					c.Close()
				}
				s.Close()
				if c.Close(); c.Err() != nil && !errors.Is(c.Err(), session.ErrClosed) {
					t.Errorf("a consumer has ended: %v", c.Err())
				}
			}
		})
	}
	working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			trouble(ctx, i)
			check()
		}
	})
	producing.Wait()
	working.Wait()
	for x, sure := range l.put {
		out := l.taken[x] + l.acked[x]
		switch {
		case out > 1:
			t.Errorf("%s was taken %d times, and acknowledged %d times", x, l.taken[x], l.acked[x])
		case sure && out == 0 && !l.unknown[x]:
			t.Errorf("%s is lost", x)
		}
		delete(l.taken, x)
		delete(l.acked, x)
	}
	if len(l.taken)+len(l.acked) > 0 {
		t.Errorf("never put: %v %v", l.taken, l.acked)
	}
	t.Logf("%d items, %d of them confirmed", len(l.put), l.confirmed())
}

// TestSoak has 8 producers and 8 who take or consume work on 2,000 items (10,000 in a campaign); replies are lost, and sessions expire.
func TestSoak(t *testing.T) {
	each := 250
	if *campaign {
		each = 1250
	}
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.NewServer(zktest.Config{InProcess: true, Tick: time.Second, Latency: time.Millisecond})
		ok(t, err)
		defer srv.Close()
		random := rand.New(rand.NewPCG(1, 2))
		soak(t, srv, func() *session.Session {
			s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext})
			if err != nil {
				panic(err)
			}
			return s
		}, 8, 3, 5, each, func(ctx context.Context, i int) {
			select {
			case <-time.After(time.Duration(random.IntN(100)) * time.Millisecond):
			case <-ctx.Done():
			}
			switch i % 50 {
			case 49:
				all := srv.Sessions()
				if len(all) > 0 {
					srv.Expire(all[random.IntN(len(all))])
				}
			default:
				srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: random.IntN(20)})
			}
		})
	})
}
