package bubble

import (
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
)

// Pause implements [scenario.Crew].
func (c *crew) Pause(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.all[i].life; l != nil {
		l.Pause()
	}
}

// Resume implements [scenario.Crew].
func (c *crew) Resume(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.all[i].life; l != nil {
		l.Resume()
	}
}

// Kill implements [scenario.Crew]. The connection breaks first, so that nothing of what ends here
// reaches the servers.
func (c *crew) Kill(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.all[i]
	l := p.life
	if l == nil {
		return
	}
	p.life = nil
	p.record.Kill()
	l.Silence()
	c.server.Disconnect(l.Session())
	c.dead.Go(l.Close)
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
	for _, p := range c.all {
		p.life.AwaitWork(workload.Patience)
	}
	<-time.After(quiet)
	close(c.quiet)
	<-time.After(time.Second)
	close(c.over)
	for _, p := range c.all {
		p.life.AwaitStanding()
		p.life.Close()
	}
	c.dead.Wait()
	<-time.After(2 * scenario.Timeout) // sessions of dead processes end
}
