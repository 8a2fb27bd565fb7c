package queue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// A view is the result of listing a queue.
type view struct {
	places []place             // in order: of the first buckets that have items
	later  []place             // items that are not due yet, of the listed buckets
	left   []place             // items that were left out because they are claimed
	due    time.Duration       // the age of the session at which the next item that is not due may be; 0 if there is none
	seen   map[string]children // of each directory in which items come and go
}

// children shows whether a directory has the same children as before: each creation sets the Pzxid,
// and a deletion without a creation leaves fewer. On ClickHouse Keeper a deletion alone does not
// set the Pzxid. The zero value stands for a directory that does not exist.
type children struct {
	pzxid int64
	count int32
}

func childrenOf(stat *session.Stat) children {
	if stat == nil {
		return children{}
	}
	return children{stat.Pzxid, stat.NumChildren}
}

// A looking lists a queue, bucket by bucket.
type looking struct {
	at       *store
	receipts *receipts // from which the server's clock is known
	epoch    int
	requests client.Async
	want     int // how many items are enough; all also wants items that are not due
	claims   bool
	answer   func(view, error)
	view     view
	claimed  map[string]bool // the IDs of items that are claimed
	buckets  []bucket        // that are not listed yet
	held     []place         // items behind those of the next bucket, perhaps
	now      int64           // by the server's clock, in ms; 0 if it was not needed
}

// all wants every item, whether or not it is due.
const all = math.MaxInt

// look lists as many items as are wanted, or a few more. With claims it leaves out claimed items.
func (st *store) look(rs *receipts, epoch, want int, claims bool, answer func(view, error)) {
	l := &looking{
		at: st, receipts: rs, epoch: epoch, requests: st.session.Async(epoch), want: want, claims: claims, answer: answer,
		view: view{seen: make(map[string]children)},
	}
	switch {
	case st.layout.flat():
		l.list(st.path, l.flat)
	case !st.known(0).checked:
		l.requests.Children(st.path, func(names []string, _ *session.Stat, err error) {
			if err == nil {
				err = st.check(names)
			}
			if err != nil && !errors.Is(err, session.ErrNoNode) {
				answer(view{}, err)
				return
			}
			l.begin()
		})
	default:
		l.begin()
	}
}

// list lists a directory. A missing directory has no nodes.
func (l *looking) list(dir string, next func(names []string)) {
	l.requests.Children(dir, func(names []string, stat *session.Stat, err error) {
		switch {
		case err == nil:
			l.view.seen[dir] = childrenOf(stat)
		case errors.Is(err, session.ErrNoNode):
			l.view.seen[dir] = children{}
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
	l.answer(l.view, nil)
}

func kazooPriority(name string) int {
	n, _ := strconv.Atoi(strings.Split(name, "-")[1])
	return n
}

func (l *looking) begin() {
	items := func() { l.list(l.at.dir(itemsDir), l.sorted) }
	if !l.claims {
		items()
		return
	}
	l.list(l.at.dir(claimsDir), func(names []string) {
		l.claimed = make(map[string]bool, len(names))
		for _, name := range names {
			l.claimed[name] = true
		}
		items()
	})
}

func (l *looking) sorted(names []string) {
	timed := false
	for _, name := range names {
		b, ok := parseBucket(name)
		if !ok || b.priority != 0 && !l.at.any {
			l.answer(view{}, foreign(l.at.dir(itemsDir), name))
			return
		}
		timed = timed || b.after
		l.buckets = append(l.buckets, b)
	}
	slices.SortFunc(l.buckets, bucket.compare)
	if !timed || l.want == all {
		l.next()
		return
	}
	l.receipts.now(l.epoch, func(low, _ int64, err error) {
		if err != nil {
			l.answer(view{}, err)
			return
		}
		l.now = low
		l.next()
	})
}

// next lists the next bucket, unless there are enough items.
func (l *looking) next() {
	l.release()
	if len(l.buckets) == 0 || len(l.view.places) >= l.want {
		if len(l.view.left) == 0 {
			delete(l.view.seen, l.at.dir(claimsDir)) // nothing can be given back
		}
		l.answer(l.view, nil)
		return
	}
	b := l.buckets[0]
	l.buckets = l.buckets[1:]
	if b.after && b.begins() > l.now && l.want != all {
		l.await(b.begins())
		l.next()
		return
	}
	l.list(l.at.bucket(b), func(names []string) {
		for _, name := range names {
			if !parseItem(name) {
				l.answer(view{}, foreign(l.at.bucket(b), name))
				return
			}
		}
		sortItems(names)
		if b.after {
			slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(dueOf(a), dueOf(b)) })
		}
		behind := l.held
		l.held = nil
		for _, name := range names {
			l.found(place{b, name})
		}
		l.held = append(l.held, behind...)
		if next := (bucket{priority: b.priority, number: b.number + 1}); !b.after && len(names) == 0 && slices.Contains(l.buckets, next) {
			// Nothing is put into a sealed bucket any more. An unsealed one has another version.
			l.requests.Delete(l.at.bucket(b), 1, func(error) {})
		} else if b.after && len(names) == 0 && b.ends() <= l.now {
			l.requests.Delete(l.at.bucket(b), 0, func(error) {})
		}
		l.next()
	})
}

func (l *looking) found(p place) {
	switch due := dueOf(p.name); {
	case l.claimed[p.id()]:
		l.view.left = append(l.view.left, p)
	case p.bucket.after && due > l.now && l.want != all:
		l.view.later = append(l.view.later, p)
		l.await(due)
	default:
		l.held = append(l.held, p)
	}
}

// release adds the items to the view that come before those of the buckets that are not listed yet.
func (l *looking) release() {
	n := len(l.held)
	if len(l.buckets) > 0 {
		n = sort.Search(n, func(i int) bool { return l.held[i].turn().compare(l.buckets[0]) > 0 })
	}
	l.view.places = append(l.view.places, l.held[:n]...)
	l.held = l.held[n:]
}

// await notes that there may be an item at the time. The server's clock is read again after an hour
// at the latest.
func (l *looking) await(due int64) {
	at := l.at.session.Age() + time.Duration(min(due-l.now, 60*minute))*time.Millisecond
	if l.view.due == 0 || at < l.view.due {
		l.view.due = at
	}
}

// follow calls changed once when a directory of the view may have changed since.
func (st *store) follow(requests client.Async, v view, changed func()) (cancel owned.Func) {
	var subs []client.Subscription
	var once sync.Once
	for _, dir := range slices.Sorted(maps.Keys(v.seen)) {
		before := v.seen[dir]
		tell := func(r session.Reading, err error) {
			if err != nil || childrenOf(r.Stat) != before {
				once.Do(changed)
			}
		}
		if before == (children{}) {
			subs = append(subs, requests.Follow(dir, session.AspectChildren, true, tell))
		} else {
			subs = append(subs, requests.FollowOnce(dir, session.AspectChildren, tell)) // the next look reads it
		}
	}
	return func() {
		for _, sub := range subs {
			sub.Cancel()
		}
	}
}

// lookNow is [store.look], and waits.
func (b *base) lookNow(ctx context.Context, want int, claims bool) (v view, err error) {
	var pauses owned.Set
	for {
		seen := make(chan view, 1)
		err = procedure.AwaitAnswer(ctx, func(done func(error)) {
			b.look(b.receipts, 0, want, claims, func(v view, err error) {
				seen <- v
				done(err)
			})
		})
		if err == nil {
			return <-seen, nil
		}
		if !session.Passing(err) || ctx.Err() != nil {
			return view{}, err
		}
		if err := pauses.Wait(ctx, err); err != nil {
			return view{}, err
		}
	}
}
