package ours

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// join measures the time from the first join until another session knows of all members.
func join(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1)+1)
	if err != nil {
		return err
	}
	defer end()
	watcher, all := all[0], all[1:]
	members := make([]*group.Membership, r.Int("members", 1))
	shot := func(path string) (took time.Duration, err error) {
		w, err := group.Watch(watcher, path, nil)
		if err != nil {
			return 0, err
		}
		defer w.Close()
		<-w.Events() // the first event: the group is empty
		began := time.Now()
		for i := range members {
			if members[i], err = group.Join(all[i%len(all)], path, "member-"+strconv.Itoa(i), nil, nil); err != nil {
				return 0, err
			}
		}
		for ev := range w.Events() {
			if len(ev.Members) == len(members) {
				return time.Since(began), nil
			}
		}
		return 0, w.Err()
	}
	if _, err := shot(r.Path + "/warm"); err != nil {
		return err
	}
	closeAll(members)
	err = r.Measure(func(driver.Limit) (int, error) {
		took, err := shot(r.Path + "/it")
		r.Latency(took)
		return len(members), err
	})
	closeAll(members)
	return err
}

// A seen is a value, and the time at which a watcher saw it.
type seen struct {
	value string
	at    time.Time
}

// fanOut measures the time from a change until a watcher sees it.
func fanOut(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1)+1)
	if err != nil {
		return err
	}
	defer end()
	watchers := r.Int("watchers", 1)
	writer, err := config.Open(all[0], r.Path, config.Text, nil)
	if err != nil {
		return err
	}
	err = writer.Set(r.Context(), "first")
	writer.Close() // the drivers of the peers have a writer without watches too
	if err != nil {
		return err
	}
	set := func(value string) error {
		_, err := all[0].Set(r.Context(), r.Path, []byte(value), session.AnyVersion)
		return err
	}
	told := make(chan seen, watchers)
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range watchers {
		follow := followConfig
		if r.Is("kind", "watch") {
			follow = followWatch
		}
		stop, err := follow(all[1+i%(len(all)-1)], r.Path, told, &readers)
		if err != nil {
			return err
		}
		defer stop()
	}
	await := func(value string) (at []time.Time) {
		for len(at) < watchers {
			if s := <-told; s.value == value {
				at = append(at, s.at)
			}
		}
		return at
	}
	await("first")
	n := 0
	phase := func(l driver.Limit) (took []time.Duration, err error) {
		for l.Next() {
			n++
			value := strconv.Itoa(n)
			began, written := time.Now(), make(chan error, 1)
			go func() { written <- set(value) }()
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

func followConfig(s *session.Session, path string, told chan<- seen, readers *sync.WaitGroup) (stop func(), err error) {
	v, err := config.Open(s, path, config.Text, nil)
	if err != nil {
		return nil, err
	}
	readers.Go(func() {
		for ev := range v.Events() {
			if changed, ok := ev.(config.Changed[string]); ok {
				told <- seen{changed.Value, time.Now()}
			}
		}
	})
	return v.Close, nil
}

func followWatch(s *session.Session, path string, told chan<- seen, readers *sync.WaitGroup) (stop func(), err error) {
	w, err := watch.Node(s, path, nil)
	if err != nil {
		return nil, err
	}
	readers.Go(func() {
		for state := range w.Changes() {
			told <- seen{string(bytes.TrimSpace(state.Data)), time.Now()}
		}
	})
	return w.Close, nil
}

// idleSessions measures the memory of idle sessions.
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

// many is n locks of one session. Each comes from New, or from an Acquire on a goroutine of its
// own.
type many struct {
	r     *driver.Run
	s     *session.Session
	locks []*lock.Lock
	wg    sync.WaitGroup
	errs  chan error
}

func newMany(r *driver.Run, s *session.Session) *many {
	n := r.Int("n", 1)
	return &many{r: r, s: s, locks: make([]*lock.Lock, n), errs: make(chan error, n)}
}

func (m *many) path(i int) string { return m.r.Path + "/" + strconv.Itoa(i) }

// begin requests all locks.
func (m *many) begin() error {
	for i := range m.locks {
		if m.r.Is("with", "acquire") {
			m.wg.Go(func() {
				var err error
				if m.locks[i], err = lock.Acquire(m.r.Context(), m.s, m.path(i), nil); err != nil {
					m.errs <- err
				}
			})
			continue
		}
		var err error
		if m.locks[i], err = lock.New(m.s, m.path(i), nil); err != nil {
			return err
		}
	}
	return nil
}

// await waits until all locks are held.
func (m *many) await() error {
	m.wg.Wait()
	select {
	case err := <-m.errs:
		return err
	default:
	}
	if m.r.Is("with", "acquire") {
		return nil
	}
	for _, l := range m.locks {
		for l.Token() == 0 {
			ev, ok := <-l.Events()
			if _, acquired := ev.(lock.Acquired); acquired {
				break
			} else if !ok {
				return l.Err()
			}
		}
	}
	return nil
}

// holders acquires n locks in one session, and again after the session has expired.
func holders(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	s, m := all[0], newMany(r, all[0])
	before := driver.Memory()
	err = r.Measure(func(driver.Limit) (int, error) {
		return len(m.locks), errors.Join(m.begin(), m.await())
	})
	if err != nil {
		return err
	}
	driver.Memory().Since(before).Report(r, len(m.locks))
	events := s.Events(r.Context())
	<-events
	if err := r.Ask("expire", fmt.Sprint(s.ID())); err != nil {
		return err
	}
	for ev := range events {
		if _, ok := ev.(session.Connected); ok {
			break
		}
	}
	began := time.Now()
	for _, l := range m.locks {
		<-l.Done()
	}
	if err := errors.Join(m.begin(), m.await()); err != nil {
		return err
	}
	r.Extra("recover_s", time.Since(began).Seconds())
	return nil
}

// waiters waits in one session for n locks of another session, which then releases them.
func waiters(r *driver.Run) error {
	all, end, err := open(r, 3)
	if err != nil {
		return err
	}
	defer end()
	held, waiting, onlooker := newMany(r, all[0]), newMany(r, all[1]), all[2]
	if err := errors.Join(held.begin(), held.await()); err != nil {
		return err
	}
	before := driver.Memory()
	began := time.Now()
	if err := waiting.begin(); err != nil {
		return err
	}
	if err := waiting.standing(onlooker, 2); err != nil {
		return err
	}
	onlooker.Close()
	r.Extra("line_up_s", time.Since(began).Seconds())
	driver.Memory().Since(before).Report(r, len(waiting.locks))
	return r.Measure(func(driver.Limit) (int, error) {
		for _, l := range held.locks {
			go l.Close()
		}
		return len(waiting.locks), waiting.await()
	})
}

// standing waits until n contenders stand in each line. It watches with another session, onlooker,
// whose memory does not count.
func (m *many) standing(onlooker *session.Session, n int) error {
	for i := range m.locks {
		w, err := watch.Children(onlooker, m.path(i), nil)
		if err != nil {
			return err
		}
		for state := range w.Changes() {
			if len(state.Names) >= n {
				break
			}
		}
		w.Close()
	}
	return nil
}
