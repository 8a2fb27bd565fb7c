package actors

import "sync"

// A signal is raised at most once. There is no channel while no goroutine waits for it.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
	up bool
}

// wait returns a channel that is closed when the signal is raised.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
		if s.up {
			close(s.ch)
		}
	}
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = true
	if s.ch != nil {
		close(s.ch)
	}
}
