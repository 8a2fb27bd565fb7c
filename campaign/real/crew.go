package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/internal/peers/process"
	"github.com/zkactors/zkactors/session/zktest"
)

// patience bounds what workers take to begin, and to end their work.
const patience = time.Minute

// A crew is the processes of a history. Each is a worker, and reaches the servers through a proxy
// of its own. It implements [scenario.Crew].
type crew struct {
	play   *play
	record *history.Recorder
	start  time.Duration // of the history

	diverged string // see history.Head

	mu  sync.Mutex
	all []*member
	err error // the first worker that could not do its work
}

// A member is one of the processes, or the memory of one that is dead.
type member struct {
	number, lives int
	proxy         *zktest.Proxy
	hushed        int // how many want the proxy frozen; guarded by the world
	name          string
	worker        *worker        // nil while it is dead
	stops         int            // how many want it stopped
	since         history.Moment // when the first did; a worker that goes on says so itself
}

// A worker is one life of a process.
type worker struct {
	process              *process.Process
	ready, worked, ended chan struct{}
	gone                 chan struct{} // closed when the process is
	others               []int         // processes that belong to it; written before ready
	listener             sync.WaitGroup
}

func (c *crew) open(servers []string) error {
	for i := range c.play.Processes {
		p, err := zktest.ListenProxy(servers...)
		if err != nil {
			return err
		}
		c.all = append(c.all, &member{number: i, proxy: p})
	}
	return nil
}

// Processes implements [scenario.Crew].
func (c *crew) Processes() int { return len(c.all) }

// Session implements [scenario.Crew].
func (c *crew) Session(i int) int64 {
	ids := c.all[i].proxy.Sessions()
	if len(ids) == 0 {
		return 0
	}
	return ids[len(ids)-1]
}

// Start implements [scenario.Crew].
func (c *crew) Start(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.all[i]
	if m.worker != nil {
		return
	}
	m.lives++
	m.name = fmt.Sprintf("%d.%d", i, m.lives)
	w, err := c.launch(m)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	m.worker = w
}

func (c *crew) launch(m *member) (*worker, error) {
	dir, err := os.MkdirTemp(c.play.dir, "worker-")
	if err != nil {
		return nil, err
	}
	a := assignment{
		System: c.play.System, Number: m.number, Of: len(c.all), Process: m.name, Servers: m.proxy.Addrs(),
		Direct: c.play.ensemble.Addrs(), Dir: dir, Start: c.start, Seed: c.play.Seed,
	}
	c.play.journals = append(c.play.journals, a.journal())
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.play.Worker[0], c.play.Worker[1:]...)
	cmd.Env = append(os.Environ(), WorkerVariable+"=1")
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	w := &worker{process: p, ready: make(chan struct{}), worked: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{})}
	w.listener.Go(w.listen)
	return w, p.Say(string(text))
}

// listen follows what a worker says, to its end.
func (w *worker) listen() {
	defer close(w.gone)
	for line := range w.process.Lines() {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case other:
			pid, _ := strconv.Atoi(rest) // 0 has no meaning for signal
			w.others = append(w.others, pid)
		case ready:
			close(w.ready)
		case worked:
			close(w.worked)
		case ended:
			close(w.ended)
		}
	}
	_ = w.process.Wait() // it was killed, or has said that it ended
}

// signal sends a signal to the worker, and to the processes that belong to it.
func (w *worker) signal(s syscall.Signal) {
	select {
	case <-w.gone:
		return
	default:
	}
	_ = syscall.Kill(w.process.Pid(), s) // it may end at this moment
	select {
	case <-w.ready:
		for _, pid := range w.others {
			_ = syscall.Kill(-pid, s)
		}
	default:
	}
}

// Kill implements [scenario.Crew]: kill -9. The kernel closes the connections.
func (c *crew) Kill(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.all[i]
	w := m.worker
	if w == nil {
		return
	}
	w.signal(syscall.SIGKILL)
	<-w.gone
	w.listener.Wait()
	if m.stops > 0 {
		c.record.FaultAt(m.since, history.Fault{Kind: history.Stopped, Process: m.name, For: c.record.Moment().At - m.since.At})
	}
	m.worker, m.stops = nil, 0
	c.record.Fault(history.Fault{Kind: history.Killed, Process: m.name})
}

// Pause implements [scenario.Crew]: SIGSTOP. Pauses may overlap.
func (c *crew) Pause(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.all[i]
	if m.worker == nil {
		return
	}
	if m.stops++; m.stops == 1 {
		m.since = c.record.Moment()
		m.worker.signal(syscall.SIGSTOP)
	}
}

// Resume implements [scenario.Crew].
func (c *crew) Resume(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.all[i]
	if m.worker == nil || m.stops == 0 {
		return
	}
	if m.stops--; m.stops == 0 {
		m.worker.signal(syscall.SIGCONT)
	}
}

// each does something with all workers. There are no faults meanwhile.
func (c *crew) each(what string, do func(w *worker) <-chan struct{}) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := time.NewTimer(2 * workload.Patience)
	defer limit.Stop()
	errs := []error{c.err}
	waits := make(map[*member]<-chan struct{})
	for _, m := range c.all {
		if m.worker != nil {
			waits[m] = do(m.worker)
		}
	}
	for m, wait := range waits {
		w := m.worker
		select {
		case <-wait:
		case <-w.gone:
			select {
			case <-wait: // it said so before
			default:
				errs = append(errs, fmt.Errorf("process %s has ended, and is not %s: %s", m.name, what, w.process.Complaints()))
			}
		case <-limit.C:
			errs = append(errs, fmt.Errorf("process %s is not %s in time", m.name, what))
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// say tells all workers that a phase has come, and waits for what they say then.
func (c *crew) say(phase, what string, answer func(w *worker) <-chan struct{}) error {
	return c.each(what, func(w *worker) <-chan struct{} {
		if err := w.process.Say(phase); err != nil {
			return nil // it is gone, too
		}
		return answer(w)
	})
}

// close ends what is left.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.all {
		if w := m.worker; w != nil {
			w.signal(syscall.SIGKILL)
			<-w.gone
			w.listener.Wait()
		}
		m.proxy.Close()
	}
}
