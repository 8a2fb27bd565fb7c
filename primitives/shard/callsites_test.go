package shard_test

import (
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(s *session.Session, start func(int, int64), stop, abort func(int)) error {
	m, err := shard.Join(s, "/shards/orders", 1024, &shard.Options{Weight: 2})
	if err != nil {
		return err
	}
	for ev := range m.Events() {
		switch ev := ev.(type) {
		case shard.Assigned: // ev.Shard, ev.Token; m.Guard(ev.Shard)
			start(ev.Shard, ev.Token)
			_ = m.Guard(ev.Shard)
		case shard.Revoke: // finish by ev.By, then
			_ = ev.By
			stop(ev.Shard)
			m.Give(ev.Shard)
		case shard.Lost:
			abort(ev.Shard)
		case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
		}
	}
	return nil
}

var _ = callSites
