package peers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience bounds what a program may take to begin, and to end.
const patience = time.Minute

// ErrEnded means that the process of a peer has ended.
var ErrEnded = errors.New("peer has ended")

// A Peer is another library in a process of its own, with one session.
//
// A Peer is safe for concurrent use.
type Peer struct {
	library    Library
	cmd        *exec.Cmd
	ready      chan struct{} // closed when it is connected
	exited     chan struct{} // closed when the process is gone, and all claims have ended
	reader     sync.WaitGroup
	status     error        // how the process ended; read it after exited
	complaints bytes.Buffer // standard error; read it after exited

	mu     sync.Mutex
	stdin  io.WriteCloser
	last   int // number of claims
	claims map[string]*Claim
	killed bool
}

// launch starts the process of a peer.
func launch(library Library, cmd *exec.Cmd) (*Peer, error) {
	p := &Peer{
		library: library, cmd: cmd, ready: make(chan struct{}), exited: make(chan struct{}), claims: make(map[string]*Claim),
	}
	cmd.Stderr = &p.complaints
	cmd.WaitDelay = patience
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.reader.Go(func() {
		broken := p.listen(stdout)
		if broken != nil {
			_ = cmd.Process.Kill() // it would wait for a listener
		}
		p.status = errors.Join(broken, cmd.Wait())
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

// listen passes on what the program says, until it says no more.
func (p *Peer) listen(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		m, err := parse(lines.Text())
		if err != nil {
			return err
		}
		if m.verb == "ready" {
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
	return lines.Err()
}

// end closes the program's session and ends its process; it returns when that is gone.
func (p *Peer) end() error {
	p.mu.Lock()
	err := p.stdin.Close()
	p.mu.Unlock()
	timeout, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-p.exited:
	case <-timeout.Done():
		err = errors.Join(err, fmt.Errorf("peers: %s does not end", p.library), p.cmd.Process.Kill())
	}
	p.reader.Wait()
	if p.killed {
		return nil
	}
	return errors.Join(err, p.status)
}

// Kill ends the process as a crash does: its session lives on until it expires. It
// returns when the process is gone.
func (p *Peer) Kill() error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
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
	p.claims[c.id] = c // before anything that is said of it is heard: that takes mu
	return c, nil
}

// more sends a command for a claim that there is already.
func (p *Peer) more(words ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(words)
}

// write sends a command. The caller holds mu.
func (p *Peer) write(words []string) error {
	_, err := io.WriteString(p.stdin, strings.Join(words, " ")+"\n")
	if err != nil {
		return fmt.Errorf("peers: %s: %w: %w", p.library, ErrEnded, err)
	}
	return nil
}

// Join has the peer stand in line at path with a recipe of its own, and returns at once.
// It gives up by itself after wait, unless that is 0.
func (p *Peer) Join(kind Kind, path string, wait time.Duration) (*Claim, error) {
	if kind.Library() != p.library {
		return nil, fmt.Errorf("peers: %s has no %s", p.library, kind)
	}
	return p.tell("acquire", kind.name(), path, strconv.FormatInt(wait.Milliseconds(), 10))
}

// Acquire is [Peer.Join], and returns when the peer holds. If ctx ends before that, it
// gives up, and Acquire returns the cause when it has.
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

// Revoke has Curator ask the holder whose node it is to release.
func (p *Peer) Revoke(ctx context.Context, node string) error {
	_, err := p.ask(ctx, "revoke", node)
	return err
}

// Line returns who the peer believes to stand in line at path, the first one first: the
// paths of the nodes for Curator's locks, and what the nodes say for all others.
func (p *Peer) Line(ctx context.Context, kind Kind, path string) ([]string, error) {
	answer, err := p.ask(ctx, "line", kind.name(), path)
	return strings.Fields(answer), err
}

// Raise raises the barrier at path, with a recipe of the peer.
func (p *Peer) Raise(ctx context.Context, kind Kind, path string) error {
	_, err := p.ask(ctx, "raise", kind.name(), path)
	return err
}

// Lift lifts the barrier at path, likewise.
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
