package watch

import (
	"fmt"

	"github.com/zkactors/zkactors/session"
)

// A TreeNode is a node of a [Cache]. Data and Stat must not be modified.
type TreeNode struct {
	Path string
	Data []byte
	Stat *session.Stat
}

// A TreeState has the differences of a tree from the last state that this reader has
// received, in no order. The first one has everything as Added.
type TreeState struct {
	Added   []TreeNode
	Changed []TreeNode // also those that were deleted and made again
	Removed []TreeNode // as they were last
	Synced  bool       // the whole tree has been read once

	// where each of them stands; nil until a second one comes.
	where map[string]place
}

// String returns the numbers of nodes.
func (s TreeState) String() string {
	return fmt.Sprintf("added=%d changed=%d removed=%d synced=%v", len(s.Added), len(s.Changed), len(s.Removed), s.Synced)
}

func (s TreeState) empty() bool { return len(s.Added)+len(s.Changed)+len(s.Removed) == 0 }

// A place is an index in one of three lists.
type place struct {
	list  change
	index int32
}

type change uint8

const (
	added change = iota
	changed
	removed
)

func listOf(s *TreeState, c change) *[]TreeNode {
	return [...]*[]TreeNode{&s.Added, &s.Changed, &s.Removed}[c]
}

// note adds a change, and merges it with an earlier one of the same node.
func note(s *TreeState, c change, n TreeNode) {
	if s.where == nil {
		if s.empty() {
			*listOf(s, c) = []TreeNode{n}
			return
		}
		s.where = make(map[string]place)
		for c := added; c <= removed; c++ {
			for i, n := range *listOf(s, c) {
				s.where[n.Path] = place{c, int32(i)}
			}
		}
	}
	at, known := s.where[n.Path]
	if known {
		takeOut(s, at)
		switch {
		case at.list == added && c == removed:
			return // the reader never knew it
		case at.list == added:
			c = added
		case at.list == removed && c == added:
			c = changed
		}
	}
	list := listOf(s, c)
	s.where[n.Path] = place{c, int32(len(*list))}
	*list = append(*list, n)
}

// takeOut removes what is at a place, and puts the last one of the list there.
func takeOut(s *TreeState, at place) {
	list := *listOf(s, at.list)
	delete(s.where, list[at.index].Path)
	last := len(list) - 1
	if int(at.index) != last {
		list[at.index] = list[last]
		s.where[list[last].Path] = at
	}
	list[last] = TreeNode{}
	*listOf(s, at.list) = list[:last]
}

// mergeTrees folds next into last, which was not received.
func mergeTrees(last, next TreeState) (TreeState, bool) {
	for c := added; c <= removed; c++ {
		for _, n := range *listOf(&next, c) {
			note(&last, c, n)
		}
	}
	last.Synced = last.Synced || next.Synced
	return last, true
}
