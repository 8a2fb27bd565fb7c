package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A ledger counts what became of each item.
type ledger struct {
	mu      sync.Mutex
	put     map[string]bool // true: confirmed; false: unknown
	taken   map[string]int
	acked   map[string]int
	unknown map[string]bool // a take or an acknowledgement whose outcome is unknown
	open    map[string]bool // confirmed, and not known to be out of the queue
}

func newLedger() *ledger {
	return &ledger{
		put: map[string]bool{}, taken: map[string]int{}, acked: map[string]int{},
		unknown: map[string]bool{}, open: map[string]bool{},
	}
}

// noted changes the books.
func (l *ledger) noted(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// entered notes that an item was put; the consumer can be faster than the producer's reply.
func (l *ledger) entered(x string, sure bool) {
	l.put[x] = sure
	if sure && l.taken[x]+l.acked[x] == 0 && !l.unknown[x] {
		l.open[x] = true
	}
}

// left notes in a book that an item may be out of the queue.
func (l *ledger) left(x string, err error, book map[string]int) {
	switch {
	case err == nil:
		book[x]++
	case session.InDoubt(err):
		l.unknown[x] = true
	default:
		return
	}
	delete(l.open, x)
}

// finished reports whether every item that was confirmed is out of the queue.
func (l *ledger) finished(items int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.put) == items && len(l.open) == 0
}

func (l *ledger) confirmed() (n int) {
	for _, sure := range l.put {
		if sure {
			n++
		}
	}
	return n
}

// check compares the books.
func (l *ledger) check(t *testing.T) {
	t.Helper()
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

// soak has producers, takers and consumers work on one queue, while trouble happens, until all is
// done, and checks the history. Consumers reject some items, and dead letters are redriven.
func soak(t *testing.T, srv zktest.Faults, connect func() *session.Session, producers, takers, consumers, each int, trouble func(ctx context.Context, i int)) {
	h := newHistory(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producing, working sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			s := connect()
			defer s.Close()
			q := ranked(t, s, &soakOptions)
			size := []int{1, 10}[p%2]
			for i := 0; i < each; i += size {
				var batch []string
				for j := range size {
					batch = append(batch, fmt.Sprintf("%d/%d", p, i+j))
				}
				priority, delay := int32(i/size%3-1), time.Duration(0)
				if size == 1 && i%5 == 0 {
					delay = time.Duration(i) * time.Millisecond
				}
				h.begins(i/size%8 == 7, delay, batch...)
				var err error
				if delay > 0 {
					_, err = q.PutAfter(ctx, []byte(batch[0]), priority, delay)
				} else {
					_, err = q.PutAll(ctx, bytesOf(batch), priority)
				}
				if err != nil && !session.InDoubt(err) {
					i -= size // nothing was put
					continue
				}
				h.noted(func() {
					for _, x := range batch {
						h.entered(x, err == nil)
					}
				})
			}
		})
	}
	looks := func() {
		if h.finished(producers * each) {
			cancel()
		}
	}
	for range takers {
		working.Go(func() {
			s := connect()
			defer s.Close()
			q := ranked(t, s, &soakOptions)
			for n := 1; ctx.Err() == nil; n = 1 + n%4 {
				data, err := q.TakeN(ctx, n)
				h.takes(data, err)
				looks()
				<-time.After(5 * time.Millisecond) // consumers get the most
			}
		})
	}
	for i := range consumers {
		working.Go(func() {
			for round := 0; ctx.Err() == nil; round++ { // each is closed, or killed with its session, again and again
				s := connect()
				q := ranked(t, s, &soakOptions)
				c := check.Have(q.Consume(&queue.ConsumeOptions{Prefetch: 8, Backoff: soakBackoff}))(t)
				kill := (i+round)%2 == 0
				for n := range 100 {
					var item queue.Item
					var more bool
					select {
					case item, more = <-c.Items():
					case <-ctx.Done():
					}
					if !more {
						break
					}
					doomed := h.receives(item)
					if kill && n == 99 { // with the item in its hands
						break
					}
					h.settle(context.WithoutCancel(ctx), item, doomed)
					looks()
				}
				if kill {
					srv.Expire(s.ID())
				} else {
					c.Close()
				}
				s.Close()
				c.Close()
				check.True(t, c.Err() == nil || errors.Is(c.Err(), session.ErrClosed), "a consumer has ended: %v", c.Err())
			}
		})
	}
	working.Go(func() {
		s := connect()
		defer s.Close()
		h.redrive(ctx, s)
	})
	working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			trouble(ctx, i)
			looks()
		}
	})
	producing.Wait()
	working.Wait()
	s := connect()
	defer s.Close()
	h.remains(t.Context(), s)
	h.check(t)
}

// TestSoak has 8 producers, and 8 takers and consumers, work on 2,000 items, 50,000 in a campaign;
// replies are lost, sessions expire, and consumers are killed.
func TestSoak(t *testing.T) {
	each := hasten.Sized(hasten.Usually(250, 100), 50)
	if *campaign {
		each = 6250
	}
	soakInMemory(t, zktest.Config{Latency: time.Millisecond}, each)
}

// TestSoakWithFollowers is the same with clients of servers that lag.
func TestSoakWithFollowers(t *testing.T) {
	soakInMemory(t, zktest.Config{Latency: time.Millisecond, Replicas: 3, Lag: 50 * time.Millisecond}, hasten.Sized(100, 40))
}

func soakInMemory(t *testing.T, config zktest.Config, each int) {
	t.Helper()
	bubbled(t, config, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		random := rand.New(rand.NewPCG(1, 2))
		soak(t, srv, func() *session.Session { return openSession(t, srv, session.Options{}) }, 8, 3, 5, each, func(ctx context.Context, i int) {
			select {
			case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
			case <-ctx.Done():
			}
			if all := srv.Sessions(); i%20 == 19 && len(all) > 0 {
				srv.Expire(all[random.IntN(len(all))])
				return
			}
			srv.ClearFaults() // faults that outran requests would have every reply lost
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: random.IntN(20)})
		})
	})
}
