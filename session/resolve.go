package session

import (
	"context"
	"fmt"
	"time"
)

// SetServers replaces the list of servers of the session and its siblings, each host:port. The
// session keeps its server if it can. It moves if its server is not in the list. If the list has
// grown, it moves with the probability that spreads sessions evenly. So when many sessions are given
// the same list, they are spread as evenly as before, and no more of them move than necessary.
//
// A session that moves first waits for the answers to all that it has sent. It is suspended for
// the time of a reconnect, and neither expires nor loses a request. With [Options.Resolve],
// the next resolution replaces the list again.
func (s *Session) SetServers(addresses []string) error {
	addresses, err := checkServers(addresses)
	if err != nil {
		return fmt.Errorf("set servers: %w", err)
	}
	return s.setServers(addresses)
}

func (s *Session) setServers(addresses []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return fmt.Errorf("set servers: %w", ErrClosed)
	}
	s.newest.setServers(addresses)
	for sibling := range s.beside {
		_ = sibling.setServers(addresses) // one that is closed needs none
	}
	return nil
}

// resolve keeps the list of servers up to date until the session is closed.
func (s *Session) resolve() {
	ctx, cancel := s.until(s.closing)
	defer cancel()
	for ctx.Err() == nil {
		wait := s.opts.ResolveEvery
		if err := s.resolveOnce(ctx); err != nil && ctx.Err() == nil {
			s.servers.Unresolved(err)
			wait = min(wait, time.Second)
		}
		select {
		case <-time.After(wait):
		case <-s.servers.Exhausted():
		case <-ctx.Done():
		}
	}
}

func (s *Session) resolveOnce(ctx context.Context) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addresses, err := s.opts.Resolve(ctx)
	if err == nil {
		addresses, err = checkServers(addresses)
	}
	if err != nil {
		return err
	}
	return s.setServers(addresses)
}
