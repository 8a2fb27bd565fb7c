// Package life has one life of a process: its session, and the work of all recipes on it. In the
// bubble several lives share a process; on real ensembles each is a process of the system.
package life

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/session"
)

// A Config says what a life is to be.
type Config struct {
	System     workload.System
	Number, Of int // of the process
	Servers    []string
	Record     *history.Client
	Dice       func() *rand.Rand
	Peer       workload.Peer // of a control that is another program; nil for others

	// Dial makes the connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// The phases of workload.Client.
	Stop, Quiet, Over <-chan struct{}
}

// A Life is one life of a process, from its start to its end.
type Life struct {
	client         *workload.Client
	end            context.CancelFunc
	silent         atomic.Bool // no connection can be made any more
	work, standing sync.WaitGroup
	last           sync.WaitGroup                // goroutines that end with the session
	paused         atomic.Pointer[chan struct{}] // closed when the process may go on
}

// Start begins a life, with all the workloads of its system.
func Start(config Config) (*Life, error) {
	l := &Life{}
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	l.client = &workload.Client{
		Number: config.Number, Of: config.Of, Record: config.Record, Dice: config.Dice, Context: ctx, Peer: config.Peer,
		Stop: config.Stop, Quiet: config.Quiet, Over: config.Over,
		Pause: l.pause, Work: &l.work, Standing: &l.standing, Last: &l.last,
	}
	if err := l.connect(config); err != nil {
		end()
		return nil, err
	}
	for _, w := range config.System.Workloads() {
		w.Run(l.client)
	}
	return l, nil
}

// errDead is why a process that is dead cannot dial.
var errDead = errors.New("the process is dead")

// connect opens the session. Each process begins at a server of its own.
func (l *Life) connect(config Config) (err error) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.silent.Load() {
			return nil, errDead
		}
		return config.Dial(ctx, network, address)
	}
	first := config.Number % len(config.Servers)
	servers := slices.Concat(config.Servers[first:], config.Servers[:first])
	if config.System != workload.ZKLock {
		l.client.Session, err = session.Start(servers, &session.Options{Timeout: scenario.Timeout, Dialer: dial})
		return err
	}
	var events <-chan zk.Event
	l.client.Conn, events, err = zk.Connect(servers, scenario.Timeout, zk.WithLogInfo(false), zk.WithLogger(silence{}), zk.WithDialer(func(network, address string, d time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return dial(ctx, network, address)
	}))
	if err == nil {
		l.last.Go(func() {
			for range events { // they end with the connection
			}
		})
	}
	return err
}

type silence struct{}

func (silence) Printf(string, ...any) {}

// Session returns the id of the session; 0 if there is none.
func (l *Life) Session() int64 { return l.client.SessionID() }

// pause waits while the process is stopped.
func (l *Life) pause() {
	if ch := l.paused.Load(); ch != nil {
		select {
		case <-*ch:
		case <-l.client.Context.Done():
		}
	}
}

// Pause stops what the process does between two steps.
func (l *Life) Pause() {
	if l.paused.Load() == nil {
		ch := make(chan struct{})
		l.paused.Store(&ch)
	}
}

// Resume ends Pause.
func (l *Life) Resume() {
	if ch := l.paused.Swap(nil); ch != nil {
		close(*ch)
	}
}

// Silence keeps the process from making connections: it is dead, and is to be closed.
func (l *Life) Silence() { l.silent.Store(true) }

// AwaitWork waits for the work that ends after Stop. The calls of go-zookeeper wait for ever if a
// reply is lost, unless their connection is closed: that happens after the time.
func (l *Life) AwaitWork(patience time.Duration) {
	if conn := l.client.Conn; conn != nil {
		defer time.AfterFunc(patience, conn.Close).Stop()
	}
	l.work.Wait()
}

// AwaitStanding waits for the handles that are closed after Over.
func (l *Life) AwaitStanding() { l.standing.Wait() }

// Close ends the life: all its goroutines, and its session.
func (l *Life) Close() {
	l.end()
	if l.client.Conn != nil {
		l.client.Conn.Close()
	} else {
		l.client.Session.Close()
	}
	l.work.Wait()
	l.standing.Wait()
	l.last.Wait()
}
