package ours

import (
	"fmt"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// The bench creates two trees below the path of a run. The drivers in other languages use the same
// names.
const (
	WarmTree = "/warm" // which only the warm-up reads
	Tree     = "/it"   // which no session reads before the measured part
)

// A directory and its leaves are 100 nodes. One transaction creates them.
const leavesEach = 99

// Directories returns the number of directories in a tree of so many nodes.
func Directories(nodes int) int { return (nodes + leavesEach) / (1 + leavesEach) }

// Directory returns the path of a directory of the tree at root.
func Directory(root string, number int) string { return fmt.Sprintf("%s/d%04d", root, number) }

// Leaves returns the paths of the leaves of a directory.
func Leaves(dir string) []string {
	all := make([]string, leavesEach)
	for n := range all {
		all[n] = fmt.Sprintf("%s/n%02d", dir, n)
	}
	return all
}

// A treeOf is one of the two trees.
type treeOf struct {
	path        string
	directories int
}

func (t treeOf) nodes() int { return 1 + t.directories*(1+leavesEach) }

func trees(r *driver.Run) (warm, it treeOf) {
	return treeOf{r.Path + WarmTree, Directories(r.Int("warm_nodes", 1))}, treeOf{r.Path + Tree, Directories(r.Int("nodes", 1))}
}

// fresh calls f with a session that has seen no tree. Its server has the tree.
func fresh(r *driver.Run, t treeOf, f func(*session.Session) error) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	if err := all[0].Sync(r.Context(), t.path); err != nil { // its server may lag
		return err
	}
	return f(all[0])
}

// tree measures the time until all nodes of a tree are known. A session may keep watches, so each
// load has a session of its own, and the warm-up has a tree of its own.
func tree(r *driver.Run) error {
	warm, it := trees(r)
	for l := r.WarmUp(); l.Next(); {
		err := fresh(r, warm, func(s *session.Session) error {
			c, err := follow(s, warm)
			if err == nil {
				c.Close()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return fresh(r, it, func(s *session.Session) error {
		before := driver.Resident()
		var c *watch.Cache
		err := r.Measure(func(driver.Limit) (_ int, err error) {
			began := time.Now()
			c, err = follow(s, it)
			r.Latency(time.Since(began))
			return 1, err
		})
		r.Memory(before)
		if c != nil {
			c.Close()
		}
		return err
	})
}

// follow returns the cache of a tree when it is complete.
func follow(s *session.Session, t treeOf) (*watch.Cache, error) {
	c, err := watch.Tree(s, t.path, nil)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.Synced():
	case <-c.Done():
		return nil, c.Err()
	}
	if got := c.Len(); got != t.nodes() {
		c.Close()
		return nil, fmt.Errorf("%d nodes of %d", got, t.nodes())
	}
	return c, nil
}

// treeChange measures the time from a change of a node until the follower of its tree has seen it.
// The warm-up has a follower and a tree of its own.
func treeChange(r *driver.Run) error {
	warm, it := trees(r)
	err := changes(r, warm, func(change func(driver.Limit) ([]time.Duration, error)) error {
		_, err := change(r.WarmUp())
		return err
	})
	if err != nil {
		return err
	}
	return changes(r, it, func(change func(driver.Limit) ([]time.Duration, error)) error {
		before := driver.Resident()
		err := r.Measure(func(l driver.Limit) (int, error) {
			took, err := change(l)
			r.Latency(took...)
			return len(took), err
		})
		r.Memory(before)
		return err
	})
}

// changes calls f with a function that changes nodes of the tree, each after its follower has seen
// the change before. The function returns the times until the follower has seen the changes.
func changes(r *driver.Run, t treeOf, f func(change func(driver.Limit) ([]time.Duration, error)) error) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	var leaves []string
	for d := range t.directories {
		leaves = append(leaves, Leaves(Directory(t.path, d))...)
	}
	return fresh(r, t, func(s *session.Session) error {
		c, err := follow(s, t)
		if err != nil {
			return err
		}
		defer c.Close()
		seen := c.Changes()
		<-seen // all that it has
		n := 0
		return f(func(l driver.Limit) (took []time.Duration, err error) {
			for l.Next() {
				value, leaf := strconv.Itoa(n), leaves[(n*37)%len(leaves)]
				n++
				began, written := time.Now(), make(chan error, 1)
				go func() {
					_, err := all[0].Set(r.Context(), leaf, []byte(value), session.AnyVersion)
					written <- err
				}()
				for string(c.Get(leaf).Data) != value {
					if _, ok := <-seen; !ok {
						return nil, c.Err()
					}
				}
				took = append(took, time.Since(began))
				if err := <-written; err != nil {
					return nil, err
				}
			}
			return took, nil
		})
	})
}
