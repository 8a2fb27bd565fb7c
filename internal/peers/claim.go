package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A Claim is a peer's place in line, and later its grant.
//
// A Claim is safe for concurrent use; but only one call of Visit, Put or Take may be under way.
type Claim struct {
	peer     *Peer
	id       string
	acquired chan struct{}
	revoked  chan struct{}
	lost     chan struct{}
	ended    chan struct{}
	answers  chan answer // the answer to the last command

	// Written before acquired or ended is closed.
	node string
	err  error
}

type answer struct {
	text string
	err  error
}

func newClaim(p *Peer, id string) *Claim {
	return &Claim{
		peer: p, id: id,
		acquired: make(chan struct{}), revoked: make(chan struct{}), lost: make(chan struct{}), ended: make(chan struct{}),
		answers: make(chan answer, 1),
	}
}

// ID returns the name of the claim. Recipes that give names to their contenders use it.
func (c *Claim) ID() string { return c.id }

// Acquired returns a channel that is closed when the peer acquires.
func (c *Claim) Acquired() <-chan struct{} { return c.acquired }

// Revoked returns a channel that is closed when Curator calls the listener of a [CuratorRevocable].
func (c *Claim) Revoked() <-chan struct{} { return c.revoked }

// Lost returns a channel that is closed when the peer notices that it does not hold any more.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Ended returns a channel that is closed when the peer neither holds nor waits any more.
func (c *Claim) Ended() <-chan struct{} { return c.ended }

// Err returns, after Ended, why the claim ended: nil if it was released, and an error that wraps
// [context.DeadlineExceeded] if it timed out.
func (c *Claim) Err() error { return c.err }

// Node returns, after Acquired, the path of the node that stands for the grant. It is "-" if the
// recipe does not reveal it.
func (c *Claim) Node() string { return c.node }

// Visit has the holder read and write the node at path, and returns the version after the write. It
// fails if another client writes the node between the read and the write.
func (c *Claim) Visit(ctx context.Context, path string) (int, error) {
	text, err := c.do(ctx, "visit", path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Put has the holder of a queue put an item, which is one word, or nothing. Only kazoo's queues use
// the priority.
func (c *Claim) Put(ctx context.Context, data string, priority int) error {
	if data == "" {
		data = emptyItem
	}
	_, err := c.do(ctx, "put", data, strconv.Itoa(priority))
	return err
}

// Take has the holder of a queue take an item. If the queue stays empty for the time of wait, the
// error wraps [context.DeadlineExceeded].
func (c *Claim) Take(ctx context.Context, wait time.Duration) (string, error) {
	data, err := c.do(ctx, "take", strconv.FormatInt(wait.Milliseconds(), 10))
	if err == nil && data == "" {
		err = fmt.Errorf("%s: %w", c.id, context.DeadlineExceeded)
	}
	if data == emptyItem {
		data = ""
	}
	return data, err
}

// emptyItem is an item without data in the protocol.
const emptyItem = `""`

// Add has the holder of a counter add to it, and returns the value after that.
func (c *Claim) Add(ctx context.Context, n int) (int64, error) {
	text, err := c.do(ctx, "add", strconv.Itoa(n))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// do sends a command to the holder, and returns its answer.
func (c *Claim) do(ctx context.Context, what string, words ...string) (string, error) {
	if err := c.peer.more(append([]string{what, c.id}, words...)...); err != nil {
		return "", err
	}
	return c.await(ctx)
}

// Release gives up the grant, or the place in line, and returns when the peer confirms it. The node
// of a waiter may exist for a moment longer.
func (c *Claim) Release(ctx context.Context) error {
	if err := c.peer.more("release", c.id); err != nil {
		return err
	}
	select {
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("release %s: %w", c.id, context.Cause(ctx))
	}
}

// await waits for the answer to a command.
func (c *Claim) await(ctx context.Context) (string, error) {
	select {
	case a := <-c.answers:
		return a.text, a.err
	case <-c.ended:
		return "", c.err
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %w", c.id, context.Cause(ctx))
	}
}

// hear handles a message of the program, and reports whether it was the last one for this claim.
func (c *Claim) hear(m message) (last bool) {
	switch m.verb {
	case "acquired":
		c.node = m.rest
		close(c.acquired)
	case "revoked":
		closeOnce(c.revoked)
	case "lost":
		closeOnce(c.lost)
	case "did":
		c.reply(answer{text: m.rest})
	case "refused":
		c.reply(answer{err: c.failure(m.rest)})
	case "answer":
		c.reply(answer{text: m.rest})
		return true
	case "released":
		c.finish(nil)
		return true
	case "timeout":
		c.finish(fmt.Errorf("%s: %w", c.id, context.DeadlineExceeded))
		return true
	case "failed":
		c.finish(c.failure(m.rest))
		return true
	}
	return false
}

// reply keeps an answer for the call that awaits it.
func (c *Claim) reply(a answer) {
	select {
	case c.answers <- a:
	default: // the caller of an earlier command has left, and its answer is still here
	}
}

func (c *Claim) failure(text string) error { return errors.New(c.id + ": " + text) }

func (c *Claim) finish(err error) {
	c.err = err
	close(c.ended)
}

func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}
