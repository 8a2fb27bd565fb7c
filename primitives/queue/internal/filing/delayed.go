package filing

import (
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// assignAnew finds out which buckets of the times exist, and which are full.
func (d *Destination) assignAnew(requests client.Async, priority int32, due []int64, answer func(error)) {
	minutes := firsts(due, func(ms int64) layout.Bucket { return layout.Delayed(priority, ms) })
	d.measure(requests, minutes, func(full map[layout.Bucket]bool, err error) {
		late := slices.DeleteFunc(slices.Clone(due), func(ms int64) bool { return !full[layout.Delayed(priority, ms)] })
		if err != nil || len(late) == 0 {
			answer(err)
			return
		}
		requests.Children(d.Dir(layout.ItemsDir), func(names []string, _ *session.Stat, err error) {
			if err = client.Without(err, session.ErrNoNode); err != nil {
				answer(err)
				return
			}
			newest := make(map[layout.Bucket]layout.Bucket) // of each second
			for _, name := range names {
				if b, ok := layout.ParseBucket(name); ok && b.Part > newest[b.First()].Part {
					newest[b.First()] = b
				}
			}
			seconds := firsts(late, func(ms int64) layout.Bucket {
				first := layout.Delayed(priority, ms).Overflow(ms)
				if b, ok := newest[first]; ok {
					return b
				}
				return first
			})
			d.measure(requests, seconds, func(_ map[layout.Bucket]bool, err error) { answer(err) })
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
func (d *Destination) measure(requests client.Async, buckets []layout.Bucket, answer func(full map[layout.Bucket]bool, err error)) {
	full := make(map[layout.Bucket]bool)
	left := len(buckets)
	var failed error
	for _, b := range buckets {
		requests.Exists(d.Bucket(b), func(stat *session.Stat, err error) {
			next := target{bucket: b}
			switch {
			case client.Without(err, session.ErrNoNode) != nil:
				failed = err
			case stat == nil:
				next.fresh = true
			case d.isFull(stat.NumChildren):
				full[b] = true
				next = target{bucket: b.Overflow(b.Begins()), fresh: true}
			}
			d.learnDelayed(b, next)
			if left--; left == 0 {
				answer(full, failed)
			}
		})
	}
}
