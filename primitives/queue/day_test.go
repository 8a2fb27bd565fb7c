package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var dayItems = flag.Int("queue.day", 0, "items of a day's work; 0: 1,200, and 5,000 where tests are thorough")

// TestDay is a day's work in virtual time. Items arrive for 24 hours, most of them by day. Some are
// urgent, some delayed. One in twenty fails by chance; two outages fail all for ten minutes. There
// are three elections, and each hour but one a worker is killed. One item always fails, one kills
// its worker each time: only these two become dead letters.
func TestDay(t *testing.T) {
	n := hasten.Sized(hasten.Usually(5000, 1200), 1200)
	if *dayItems > 0 {
		n = *dayItems
	}
	synctest.Test(t, func(t *testing.T) {
		srv := check.Have(zktest.NewServer(zktest.Config{InProcess: true, Tick: dayTick, Latency: time.Millisecond, Replicas: 3, Lag: 20 * time.Millisecond}))(t)
		defer srv.Close()
		d := &day{T: t, srv: srv, began: time.Now(), random: rand.New(rand.NewPCG(uint64(n), 24))}
		d.work(n)
	})
}

const (
	staff     = 4 // processes: two use Run, two have readers and claim ahead
	eachStaff = 4 // workers of a process
	idleHour  = 3 // in which nothing arrives, is due, or fails

	dayTimeout = 40 * time.Second // of sessions

	// prompt is the time within which an item is delivered that is due while a worker is free.
	prompt = time.Second
)

// A task is the kind of an item.
type task int

const (
	plain task = iota
	urgent
	delayed
	hopeless // always fails
	deadly   // kills its worker
)

func (k task) String() string {
	return [...]string{"plain", "urgent", "delayed", "hopeless", "deadly"}[k]
}

// A progress is what the newest delivery of an item has come to.
type progress int

const (
	waiting progress = iota // not delivered
	working
	rejected
	done
)

// A job is what is known of an item.
type job struct {
	task  task
	state progress
	id    string
	put   time.Time // when the call began
	from  time.Time // when it may be delivered next, at the earliest
	until time.Time // when it may be delivered next, at the latest; zero if that is not known

	received, rejected, crashed int // deliveries, and how they ended
	finished                    time.Time
	holder                      *process // of the newest delivery
}

// A process is a session with workers, until it is killed.
type process struct {
	n      int
	s      *session.Session
	ahead  bool        // it claims items ahead
	cut    atomic.Bool // it finds no server
	stop   context.CancelFunc
	killed chan struct{}
	gone   sync.WaitGroup

	// of the ledger
	busy int
	at   time.Time // of the kill; zero before
}

// A day is the ledger of a day's work.
type day struct {
	*testing.T
	srv      *zktest.Server
	began    time.Time
	outage   atomic.Bool
	repaired atomic.Bool    // what always fails does not fail any more
	putting  sync.WaitGroup // and killing

	mu        sync.Mutex
	random    *rand.Rand
	jobs      []*job
	open      int // jobs that are not done
	processes [staff]*process
	trouble   int       // that is going on
	calm      time.Time // since when there has been a free worker, and no trouble; zero if there is none now
	kills     int

	unchecked int // deliveries that may be late
	again     int // deliveries of items that were done
}

func (d *day) hour(h float64) time.Time { return d.began.Add(time.Duration(h * float64(time.Hour))) }

func till(at time.Time) { <-time.After(time.Until(at)) }

// note changes the ledger.
func (d *day) note(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	busy, free := d.trouble > 0, false
	for _, p := range d.processes {
		all := p == nil || p.busy == eachStaff
		free = free || !all
		busy = busy || all && p != nil && p.ahead // items that it has claimed wait for it
	}
	switch {
	case busy || !free:
		d.calm = time.Time{}
	case d.calm.IsZero():
		d.calm = time.Now()
	}
}

// troubled notes that items may be late from now on, until the function is called.
func (d *day) troubled() (end func()) {
	d.note(func() { d.trouble++ })
	return func() { d.note(func() { d.trouble-- }) }
}

func (d *day) session(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *session.Session {
	return check.Have(session.Open(d.Context(), d.srv.Addrs(), &session.Options{Timeout: dayTimeout, ServerTick: dayTick, Dialer: dial}))(d)
}

// hire starts the process with the number.
func (d *day) hire(n int) {
	p := &process{n: n, ahead: n%2 > 0, killed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.s = d.session(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p.cut.Load() {
			return nil, net.ErrClosed
		}
		return d.srv.DialContext(ctx, network, addr)
	})
	q := check.Have(queue.NewPriority(p.s, at, nil))(d)
	d.note(func() { d.processes[n] = p })
	if !p.ahead {
		p.gone.Go(func() {
			err := q.Run(ctx, eachStaff, func(_ context.Context, item queue.Item) error {
				err := d.attempt(p, item) //nolint:contextcheck // it may begin another process
				d.settles(p, item, err, retryOf(item.Attempt))
				return err
			})
			check.False(d, ctx.Err() == nil, "process %d: %v", n, err)
			check.Must(d.T, q.Close(context.WithoutCancel(ctx)))
		})
		return
	}
	c := check.Have(q.Consume(&queue.ConsumeOptions{Prefetch: 2 * eachStaff, Name: fmt.Sprint(n)}))(d)
	for range eachStaff {
		p.gone.Go(func() {
			for item := range c.Items() {
				d.serve(p, item)
			}
		})
	}
	p.gone.Go(func() {
		select {
		case <-ctx.Done():
		case <-c.Done():
			d.Errorf("process %d: %v", n, c.Err())
		}
		c.Close()
		check.Must(d.T, q.Close(context.WithoutCancel(ctx)))
	})
}

// kill ends a process: no server hears of it again, and its session expires, at once or after its
// timeout. Another takes its place.
func (d *day) kill(p *process) {
	first, at := false, time.Now()
	d.note(func() {
		if first = p.at.IsZero(); first {
			p.at = at
			d.kills++
		}
	})
	if !first {
		return
	}
	recovered := d.troubled()
	p.cut.Store(true)
	close(p.killed)
	id := p.s.ID()
	d.srv.Disconnect(id)
	if d.kills%2 == 0 {
		d.srv.Expire(id)
	}
	d.putting.Go(func() {
		d.hire(p.n)
		p.stop()
		p.s.Close()
		p.gone.Wait()
		for slices.Contains(d.srv.Sessions(), id) {
			<-time.After(time.Second)
		}
		<-time.After(2 * time.Second)
		recovered()
	})
}

// A window is how long after its rejection an item is delivered again.
type window struct{ least, most time.Duration }

// retryOf returns the window of the default backoff.
func retryOf(attempt int) window {
	most := time.Duration(min(60, math.Ldexp(1, attempt-1)) * float64(time.Second))
	return window{most / 2, most}
}

// serve works on an item, and settles it, in each way that there is.
func (d *day) serve(p *process, item queue.Item) {
	ctx := context.Background()
	err := d.attempt(p, item)
	own := time.Duration(item.Data[len(item.Data)-1]-'0') * time.Second
	var settled error
	switch {
	case err == nil:
		d.settles(p, item, nil, window{})
		settled = item.Ack(ctx)
	case errors.Is(err, errChance): // other delays than the default, and none
		d.settles(p, item, err, window{own, own})
		settled = item.RejectAfter(ctx, own, err)
	case errors.Is(err, errHopeless):
		w := retryOf(item.Attempt)
		d.settles(p, item, err, w)
		settled = item.RejectAfter(ctx, w.most, err)
	default:
		d.settles(p, item, err, retryOf(item.Attempt))
		settled = item.Reject(ctx)
	}
	d.note(func() {
		if p.at.IsZero() {
			check.OK(d, settled)
		}
	})
}

var (
	errHopeless = errors.New("it cannot be done")
	errChance   = errors.New("not this time")
	errOutage   = errors.New("the database is away")
	errKilled   = errors.New("killed")
)

// attempt works on an item.
func (d *day) attempt(p *process, item queue.Item) error {
	n, err := strconv.Atoi(string(item.Data))
	check.Must(d.T, err)
	var j *job
	var takes time.Duration
	var chance int
	d.note(func() {
		j = d.jobs[n]
		p.busy++
		d.received(p, j, item)
		takes = time.Duration(d.random.ExpFloat64() * float64(400*time.Millisecond))
		if d.random.IntN(200) == 0 {
			takes += time.Duration(d.random.IntN(60)) * time.Second
		}
		chance = d.random.IntN(20)
	})
	bad := j.task >= hopeless && !d.repaired.Load()
	if bad && j.task == deadly {
		takes += 5 * time.Second
	}
	select {
	case <-time.After(takes):
	case <-p.killed:
		return errKilled
	}
	switch {
	case bad && j.task == deadly:
		d.kill(p)
		return errKilled
	case bad:
		return errHopeless
	case d.outage.Load():
		return errOutage
	case chance == 0 && j.task < hopeless:
		return errChance
	}
	return nil
}

// received checks a delivery.
func (d *day) received(p *process, j *job, item queue.Item) {
	now := time.Now()
	what := fmt.Sprintf("%v: %s item %s, delivery %d, attempt %d", now.Sub(d.began), j.task, item.Data, j.received+1, item.Attempt)
	h := j.holder
	died := h != nil && !h.at.IsZero()
	lost := died && h.at.Sub(j.finished) < time.Minute // its settlement, maybe
	switch {
	case j.state == working && !died:
		d.Errorf("%s: process %d has it", what, h.n)
	case j.state == done && !lost:
		d.Errorf("%s: it is done", what)
	case j.state == done:
		d.again++
		d.open++
		j.crashed++
	case j.state == working:
		j.crashed++
	case j.state == rejected && lost:
		j.crashed++
	case j.state == rejected:
		j.rejected++
	}
	if j.state == done || j.state == working || j.state == rejected && lost {
		j.from, j.until = j.put, time.Time{}
	}
	least := 1 + j.rejected + max(0, j.crashed-1) // the first crash may go uncounted
	check.True(d, item.Attempt >= least && item.Attempt <= j.received+1, "%s: %d rejections, %d crashes", what, j.rejected, j.crashed)
	check.True(d, item.Age() <= now.Sub(j.put)+prompt, "%s: it is %v old", what, item.Age())
	check.False(d, now.Before(j.from), "%s: %v early", what, j.from.Sub(now))
	calm := !j.until.IsZero() && !d.calm.IsZero() && d.calm.Before(j.until)
	late := max(0, now.Sub(j.until))
	switch {
	case !calm:
		d.unchecked++
	case late > prompt:
		d.Errorf("%s: %v late, while a worker was free for %v", what, late, now.Sub(d.calm))
	}
	j.received++
	j.state, j.holder = working, p
}

// settles notes the end of an attempt, before the item is settled.
func (d *day) settles(p *process, item queue.Item, err error, again window) {
	n, _ := strconv.Atoi(string(item.Data))
	d.note(func() {
		p.busy--
		j := d.jobs[n]
		switch {
		case errors.Is(err, errKilled):
			return
		case err == nil:
			j.state = done
			d.open--
		default:
			j.state = rejected
		}
		j.finished = time.Now()
		j.from = j.finished.Add(again.least)
		j.until = j.finished.Add(again.most)
	})
}

// A producer puts what arrives.
type producer struct {
	d *day
	s *session.Session
	q *queue.Priority
}

// put puts items of a kind.
func (p producer) put(k task, n int, delay time.Duration) {
	d := p.d
	var data [][]byte
	var first int
	began := time.Now()
	d.note(func() {
		first = len(d.jobs)
		for i := range n {
			d.jobs = append(d.jobs, &job{task: k, put: began, from: began.Add(delay)})
			data = append(data, []byte(strconv.Itoa(first+i)))
		}
		d.open += n
	})
	d.putting.Go(func() {
		var ids []string
		var err error
		priority := int32(0)
		if k == urgent {
			priority = -10
		}
		switch {
		case delay > 0:
			ids = make([]string, 1)
			ids[0], err = p.q.PutAfter(context.Background(), data[0], priority, delay)
		default:
			ids, err = p.q.PutAll(context.Background(), data, priority)
		}
		check.Must(d.T, err)
		d.note(func() {
			for i, j := range d.jobs[first:][:n] {
				j.id = ids[i]
				if j.received == 0 {
					j.until = time.Now().Add(delay)
				}
			}
		})
	})
}

// elect has another server become the leader. For some seconds there is none.
func (d *day) elect(leader int) {
	recovered := d.troubled()
	d.srv.Refuse(true)
	d.srv.Isolate(leader)
	d.srv.Disconnect(0)
	<-time.After(4 * time.Second)
	d.srv.Refuse(false)
	<-time.After(6 * time.Second)
	d.srv.Heal(leader)
	<-time.After(20 * time.Second)
	recovered()
}

const dayTick = 2 * time.Second

func (d *day) work(n int) {
	for i := range staff {
		d.hire(i)
	}
	var producers []producer
	for range 3 {
		s := d.session(d.srv.DialContext)
		defer s.Close()
		producers = append(producers, producer{d, s, check.Have(queue.NewPriority(s, at, nil))(d)})
	}
	var events sync.WaitGroup
	event := func(hour float64, f func()) {
		events.Go(func() {
			till(d.hour(hour))
			f()
		})
	}
	event(1, func() { producers[0].put(hopeless, 1, 0) })
	event(10, func() { producers[1].put(deadly, 1, 0) })
	for _, h := range []float64{9, 16.5} {
		event(h, func() {
			d.outage.Store(true)
			<-time.After(10 * time.Minute)
			d.outage.Store(false)
		})
	}
	for i, h := range []float64{6.25, 12.5, 16.6} {
		event(h, func() { d.elect(i) })
	}
	event(idleHour+0.1, d.idles)
	for h := range 24 {
		if h == idleHour {
			continue
		}
		event(float64(h)+0.2+0.01*float64(d.random.IntN(60)), func() {
			producers[h%3].put(plain, 40, 0) // enough for all processes to have some
			<-time.After(300 * time.Millisecond)
			var p *process
			d.note(func() { p = d.processes[h%staff] })
			d.kill(p)
		})
	}
	d.arrivals(n-23*40, producers)
	events.Wait()
	till(d.hour(26))
	d.ends(producers)
}

// idles checks what an hour costs in which nothing happens: the heartbeats of sessions that have an
// ephemeral node, and a list and the time for each process, as items are due later.
func (d *day) idles() {
	other := d.session(d.srv.DialContext)
	defer other.Close()
	check.Have(other.Create(d.Context(), "/other", nil, session.Ephemeral))(d)
	d.srv.ResetRequests()
	<-time.After(48 * time.Minute)
	heartbeats := d.srv.RequestsOf(other.ID())
	more := d.srv.Requests()
	d.Logf("an idle hour: %v, of a session without a queue: %v", more, heartbeats)
	for op, n := range heartbeats {
		more[op] -= min(more[op], (n+4)*len(d.srv.Sessions()))
	}
	check.True(d, more.Total() <= 3*staff, "%v in an idle hour, without heartbeats", more)
}

// arrivals has items put by chance, until the day is over.
func (d *day) arrivals(n int, producers []producer) {
	var weight [24]float64
	sum := 0.0
	for h := range weight {
		switch {
		case h == idleHour:
		case h < 7 || h > 21:
			weight[h] = 0.3
		default:
			weight[h] = 1 + math.Sin(float64(h-7)/15*math.Pi)
		}
		sum += weight[h]
	}
	random := rand.New(rand.NewPCG(uint64(n), 25))
	for h, w := range weight {
		var at []float64
		for left := int(float64(n) * w / sum); left > 0; left-- {
			at = append(at, float64(h)+random.Float64())
		}
		slices.Sort(at)
		for ; len(at) > 0; at = at[1:] {
			till(d.hour(at[0]))
			p := producers[random.IntN(len(producers))]
			switch c := random.IntN(400); {
			case c == 0 && len(at) > 20:
				p.put(plain, 20, 0)
				at = at[19:]
			case c < 12:
				p.put(urgent, 1, 0)
			case c < 60:
				delay := time.Duration(random.IntN(45*60*1000)) * time.Millisecond
				if due := time.Now().Add(delay); due.After(d.hour(idleHour)) && due.Before(d.hour(idleHour+1)) {
					delay += time.Hour
				}
				p.put(delayed, 1, delay)
			default:
				p.put(plain, 1, 0)
			}
		}
	}
}

// ends checks what has become of the items, and has the dead letters done in the end.
func (d *day) ends(producers []producer) {
	p := producers[0]
	ctx := d.Context()
	items, err := p.q.Len(ctx)
	check.Must(d.T, err)
	check.True(d, items == 0, "%d items are left", items)
	dead := check.Have(queue.DeadLetters(ctx, p.s, at, nil))(d)
	d.letters(dead)
	deliveries := 0
	for n, j := range d.jobs {
		deliveries += j.received
		check.True(d, j.state == done || j.task >= hopeless, "%s item %d is not done: %+v", j.task, n, *j)
	}
	late := d.unchecked * 100 / deliveries
	check.True(d, late < hasten.Sized(hasten.Usually(30, 75), 75), "%d of %d deliveries could have been late", d.unchecked, deliveries)
	d.Logf("%d items, %d deliveries, %d of them after the item was done; %d kills; %d %% of the deliveries could have been late",
		len(d.jobs), deliveries, d.again, d.kills, late)

	d.repaired.Store(true)
	d.note(func() {
		for _, j := range d.jobs {
			if j.task >= hopeless {
				*j = job{task: j.task, id: j.id, put: j.put} // its attempts begin anew
			}
		}
	})
	n, err := dead.RedriveAll(ctx)
	check.True(d, n == 2 && err == nil, "%d redriven, %v", n, err)
	<-time.After(10 * time.Minute)
	check.True(d, d.open == 0, "%d items are not done", d.open)
	for _, p := range d.processes {
		p.stop()
		p.gone.Wait()
		p.s.Close()
	}
	d.putting.Wait()
	for _, p := range producers {
		check.Must(d.T, p.q.Close(ctx))
	}
	check.Must(d.T, dead.Close(ctx))
	for _, dir := range []string{"claims", "waiters", "receipts"} {
		check.Len(d, left(d.srv, dir), 0)
	}
}

// letters checks the dead letters.
func (d *day) letters(dead *queue.Letters) {
	byID := map[string]*job{}
	for _, j := range d.jobs {
		byID[j.id] = j
	}
	n := 0
	for letter, err := range dead.All(d.Context()) {
		check.Must(d.T, err)
		n++
		j := byID[letter.ID]
		cause := map[task]string{hopeless: errHopeless.Error()}[j.task]
		check.True(d, j.task >= hopeless, "a good item is a dead letter: %+v, %+v", letter, *j)
		check.True(d, letter.Cause == cause && letter.Origin == at && letter.Attempts == 30 && j.received-letter.Attempts <= 1,
			"%s item: %+v, %d deliveries", j.task, letter, j.received)
		check.True(d, letter.Put.Sub(j.put).Abs() < time.Second && letter.Buried.After(j.finished), "%+v: put at %v, last failed at %v", letter, j.put, j.finished)
	}
	check.True(d, n == 2, "%d dead letters", n)
}
