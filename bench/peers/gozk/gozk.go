// Package gozk has the programs of the bench that run go-zookeeper: its Lock, its bare watches,
// bare requests, and the lock that is one ephemeral node.
package gozk

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/bench/driver"
)

// Programs returns the programs by name.
func Programs() map[string]driver.Program {
	all := map[string]driver.Program{
		"lock": locks, "herd": herd, "fanout": fanOut, "holders": holders, "waiters": waiters, "sessions": idleSessions,
	}
	maps.Copy(all, rawPrograms())
	return all
}

// open opens n sessions. The second result closes them.
func open(r *driver.Run, n int) (all []*zk.Conn, end func(), err error) {
	all = make([]*zk.Conn, n)
	end = func() {
		_ = driver.Each(n, func(i int) error {
			if all[i] != nil {
				all[i].Close()
			}
			return nil
		})
	}
	err = driver.Each(n, func(i int) error {
		conn, events, err := zk.Connect(r.Servers, r.Timeout, zk.WithLogInfo(false), zk.WithLogger(silent{}))
		if err != nil {
			return err
		}
		all[i] = conn
		for ev := range events {
			if ev.State == zk.StateHasSession {
				return nil
			}
		}
		return errors.New("no session")
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return all, end, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// ensure creates the node at path, and its parents.
func ensure(conn *zk.Conn, path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		_, err := conn.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func newLock(conn *zk.Conn, path string) *zk.Lock {
	return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
}

func locks(r *driver.Run) error {
	n, each := r.Int("sessions", 1), r.Int("locks", 1)
	all, end, err := open(r, n)
	if err != nil {
		return err
	}
	defer end()
	return r.Loop(n*each, func(w, _ int) error {
		path := r.Path + "/one"
		if !r.Is("shared", "1") {
			path = r.Path + "/" + strconv.Itoa(w)
		}
		l := newLock(all[w%n], path)
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	})
}

// herd measures the lock that is one ephemeral node. All contenders watch that node, and race when
// it is deleted.
func herd(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1))
	if err != nil {
		return err
	}
	defer end()
	if err := ensure(all[0], r.Path); err != nil {
		return err
	}
	path := r.Path + "/lock"
	return r.Loop(len(all), func(w, _ int) error {
		for {
			_, err := all[w].Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			if err == nil {
				return all[w].Delete(path, -1)
			}
			if !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			exists, _, gone, err := all[w].ExistsW(path)
			if err != nil {
				return err
			}
			if exists {
				<-gone
			}
		}
	})
}

// A seen is a value, and the time at which a watcher saw it.
type seen struct {
	value string
	at    time.Time
}

// fanOut measures bare watches. A watcher reads the node after its watch has fired, which sets the
// watch again.
func fanOut(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1)+1)
	if err != nil {
		return err
	}
	watchers := r.Int("watchers", 1)
	told := make(chan seen, watchers)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	writer := all[0]
	if err := ensure(writer, r.Path); err != nil {
		return err
	}
	for i := range watchers {
		conn := all[1+i%(len(all)-1)]
		if _, err := conn.Sync(r.Path); err != nil { // the server may not know of the node yet
			return err
		}
		wg.Go(func() {
			for {
				data, _, changed, err := conn.GetW(r.Path)
				if err != nil {
					return // the session is closed
				}
				told <- seen{string(data), time.Now()}
				if ev := <-changed; ev.Err != nil {
					return
				}
			}
		})
	}
	await := func(value string) (at []time.Time) {
		for len(at) < watchers {
			if s := <-told; s.value == value {
				at = append(at, s.at)
			}
		}
		return at
	}
	await("")
	n := 0
	phase := func(l driver.Limit) (took []time.Duration, err error) {
		for l.Next() {
			n++
			value := strconv.Itoa(n)
			began, written := time.Now(), make(chan error, 1)
			go func() {
				_, err := writer.Set(r.Path, []byte(value), -1)
				written <- err
			}()
			for _, at := range await(value) {
				took = append(took, at.Sub(began))
			}
			if err := <-written; err != nil {
				return nil, err
			}
		}
		return took, nil
	}
	return r.Latencies(1, phase)
}

func idleSessions(r *driver.Run) error {
	return r.Measure(func(driver.Limit) (int, error) {
		n := r.Int("n", 1)
		before := driver.Memory()
		_, end, err := open(r, n)
		if err != nil {
			return 0, err
		}
		defer end()
		driver.Memory().Since(before).Report(r, n)
		return n, nil
	})
}

// lockAll acquires all locks at once, each on a goroutine of its own.
func lockAll(r *driver.Run, conn *zk.Conn, all []*zk.Lock) error {
	return driver.Each(len(all), func(i int) error {
		all[i] = newLock(conn, r.Path+"/"+strconv.Itoa(i))
		return all[i].Lock()
	})
}

func holders(r *driver.Run) error {
	conns, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	all := make([]*zk.Lock, r.Int("n", 1))
	before := driver.Memory()
	err = r.Measure(func(driver.Limit) (int, error) { return len(all), lockAll(r, conns[0], all) })
	if err != nil {
		return err
	}
	driver.Memory().Since(before).Report(r, len(all))
	return nil
}

func waiters(r *driver.Run) error {
	conns, end, err := open(r, 2)
	if err != nil {
		return err
	}
	defer end()
	held, waiting := make([]*zk.Lock, r.Int("n", 1)), make([]*zk.Lock, r.Int("n", 1))
	if err := lockAll(r, conns[0], held); err != nil {
		return err
	}
	before := driver.Memory()
	acquired := make(chan error, 1)
	began := time.Now()
	go func() { acquired <- lockAll(r, conns[1], waiting) }()
	for i := range held {
		for {
			names, _, changed, err := conns[0].ChildrenW(r.Path + "/" + strconv.Itoa(i))
			if err != nil {
				return fmt.Errorf("look at a line: %w", err)
			}
			if len(names) > 1 {
				break
			}
			<-changed
		}
	}
	r.Extra("line_up_s", time.Since(began).Seconds())
	driver.Memory().Since(before).Report(r, len(waiting))
	return r.Measure(func(driver.Limit) (int, error) {
		for _, l := range held {
			go func() { _ = l.Unlock() }() // if it fails, the waiter of this lock shows that
		}
		return len(waiting), <-acquired
	})
}
