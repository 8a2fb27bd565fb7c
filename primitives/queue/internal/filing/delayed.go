package filing

import (
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// assignAnew finds out which buckets of the times exist, and which are full.
func (p *Producer) assignAnew(due []int64, answer func(error, input)) {
	end := func(err error) { answer(err, assigned{p.Into.assign(p.Filing.Priority, due), err}) }
	minutes := firsts(due, func(ms int64) layout.Bucket { return layout.Delayed(p.Filing.Priority, ms) })
	p.measure(minutes, func(full map[layout.Bucket]bool, err error) {
		late := slices.DeleteFunc(slices.Clone(due), func(ms int64) bool { return !full[layout.Delayed(p.Filing.Priority, ms)] })
		if err != nil || len(late) == 0 {
			end(err)
			return
		}
		p.Requests.Children(p.Into.Dir(layout.ItemsDir), func(names []string, _ *session.Stat, err error) {
			if err = client.Without(err, session.ErrNoNode); err != nil {
				end(err)
				return
			}
			newest := make(map[layout.Bucket]layout.Bucket) // of each second
			for _, name := range names {
				if b, ok := layout.ParseBucket(name); ok && b.Part > newest[b.First()].Part {
					newest[b.First()] = b
				}
			}
			seconds := firsts(late, func(ms int64) layout.Bucket {
				first := layout.Delayed(p.Filing.Priority, ms).Overflow(ms)
				if b, ok := newest[first]; ok {
					return b
				}
				return first
			})
			p.measure(seconds, func(_ map[layout.Bucket]bool, err error) { end(err) })
		})
	})
}

// firsts returns the buckets of the times, each once.
func firsts(due []int64, of func(ms int64) layout.Bucket) (all []layout.Bucket) {
	seen := make(map[layout.Bucket]bool)
	for _, ms := range due {
		if b := of(ms); !seen[b] {
			seen[b] = true
			all = append(all, b)
		}
	}
	return all
}

// measure has the handle learn which of the buckets exist, and returns which are full.
func (p *Producer) measure(buckets []layout.Bucket, answer func(full map[layout.Bucket]bool, err error)) {
	full := make(map[layout.Bucket]bool)
	left := len(buckets)
	var failed error
	for _, b := range buckets {
		p.Requests.Exists(p.Into.Bucket(b), func(stat *session.Stat, err error) {
			next := target{bucket: b}
			switch {
			case client.Without(err, session.ErrNoNode) != nil:
				failed = err
			case stat == nil:
				next.fresh = true
			case p.Into.isFull(stat.NumChildren):
				full[b] = true
				next = target{bucket: b.Overflow(b.Begins()), fresh: true}
			}
			p.Into.learnDelayed(b, next)
			if left--; left == 0 {
				answer(full, failed)
			}
		})
	}
}
