package zktest

import (
	"fmt"
	"slices"
)

// Sessions returns the ids of the sessions that the leader knows, in the order
// in which they began.
func (s *Server) Sessions() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedKeys(s.sessions)
}

// Paths returns the paths of all nodes but ZooKeeper's own, in order, as the
// leader sees them.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for p := range s.tree.nodes {
		if !isSpecial(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// Watches returns how many watches there are, at all replicas.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.replicas {
		n += r.data.total() + r.child.total()
	}
	return n
}

// SetCversion sets how many children the node at path is to have had: the next sequential node gets
// that number. The range of the number ends at 2147483647; the next number is -2147483648.
func (s *Server) SetCversion(path string, cversion int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.node(path)
	if n == nil {
		return fmt.Errorf("zktest: no node at %s", path)
	}
	n.Cversion = cversion
	for _, r := range s.replicas {
		if n := r.tree.node(path); n != nil {
			n.Cversion = cversion
		}
	}
	return nil
}
