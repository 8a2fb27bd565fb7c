package ours

import (
	"strconv"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
)

// An owners counts the shards that members own.
type owners struct {
	shards int

	mu     sync.Mutex
	change *sync.Cond
	counts map[string]int // of the members that are there
}

// note notes a change of what a member owns.
func (o *owners) note(id string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.counts[id]; there {
		o.counts[id] += n
		o.change.Broadcast()
	}
}

// even waits until every shard has an owner, and every member its share.
func (o *owners) even() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.isEven() {
		o.change.Wait()
	}
}

func (o *owners) isEven() bool {
	sum, least := 0, o.shards/len(o.counts)
	for _, n := range o.counts {
		if sum += n; n < least || n > least+1 {
			return false
		}
	}
	return sum == o.shards
}

// join has a member come, that gives what is revoked.
func (o *owners) join(s *session.Session, path, id string) (*shard.Member, error) {
	o.mu.Lock()
	o.counts[id] = 0
	o.mu.Unlock()
	m, err := shard.Join(s, path, o.shards, &shard.Options{ID: id})
	if err != nil {
		return nil, err
	}
	go func() {
		for ev := range m.Events() {
			switch ev := ev.(type) {
			case shard.Assigned:
				o.note(id, 1)
			case shard.Revoke:
				o.note(id, -1)
				m.Give(ev.Shard)
			case shard.Lost:
				o.note(id, -1)
			case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
			}
		}
	}()
	return m, nil
}

// leave has a member go.
func (o *owners) leave(m *shard.Member) {
	o.mu.Lock()
	delete(o.counts, m.ID())
	o.mu.Unlock()
	m.Close()
}

// rebalance has one of the members go and come by turns, and measures the time until all shards are
// owned evenly again.
func rebalance(r *driver.Run) error {
	all, end, err := open(r, r.Int("members", 1))
	if err != nil {
		return err
	}
	defer end()
	o := &owners{shards: r.Int("shards", 1), counts: make(map[string]int)}
	o.change = sync.NewCond(&o.mu)
	members := make([]*shard.Member, len(all))
	for i, s := range all {
		if members[i], err = o.join(s, r.Path, strconv.Itoa(i)); err != nil {
			return err
		}
	}
	defer func() { closeAll(members) }()
	o.even()
	last := len(all) - 1
	return r.Latencies(1, func(l driver.Limit) (took []time.Duration, err error) {
		for there := true; l.Next() || !there; there = !there {
			began := time.Now()
			if there {
				o.leave(members[last])
			} else if members[last], err = o.join(all[last], r.Path, strconv.Itoa(last)); err != nil {
				return nil, err
			}
			o.even()
			took = append(took, time.Since(began))
		}
		return took, nil
	})
}

// discover measures the time from the registration of an instance until a watcher of the service
// sees it.
func discover(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1)+1)
	if err != nil {
		return err
	}
	defer end()
	n := r.Int("watchers", 1)
	told := make(chan seen, n)
	var readers sync.WaitGroup
	watchers := make([]*discovery.Watcher, n)
	defer readers.Wait()
	defer func() { closeAll(watchers) }()
	for i := range watchers {
		if watchers[i], err = discovery.Watch(all[1+i%(len(all)-1)], r.Path, "search", nil); err != nil {
			return err
		}
		readers.Go(func() {
			for instances := range watchers[i].Changes() {
				for _, it := range instances {
					told <- seen{it.ID, time.Now()}
				}
			}
		})
	}
	turn := 0
	return r.Latencies(1, func(l driver.Limit) (took []time.Duration, err error) {
		for l.Next() {
			turn++
			id := strconv.Itoa(turn)
			began := time.Now()
			it, err := discovery.Register(all[0], r.Path, discovery.Instance{Service: "search", ID: id, Address: "10.0.0.7", Port: 80}, nil)
			if err != nil {
				return nil, err
			}
			for range n {
				s := <-told
				for s.value != id {
					s = <-told
				}
				took = append(took, s.at.Sub(began))
			}
			it.Close()
		}
		return took, nil
	})
}
