package queue_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// What a process says, a line each: said, a word, an item, and the attempt of its delivery.
const (
	roleOfProcess    = "ZKACTORS_QUEUE_ROLE"
	serversOfProcess = "ZKACTORS_QUEUE_SERVERS"
	nameOfProcess    = "ZKACTORS_QUEUE_NAME"
	putByProcess     = "ZKACTORS_QUEUE_PUT" // how many items processes of the name have put, as far as they have said
	said             = "queue:"
)

// TestProcess is a producer or a consumer, until its input ends: it is started by
// TestRealProcesses.
func TestProcess(t *testing.T) {
	role := os.Getenv(roleOfProcess)
	if role == "" {
		t.Skip("not a process of TestRealProcesses")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	})
	defer reading.Wait()
	s, err := session.Open(ctx, strings.Split(os.Getenv(serversOfProcess), ","), &session.Options{Timeout: 2 * time.Second, ServerTick: 100 * time.Millisecond})
	if ctx.Err() != nil {
		return
	}
	check.Must(t, err)
	defer s.Close()
	q := openAt(t, s, at, &queue.Options{MaxAttempts: 1000, DeadLetter: dead})
	if role == "producer" {
		for i := 0; ctx.Err() == nil; i++ {
			x := fmt.Sprintf("%s.%d", os.Getenv(nameOfProcess), i)
			if _, err := q.Put(ctx, []byte(x)); err == nil {
				fmt.Println(said, "put", x, 0)
			}
		}
		return
	}
	if role == "producer with keys" {
		done := check.Have(strconv.Atoi(os.Getenv(putByProcess)))(t)
		for i := max(0, done-3); ctx.Err() == nil; i++ { // those before are duplicates, and perhaps the next
			x := "once." + strconv.Itoa(i)
			if _, err := q.PutOnce(ctx, x, []byte(x)); err == nil || errors.Is(err, queue.ErrDuplicate) {
				fmt.Println(said, "put", x, 0)
			} else {
				i--
			}
		}
		return
	}
	err = q.Run(ctx, 4, func(ctx context.Context, item queue.Item) error {
		x := string(item.Data)
		fmt.Println(said, "delivered", x, item.Attempt)
		if rand.IntN(20) == 0 {
			return errors.New("not this time")
		}
		fmt.Println(said, "acknowledging", x, item.Attempt)
		switch err := item.Ack(context.WithoutCancel(ctx)); {
		case err == nil:
			fmt.Println(said, "acknowledged", x, item.Attempt)
		case errors.Is(err, queue.ErrNotClaimed):
			fmt.Println(said, "refused", x, item.Attempt)
		}
		return nil // the second acknowledgement is refused, which is no news
	})
	check.Is(t, err, context.Canceled)
}

// books is what the processes have said.
type books struct {
	mu        sync.Mutex
	put       map[string]bool
	trying    map[string]int // acknowledgements without an answer
	acked     map[string]int
	attempts  map[string]int // the newest attempt
	ackedAt   map[string]int // the attempt that was acknowledged
	delivered int
}

func (b *books) read(t *testing.T, r io.Reader, works func()) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var word, x string
		var attempt int
		rest, ours := strings.CutPrefix(lines.Text(), said)
		if !ours {
			if strings.Contains(lines.Text(), "FAIL") || strings.HasPrefix(lines.Text(), "    ") {
				t.Errorf("a process says %s", lines.Text())
			}
			continue
		}
		if _, err := fmt.Sscan(rest, &word, &x, &attempt); err != nil {
			continue // it was killed while it wrote
		}
		works()
		b.mu.Lock()
		switch word {
		case "put":
			b.put[x] = true
		case "delivered":
			b.delivered++
			b.attempts[x] = max(b.attempts[x], attempt)
		case "acknowledging":
			b.trying[x]++
		case "refused":
			b.trying[x]--
		case "acknowledged":
			b.trying[x]--
			b.acked[x]++
			b.ackedAt[x] = attempt
		}
		b.mu.Unlock()
	}
}

// putOnce returns how many items were put with keys.
func (b *books) putOnce() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for x := range b.put {
		if strings.HasPrefix(x, "once.") {
			n++
		}
	}
	return n
}

// A child is a process, again and again.
type child struct {
	role, name string
	cmd        *exec.Cmd
	in         io.Closer
	incarnated int
	works      atomic.Bool // the present one has said something
	reading    sync.WaitGroup
}

func (c *child) start(t *testing.T, b *books, servers []string) {
	t.Helper()
	self := check.Have(os.Executable())(t)
	c.incarnated++
	c.cmd = exec.Command(self, "-test.run=^TestProcess$")
	c.cmd.Env = append(os.Environ(), roleOfProcess+"="+c.role, serversOfProcess+"="+strings.Join(servers, ","),
		fmt.Sprintf("%s=%s.%d", nameOfProcess, c.name, c.incarnated), fmt.Sprintf("%s=%d", putByProcess, b.putOnce()))
	out := check.Have(c.cmd.StdoutPipe())(t)
	c.in = check.Have(c.cmd.StdinPipe())(t)
	check.Must(t, c.cmd.Start())
	c.works.Store(false)
	c.reading.Go(func() { b.read(t, out, func() { c.works.Store(true) }) })
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	c.reading.Wait()
	_ = c.cmd.Wait()
}

func (c *child) end(t *testing.T) {
	t.Helper()
	_ = c.in.Close()
	c.reading.Wait()
	check.OK(t, c.cmd.Wait(), c.name)
}

// TestRealProcesses kills processes that put and consume, at random, for ten seconds, two minutes
// in a campaign: each when it has done something. One puts with keys, and its successor begins with
// the items that it has put last. One of the three servers is restarted meanwhile.
func TestRealProcesses(t *testing.T) {
	hasten.Waits(t)
	lasts := 10 * time.Second
	switch {
	case *campaign:
		lasts = 2 * time.Minute
	case testing.Short():
		t.Skip("ten seconds")
	}
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	b := &books{put: map[string]bool{}, trying: map[string]int{}, acked: map[string]int{}, attempts: map[string]int{}, ackedAt: map[string]int{}}
	var all []*child
	for i := range 6 {
		c := &child{role: "producer", name: fmt.Sprint(i)}
		switch {
		case i >= 3:
			c.role = "consumer"
		case i == 2:
			c.role = "producer with keys"
		}
		c.start(t, b, ens.Addrs())
		all = append(all, c)
	}
	kills, restarted := 0, false
	for begun := time.Now(); time.Since(begun) < lasts || !restarted || b.putOnce() == 0; {
		<-time.After(time.Duration(200+rand.IntN(800)) * time.Millisecond)
		if c := all[rand.IntN(len(all))]; c.works.Load() {
			c.kill()
			kills++
			c.start(t, b, ens.Addrs())
		}
		if !restarted && time.Since(begun) > lasts/3 {
			restarted = true
			check.Must(t, ens.RestartContext(t.Context(), rand.IntN(3)))
		}
	}
	for _, c := range all[:3] {
		c.end(t)
	}
	s := kit.Open(t, ens.Addrs(), &steady)
	for q := open(t, s, nil); length(t, q) > 0; { // the consumers finish
		<-time.After(50 * time.Millisecond)
	}
	for _, c := range all[3:] {
		c.end(t)
	}
	for x := range b.put { // those that are tried were acknowledged by a process that was killed before it could say so
		check.True(t, b.acked[x]+b.trying[x] > 0, "%s is lost", x)
	}
	for x, n := range b.acked {
		check.True(t, n == 1 && b.attempts[x] <= b.ackedAt[x],
			"%s was acknowledged %d times, at last as attempt %d, and delivered as attempt %d", x, n, b.ackedAt[x], b.attempts[x])
	}
	check.Equal(t, length(t, openAt(t, s, dead, nil)), 0, "dead letters")
	t.Logf("%d kills, %d items confirmed, %d deliveries, %d acknowledged", kills, len(b.put), b.delivered, len(b.acked))
}
