package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session"
)

// divergence returns a node that one server has and another has not; "" if all have the same
// nodes. Handles that stand may still write, so that a difference counts only if it stays.
//
// Servers that are killed can lose what was committed (ZOOKEEPER-4643, ZOOKEEPER-4646), and one of
// 3.6.4 kept what never was. Their clients see nodes that are gone, and wait for them.
func divergence(ctx context.Context, addrs []string) (string, error) {
	const tries = 5
	var last string
	for range tries {
		var trees []map[string]int64
		for _, addr := range addrs {
			tree, err := treeOf(ctx, addr)
			if err != nil {
				return "", err
			}
			trees = append(trees, tree)
		}
		last = difference(trees)
		if last == "" {
			return "", nil
		}
		if err := wait(ctx, time.Second); err != nil {
			return "", err
		}
	}
	return last, nil
}

// difference returns a node that some of the trees have, and others have not.
func difference(trees []map[string]int64) string {
	for i, tree := range trees {
		for _, node := range slices.Sorted(maps.Keys(tree)) {
			for j, other := range trees {
				if czxid, is := other[node]; !is || czxid != tree[node] {
					return fmt.Sprintf("server %d has %s of zxid %#x, and server %d has not", i, node, tree[node], j)
				}
			}
		}
	}
	return ""
}

// treeOf returns the nodes of one server, by path, with their czxids.
func treeOf(ctx context.Context, addr string) (map[string]int64, error) {
	s, err := operate(ctx, []string{addr})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Sync(ctx, "/"); err != nil {
		return nil, err
	}
	nodes := make(map[string]int64)
	for todo := []string{"/"}; len(todo) > 0; {
		node := todo[0]
		todo = todo[1:]
		names, stat, err := s.Children(ctx, node)
		if errors.Is(err, session.ErrNoNode) {
			continue
		} else if err != nil {
			return nil, err
		}
		nodes[node] = stat.Czxid
		for _, name := range names {
			if child := path.Join(node, name); child != "/zookeeper" {
				todo = append(todo, child)
			}
		}
	}
	return nodes, nil
}
