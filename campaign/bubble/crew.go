package bubble

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/session"
)

func sorted(nodes map[string]string) []string { return slices.Sorted(maps.Keys(nodes)) }

func nameOf(p *process) string { return fmt.Sprintf("%d.%d", p.number, p.lives) }

// errDead is why a process that is dead cannot dial.
var errDead = errors.New("the process is dead")

// connect opens the session of a life. Each process begins at a server of its own.
func (c *crew) connect(l *life) bool {
	addrs := c.server.Addrs()
	first := l.client.Number % len(addrs)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.silent.Load() {
			return nil, errDead
		}
		return c.server.DialContext(ctx, network, address)
	}
	addrs = slices.Concat(addrs[first:], addrs[:first])
	var err error
	if c.system == ZKLock {
		var events <-chan zk.Event
		l.client.Conn, events, err = zk.Connect(addrs, scenario.Timeout, zk.WithLogInfo(false), zk.WithLogger(silence{}), zk.WithDialer(func(network, address string, d time.Duration) (net.Conn, error) {
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
		return err == nil
	}
	l.client.Session, err = session.Start(addrs, &session.Options{Timeout: scenario.Timeout, Dialer: dial})
	return err == nil
}

type silence struct{}

func (silence) Printf(string, ...any) {}

// pause waits while the process is stopped.
func (l *life) pause() {
	if ch := l.paused.Load(); ch != nil {
		select {
		case <-*ch:
		case <-l.client.Context.Done():
		}
	}
}

// Pause implements [scenario.Crew].
func (c *crew) Pause(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.all[i].life; l != nil && l.paused.Load() == nil {
		ch := make(chan struct{})
		l.paused.Store(&ch)
	}
}

// Resume implements [scenario.Crew].
func (c *crew) Resume(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.all[i].life; l != nil {
		if ch := l.paused.Swap(nil); ch != nil {
			close(*ch)
		}
	}
}

// Kill implements [scenario.Crew]. The connection breaks first, so that nothing of what ends here
// reaches the servers.
func (c *crew) Kill(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.all[i].life
	if l == nil {
		return
	}
	c.all[i].life = nil
	l.client.Record.Kill()
	l.silent.Store(true)
	if l.client.Conn != nil {
		c.server.Disconnect(l.client.Conn.SessionID())
	} else {
		c.server.Disconnect(l.client.Session.ID())
	}
	c.dead.Go(func() { l.close() })
}

// close ends the life: all its goroutines, and its session.
func (l *life) close() {
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

// heal ends all faults, and starts the processes that are dead.
func (c *crew) heal() {
	for i := range processes {
		c.Resume(i)
		c.Start(i)
	}
	c.server.ClearFaults()
	c.server.Thaw(0)
	c.server.Refuse(false)
	for i := range c.server.Addrs() {
		c.server.Heal(i)
	}
	c.record.Fault(history.Fault{Kind: history.Healed})
}

// finish has the processes end their work, and looks at the nodes that are left.
func (c *crew) finish() {
	close(c.stop)
	if c.system == ZKLock { // its calls wait for ever if a reply is lost, unless the connection is closed
		late := time.AfterFunc(workload.Patience, func() {
			for _, p := range c.all {
				p.life.client.Conn.Close()
			}
		})
		defer late.Stop()
	}
	for _, p := range c.all {
		p.life.work.Wait()
	}
	<-time.After(quiet)
	close(c.quiet)
	<-time.After(time.Second)
	close(c.over)
	for _, p := range c.all {
		p.life.standing.Wait()
		p.life.close()
	}
	c.dead.Wait()
	<-time.After(2 * scenario.Timeout) // sessions of dead processes end
}
