// Package workload has what the processes of a campaign do with the recipes, and how they record
// it. There is one workload for each recipe, and one for each peer that is a control: the same
// faults must be found in a peer that is known to fail.
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/session"
)

// A Workload is what each process does with one recipe.
type Workload struct {
	Name string // of the recipe, as package judge knows it
	Path string // below which it works

	// Nodes are to be there before the first process starts, with their data.
	Nodes map[string]string

	// Run begins the work of one life of a process, on goroutines of the client's.
	Run func(c *Client)
}

// A System is whose recipes are played.
type System string

// The systems. All but the library's own are controls.
const (
	ZKActors System = "zkactors"
	ZKLock   System = "zk.Lock" // of go-zookeeper
	Curator  System = "Curator" // its InterProcessMutex
	Kazoo    System = "kazoo"   // its Lock
)

// Workloads returns what the system can do.
func (s System) Workloads() []Workload {
	switch s {
	case ZKLock:
		return []Workload{zkLocks()}
	case Curator, Kazoo:
		return []Workload{peerLocks()}
	case ZKActors:
	}
	return ours()
}

// ours returns the workloads of the library's recipes.
func ours() []Workload {
	return []Workload{
		sessions(), locks(), together(), priorities(), readWrite(), semaphores(), numbers(), elections(), shards(),
		barriers(), queues(), keys(), consumers(), delays(), urgencies(), commits(), configs(), transactions(), watches(), groups(), names(), instances(),
		latches(), plainBarriers(), gates(), outcomes(), foreignLocks(), foreignElections(), foreignQueues(),
	}
}

// A Client is one life of a process, as its workloads see it.
type Client struct {
	Number  int // of the process, from 0
	Of      int // how many processes there are
	Record  *history.Client
	Session *session.Session // of the library; nil for a control
	Conn    *zk.Conn         // of go-zookeeper's lock; nil for others
	Peer    Peer             // of a control that is another program; nil for others. Session serves its writes

	// Dice makes the choices of a workload's goroutine. No two goroutines share one.
	Dice func() *rand.Rand

	// Context ends when the process dies. Then no goroutine of the workloads is left.
	Context context.Context //nolint:containedctx // it is the life of the process

	// The phases of a run: at Stop nothing new is begun, at Quiet all work is done and known, and
	// at Over the handles that stand are closed.
	Stop, Quiet, Over <-chan struct{}

	// Pause returns at once, or when the process may go on: between any two steps a process can be
	// stopped.
	Pause func()

	// Work counts goroutines that end by themselves after Stop, Standing those that end after Over.
	// and Last those that end with the session.
	Work, Standing, Last *sync.WaitGroup

	handles atomic.Int64
}

// Patience is the time after which a call is stuck: no fault lasts so long.
const Patience = 2 * time.Minute

// name returns a new name for a handle.
func (c *Client) name(recipe string) string {
	return fmt.Sprintf("%s/%s-%d", c.Record.Process(), recipe, c.handles.Add(1))
}

// data is what contenders store in their nodes. The default names the process of the system, which
// is another each time.
func (c *Client) data() []byte { return []byte(c.Record.Process()) }

// stopped reports whether nothing new is to be begun.
func (c *Client) stopped() bool {
	return isClosed(c.Stop) || c.Context.Err() != nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// rest waits for a while, or until the process dies or the channel is closed.
func (c *Client) rest(d time.Duration, early <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-c.Context.Done():
	}
}

// upTo returns a random duration.
func upTo(dice *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(most)))
}

// loop does something again and again until Stop, with pauses.
func (c *Client) loop(pause time.Duration, do func(dice *rand.Rand)) {
	dice := c.Dice()
	c.Work.Go(func() {
		for !c.stopped() {
			c.rest(pause/2+upTo(dice, pause), nil)
			do(dice)
		}
	})
}

// outcome returns what is known after an error of the library.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case session.InDoubt(err):
		return history.Unknown
	}
	return history.Failed
}

// end ends an operation of the library.
func end(p *history.Pending, err error, enter func(o *history.Operation)) {
	p.End(outcome(err), func(o *history.Operation) {
		if err != nil {
			o.Error = err.Error()
		}
		if enter != nil {
			enter(o)
		}
	})
}

// kindOf returns the name of an event: that of its type.
func kindOf(event any) string {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", event), ".")
	name, _, _ = strings.Cut(name, "[")
	return name
}

// mark returns the node to which a process writes behind its guards.
func (c *Client) mark(recipe string) string { return fmt.Sprintf("/marks/%s-%d", recipe, c.Number) }

// marks returns the nodes of all processes. There are no more than maxProcesses.
func marks(recipe string) map[string]string {
	nodes := make(map[string]string)
	for i := range MaxProcesses {
		nodes[fmt.Sprintf("/marks/%s-%d", recipe, i)] = ""
	}
	return nodes
}

// MaxProcesses is how many processes there can be.
const MaxProcesses = 8

// guarded records a write behind a guard.
func (c *Client) guarded(o history.Operation, write func(ctx context.Context, id string) error) {
	c.Pause()
	ctx, cancel := context.WithTimeout(c.Context, time.Second)
	defer cancel()
	o.Kind = judge.Write
	o.Argument = fmt.Sprintf("%s writes %d", o.Handle, c.handles.Add(1))
	p := c.Record.Begin(o)
	end(p, write(ctx, o.Argument), nil)
}

// behind returns a write of the library to the process's mark.
func (c *Client) behind(recipe string, guards func() []session.Op) func(ctx context.Context, id string) error {
	return func(ctx context.Context, id string) error {
		_, err := c.Session.Multi(ctx, append(guards(), session.SetOp(c.mark(recipe), []byte(id), session.AnyVersion))...)
		return err
	}
}

// An ending records the end of a grant once: the call of its release, or its loss, whichever comes
// first.
type ending struct {
	c     *Client
	o     history.Operation
	taken atomic.Bool
}

func (c *Client) ending(o history.Operation) *ending {
	o.Kind, o.Token, o.Node = judge.End, 0, ""
	return &ending{c: c, o: o}
}

// release calls the function that ends the grant, records the call, and returns its error.
func (e *ending) release(release func() error) error {
	if !e.taken.CompareAndSwap(false, true) {
		return release() // it is lost, or its event has not been received yet
	}
	p := e.c.Record.Begin(e.o)
	err := release()
	end(p, err, func(o *history.Operation) { o.Result = "released" })
	return err
}

// lose records that the holder learns of a loss. It counts from the beginning of this instant:
// another event of the same instant may have been recorded first.
func (e *ending) lose() {
	if e.taken.CompareAndSwap(false, true) {
		e.c.Record.Begin(e.o).End(history.OK, func(o *history.Operation) { o.Result, o.Call = "lost", o.Call.Start() })
	}
}

// errPatience is what a stuck call reports.
var errPatience = errors.New("not back after " + Patience.String())

// stuck records that a call does not come back.
func (c *Client) stuck(recipe, at, handle, what string) {
	c.Record.Tell(history.Told{Recipe: recipe, Path: at, Handle: handle, Kind: judge.Stuck, Value: what})
}

// base returns the last name of a path.
func base(p string) string { return path.Base(p) }
