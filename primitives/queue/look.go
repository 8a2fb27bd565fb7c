package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/session"
)

// A view is what was seen of a queue.
type view struct {
	places []place          // in order: of the first buckets that have items
	all    bool             // whether places has all of them
	left   []place          // those that were left out because they are claimed
	claims map[string]bool  // the IDs of items that are claimed; nil if that was not asked for
	seen   map[string]int64 // the Pzxid of each directory that was listed, 0 if there was none
}

// A looking lists a queue, bucket by bucket.
type looking struct {
	at       *store
	requests session.Async
	want     int  // how many items are enough
	claims   bool // whether to list the claims, and to leave out what is claimed
	answer   func(view, error)
	view     view
	buckets  []bucket
}

func (st *store) look(requests session.Async, want int, claims bool, answer func(view, error)) {
	l := &looking{at: st, requests: requests, want: want, claims: claims, answer: answer, view: view{seen: make(map[string]int64)}}
	st.mu.Lock()
	checked := st.checked
	st.mu.Unlock()
	switch {
	case st.layout.flat():
		l.list(st.path, l.flat)
	case !checked:
		l.list(st.path, func(names []string) {
			if err := st.check(names); err != nil {
				answer(view{}, err)
				return
			}
			l.begin()
		})
	default:
		l.begin()
	}
}

// list lists a directory, which may be missing.
func (l *looking) list(dir string, next func(names []string)) {
	l.requests.Children(dir, func(names []string, stat *session.Stat, err error) {
		switch {
		case err == nil:
			l.view.seen[dir] = stat.Pzxid
		case errors.Is(err, session.ErrNoNode):
			l.view.seen[dir] = 0
		default:
			l.answer(view{}, err)
			return
		}
		next(names)
	})
}

func (l *looking) flat(names []string) {
	if err := l.at.check(names); err != nil {
		l.answer(view{}, err)
		return
	}
	sortItems(names)
	if l.at.layout == Kazoo {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(kazooPriority(a), kazooPriority(b)) })
	}
	for _, name := range names {
		l.view.places = append(l.view.places, place{name: name})
	}
	l.view.all = true
	l.answer(l.view, nil)
}

func kazooPriority(name string) int {
	n, _ := strconv.Atoi(strings.Split(name, "-")[1])
	return n
}

func (l *looking) begin() {
	if !l.claims {
		l.list(l.at.dir(itemsDir), l.sorted)
		return
	}
	l.list(l.at.dir(claimsDir), func(names []string) {
		l.view.claims = make(map[string]bool, len(names))
		for _, name := range names {
			l.view.claims[name] = true
		}
		l.list(l.at.dir(itemsDir), l.sorted)
	})
}

func (l *looking) sorted(names []string) {
	slices.Sort(names)
	for _, name := range names {
		b, ok := parseBucket(name)
		if !ok || b.priority != 0 && !l.at.any {
			l.answer(view{}, foreign(l.at.dir(itemsDir), name))
			return
		}
		l.buckets = append(l.buckets, b)
	}
	l.next()
}

// next lists the next bucket, unless there are enough items.
func (l *looking) next() {
	if len(l.buckets) == 0 || len(l.view.places) >= l.want {
		l.view.all = len(l.buckets) == 0
		l.answer(l.view, nil)
		return
	}
	b := l.buckets[0]
	l.buckets = l.buckets[1:]
	l.list(l.at.bucket(b), func(names []string) {
		sortItems(names)
		for _, name := range names {
			if !parseItem(name) {
				l.answer(view{}, foreign(l.at.bucket(b), name))
				return
			}
			p := place{b, name}
			if l.view.claims[p.id()] {
				l.view.left = append(l.view.left, p)
				continue
			}
			l.view.places = append(l.view.places, p)
		}
		if next := (bucket{b.priority, b.number + 1}); len(names) == 0 && slices.Contains(l.buckets, next) {
			// Nothing is put into a sealed bucket any more. An unsealed one has another version.
			l.requests.Delete(l.at.bucket(b), 1, func(error) {})
		}
		l.next()
	})
}

// follow calls changed once when a directory of the view may have changed since. The claims are left out unless they
// matter.
func (st *store) follow(requests session.Async, v view, claims bool, changed func()) (cancel func()) {
	var subs []*session.Subscription
	var once sync.Once
	for dir, pzxid := range v.seen {
		if !claims && dir == st.dir(claimsDir) {
			continue
		}
		subs = append(subs, requests.Follow(dir, session.AspectChildren, true, func(r session.Reading, err error) {
			now := int64(0)
			if r.Stat != nil {
				now = r.Stat.Pzxid
			}
			if err != nil || now != pzxid {
				once.Do(changed)
			}
		}))
	}
	return func() {
		for _, sub := range subs {
			sub.Cancel()
		}
	}
}

// lookNow is [store.look], and waits.
func (st *store) lookNow(ctx context.Context, want int, claims bool) (v view, err error) {
	for {
		seen := make(chan view, 1)
		err = await(ctx, func(done func(error)) func() bool {
			st.look(st.session.Async(0), want, claims, func(v view, err error) {
				seen <- v
				done(err)
			})
			return func() bool { return false }
		})
		if err == nil {
			return <-seen, nil
		}
		if !session.Passing(err) || ctx.Err() != nil {
			return view{}, err
		}
	}
}
