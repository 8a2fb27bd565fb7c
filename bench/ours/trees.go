package ours

import (
	"fmt"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// perDirectory is how many nodes of a tree one transaction creates: a directory, and those in it.
const perDirectory = 100

// plant creates a tree below the path, and returns the number of its nodes and the leaves.
func plant(r *driver.Run, s *session.Session) (nodes int, leaves []string, err error) {
	if err := s.EnsurePath(r.Context(), r.Path); err != nil {
		return 0, nil, err
	}
	data := make([]byte, 100)
	if _, err := s.Set(r.Context(), r.Path, data, session.AnyVersion); err != nil { // which keeps it
		return 0, nil, err
	}
	nodes = 1
	for d := range (r.Int("nodes", 1) + perDirectory - 1) / perDirectory {
		dir := fmt.Sprintf("%s/d%04d", r.Path, d)
		ops := []session.Op{session.CreateOp(dir, data, session.Persistent)}
		for n := range perDirectory - 1 {
			leaves = append(leaves, fmt.Sprintf("%s/n%02d", dir, n))
			ops = append(ops, session.CreateOp(leaves[len(leaves)-1], data, session.Persistent))
		}
		if _, err := s.Multi(r.Context(), ops...); err != nil {
			return 0, nil, err
		}
		nodes += len(ops)
	}
	return nodes, leaves, nil
}

// tree measures the time until all nodes of a tree are known.
func tree(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	nodes, _, err := plant(r, all[0])
	if err != nil {
		return err
	}
	resident := 0.0
	err = r.Loop(1, func(int, int) error {
		c, err := follow(all[0], r.Path, nodes)
		if err != nil {
			return err
		}
		resident = max(resident, driver.Resident())
		c.Close()
		return nil
	})
	r.Extra("MB_resident", resident)
	return err
}

// follow returns the cache of a tree when it is complete.
func follow(s *session.Session, path string, nodes int) (*watch.Cache, error) {
	c, err := watch.Tree(s, path, nil)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.Synced():
	case <-c.Done():
		return nil, c.Err()
	}
	if got := c.Len(); got != nodes {
		c.Close()
		return nil, fmt.Errorf("%d nodes of %d", got, nodes)
	}
	return c, nil
}

// treeChange measures the time from a change of a node until the follower of its tree has seen it.
func treeChange(r *driver.Run) error {
	all, end, err := open(r, 2)
	if err != nil {
		return err
	}
	defer end()
	nodes, leaves, err := plant(r, all[0])
	if err != nil {
		return err
	}
	if err := all[1].Sync(r.Context(), r.Path); err != nil { // its server may lag
		return err
	}
	c, err := follow(all[1], r.Path, nodes)
	if err != nil {
		return err
	}
	defer c.Close()
	changes := c.Changes()
	<-changes // all that it has
	n := 0
	return r.Latencies(1, func(l driver.Limit) (took []time.Duration, err error) {
		for l.Next() {
			value, leaf := strconv.Itoa(n), leaves[(n*37)%len(leaves)]
			n++
			began, written := time.Now(), make(chan error, 1)
			go func() {
				_, err := all[0].Set(r.Context(), leaf, []byte(value), session.AnyVersion)
				written <- err
			}()
			for string(c.Get(leaf).Data) != value {
				if _, ok := <-changes; !ok {
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
}
