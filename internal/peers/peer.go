package peers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers/process"
)

// ErrEnded means that the process of a peer has ended.
var ErrEnded = errors.New("peer has ended")

// A Peer is another library in a process of its own, with one session or several.
//
// A Peer is safe for concurrent use.
type Peer struct {
	library Library
	process *process.Process
	named   bool          // the test has named a version
	version string        // as the program reports it; read it after ready
	ready   chan struct{} // closed when it is connected
	exited  chan struct{} // closed when the process is gone, and all claims have ended
	reader  sync.WaitGroup
	status  error // how the process ended; read it after exited

	mu     sync.Mutex
	last   int // number of claims
	claims map[string]*Claim
	killed bool
}

// Pid returns the process of the peer.
func (p *Peer) Pid() int { return p.process.Pid() }

// Close ends the peer, and its sessions. It is for peers of [Launch].
func (p *Peer) Close() error { return p.end() }

// Version returns the version that the library itself reports.
func (p *Peer) Version() string { return p.version }

// launch starts the process of a peer.
func launch(library Library, cmd *exec.Cmd) (*Peer, error) {
	running, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	p := &Peer{
		library: library, process: running, ready: make(chan struct{}), exited: make(chan struct{}), claims: make(map[string]*Claim),
	}
	p.reader.Go(func() {
		broken := p.listen()
		if broken != nil {
			running.End() // it would wait for a listener
		}
		p.status = errors.Join(broken, running.Wait())
		p.mu.Lock()
		defer p.mu.Unlock()
		for id, c := range p.claims {
			c.finish(fmt.Errorf("%s: %w", id, ErrEnded))
		}
		p.claims = nil
		close(p.exited)
	})
	return p, nil
}

// listen passes on the messages of the program until its output ends.
func (p *Peer) listen() error {
	for line := range p.process.Lines() {
		m, err := parse(line)
		if err != nil {
			return err
		}
		if m.verb == "ready" {
			p.version = m.id
			close(p.ready)
			continue
		}
		p.mu.Lock()
		c := p.claims[m.id]
		if c != nil && c.hear(m) {
			delete(p.claims, m.id)
		}
		p.mu.Unlock()
	}
	return nil
}

// end closes the program's sessions and ends its process. It returns when the process is gone.
func (p *Peer) end() error {
	p.mu.Lock()
	err := p.process.Close()
	p.mu.Unlock()
	timeout, cancel := context.WithTimeout(context.Background(), check.Patience)
	defer cancel()
	select {
	case <-p.exited:
	case <-timeout.Done():
		err = errors.Join(err, fmt.Errorf("peers: %s does not end", p.library))
		p.process.Kill()
	}
	p.reader.Wait()
	if p.killed {
		return nil
	}
	return errors.Join(err, p.status)
}

// Kill ends the process as a crash does: its sessions live on until they expire. It returns when
// the process is gone.
func (p *Peer) Kill() error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.process.Kill()
	<-p.exited
	return nil
}

// tell sends a command with the id of a new claim, after name and before words.
func (p *Peer) tell(name string, words ...string) (*Claim, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims == nil {
		return nil, fmt.Errorf("peers: %s: %w", p.library, ErrEnded)
	}
	p.last++
	c := newClaim(p, string(p.library)+"-"+strconv.Itoa(p.last))
	if err := p.write(append([]string{name, c.id}, words...)); err != nil {
		return nil, err
	}
	p.claims[c.id] = c // before listen looks for it there: listen needs mu
	return c, nil
}

// more sends a command for an existing claim.
func (p *Peer) more(words ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(words)
}

// write sends a command. The caller holds mu.
func (p *Peer) write(words []string) error {
	if err := p.process.Say(strings.Join(words, " ")); err != nil {
		return fmt.Errorf("peers: %s: %w: %w", p.library, ErrEnded, err)
	}
	return nil
}

// Join has the peer stand in line at path with one of its recipes, and returns at once. The peer
// gives up by itself after wait, unless wait is 0.
func (p *Peer) Join(kind Kind, path string, wait time.Duration) (*Claim, error) {
	if kind.Library() != p.library {
		return nil, fmt.Errorf("peers: %s has no %s", p.library, kind)
	}
	return p.tell("acquire", kind.name(), path, strconv.FormatInt(wait.Milliseconds(), 10))
}

// Acquire is like [Peer.Join], but returns when the peer holds. If ctx ends before that, the peer
// gives up, and Acquire then returns the cause.
func (p *Peer) Acquire(ctx context.Context, kind Kind, path string) (*Claim, error) {
	return p.acquire(ctx, kind, path, 0)
}

func (p *Peer) acquire(ctx context.Context, kind Kind, path string, wait time.Duration) (*Claim, error) {
	c, err := p.Join(kind, path, wait)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.acquired:
		return c, nil
	case <-c.ended:
		return nil, c.err
	case <-ctx.Done():
		if err := c.Release(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", c.id, context.Cause(ctx))
	}
}

// Revoke has Curator ask the holder that owns the node to release.
func (p *Peer) Revoke(ctx context.Context, node string) error {
	_, err := p.ask(ctx, "revoke", node)
	return err
}

// Line returns the contenders that the peer sees in line at path, the first one first. For
// Curator's locks these are the paths of the nodes, for all other recipes the data of the nodes.
func (p *Peer) Line(ctx context.Context, kind Kind, path string) ([]string, error) {
	answer, err := p.ask(ctx, "line", kind.name(), path)
	return strings.Fields(answer), err
}

// Raise raises the barrier at path, with a recipe of the peer.
func (p *Peer) Raise(ctx context.Context, kind Kind, path string) error {
	_, err := p.ask(ctx, "raise", kind.name(), path)
	return err
}

// Lift lifts the barrier at path, with a recipe of the peer.
func (p *Peer) Lift(ctx context.Context, kind Kind, path string) error {
	_, err := p.ask(ctx, "lift", kind.name(), path)
	return err
}

// ask sends a question and returns the answer.
func (p *Peer) ask(ctx context.Context, name string, words ...string) (string, error) {
	c, err := p.tell(name, words...)
	if err != nil {
		return "", err
	}
	return c.await(ctx)
}
