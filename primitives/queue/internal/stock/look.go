package stock

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/session"
)

// A View is the result of listing a queue.
type View struct {
	Places []layout.Place      // in order: of the first buckets that have items
	Left   []layout.Place      // items that were left out because they are claimed
	Due    time.Duration       // the age of the session at which the next item that is not due may be; 0 if there is none
	Brief  bool                // set if an item that is put now may be due soon, in a bucket that was listed
	Paused bool                // set if the queue is paused; then it has no places
	Doubts bool                // set if it has no places, and the first of left may be hidden by a node that is no claim
	Seen   map[string]Children // of each directory in which items come and go
	names  []string            // of the buckets
	empty  []string            // the followed directories of items before the first place
}

// A looking lists a queue, bucket by bucket.
type looking struct {
	at       *Store
	receipts *receipt.Writer // from which the server's clock is known
	epoch    int
	requests client.Async
	want     int       // how many items are enough; all also wants items that are not due
	due      bool      // set if only delayed items are wanted that are due
	claims   bool      // set if claimed items are left out
	watches  *Watches  // of directories that are listed before they are needed; nil if none is
	followed *Followed // knows directories, and follows empty ones; nil if there is none
	all      bool      // set if it follows all that it lists
	answer   func(View, error)

	foreseen map[string]*foresight // directories that are being listed before they are needed
	front    string                // the first bucket that has items, or the last that was listed; "" if there are delayed items
	timed    bool                  // set if there are delayed items: which bucket is the first changes with the time

	view    View
	claimed map[string]bool // the IDs of items that are claimed
	buckets []layout.Bucket // that are not listed yet
	held    []layout.Place  // items behind those of the next bucket, perhaps
	now     int64           // by the server's clock, in ms; 0 if it was not needed
	newest  int64           // the newest time that the server has given to a directory
	known   bool            // set when a directory was perhaps not listed because it is followed
	asked   bool            // set when a directory was listed. While set, all that the server knew before is in what is followed
	again   bool            // set when what is followed has changed meanwhile
}

// All wants every item, whether or not it is due.
const All = math.MaxInt

// Look lists as many items as are wanted, or a few more. With claims it leaves out claimed items.
func (st *Store) Look(rs *receipt.Writer, epoch, want int, claims bool, answer func(View, error)) {
	st.looking(rs, epoch, answer, looking{want: want, claims: claims})
}

// LookAgain is Look without claimed items, for a client that has waited for a change. It lists at
// once all directories that the look before it has listed, and watches them: so a client that waits
// for the next change sends no request.
func (st *Store) LookAgain(w *Watches, rs *receipt.Writer, epoch, want int, answer func(View, error)) {
	st.looking(rs, epoch, answer, looking{want: want, claims: true, watches: w})
}

// Watches are the watches of the newest look of a client.
type Watches struct {
	mu   sync.Mutex
	subs []client.Subscription
}

// End ends the watches.
func (w *Watches) End() { w.replace(nil) }

func (w *Watches) replace(subs []client.Subscription) {
	w.mu.Lock()
	before := w.subs
	w.subs = subs
	w.mu.Unlock()
	for _, sub := range before {
		sub.Cancel()
	}
}

// BucketsOf returns the buckets with the names, in order.
func (st *Store) BucketsOf(names []string) (buckets []layout.Bucket, err error) {
	for _, name := range names {
		b, ok := layout.ParseBucket(name)
		switch {
		case name == layout.PausedNode:
			continue
		case !ok || b.Priority != 0 && !st.Any:
			return nil, layout.Foreign(st.Dir(layout.ItemsDir), name)
		}
		buckets = append(buckets, b)
	}
	slices.SortFunc(buckets, layout.Bucket.Compare)
	return buckets, nil
}

// PlacesOf returns the places of the items with the names in a bucket, in order.
func (st *Store) PlacesOf(b layout.Bucket, names []string) (places []layout.Place, err error) {
	names = slices.Clone(names) // they may belong to the session
	layout.SortItems(names)
	if b.After {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(layout.DueOf(a), layout.DueOf(b)) })
	}
	for _, name := range names {
		if !layout.ParseItem(name) {
			return nil, layout.Foreign(st.Bucket(b), name)
		}
		places = append(places, layout.Place{Bucket: b, Name: name})
	}
	return places, nil
}

// LookFollowing is Look, and lists only what may have changed since the last time.
func (st *Store) LookFollowing(f *Followed, rs *receipt.Writer, epoch, want int, claims bool, answer func(View, error)) {
	st.looking(rs, epoch, answer, looking{want: want, claims: claims, followed: f})
}

// LookFollowingAll is LookFollowing without claimed items. It follows every directory that it
// lists.
func (st *Store) LookFollowingAll(f *Followed, rs *receipt.Writer, epoch, want int, answer func(View, error)) {
	st.looking(rs, epoch, answer, looking{want: want, claims: true, followed: f, all: true})
}

// LookDue lists the delayed items that are due and not claimed. If there are none this takes a
// request, and one for each bucket that may have such items: in most queues there is none, or one.
// It does not list other items, whatever their priority is.
func (st *Store) LookDue(rs *receipt.Writer, epoch int, answer func(View, error)) {
	st.looking(rs, epoch, answer, looking{want: All, due: true})
}

func (st *Store) looking(rs *receipt.Writer, epoch int, answer func(View, error), how looking) {
	l := &how
	l.at, l.receipts, l.epoch, l.requests, l.answer = st, rs, epoch, st.Session.Async(epoch), answer
	l.view.Seen = make(map[string]Children)
	switch {
	case !st.IsChecked():
		st.Inspect(l.requests, func(err error) {
			if err != nil && !errors.Is(err, session.ErrNoNode) {
				answer(View{}, err)
				return
			}
			l.begin()
		})
	default:
		l.begin()
	}
}

// A foresight is the list of a directory that was asked for before it was needed. The answer comes
// on the goroutine of the session, and a look may begin on another.
type foresight struct {
	mu     sync.Mutex
	answer func(next func([]string, *session.Stat, error)) // nil until it is there
	next   func([]string, *session.Stat, error)            // nil until it is needed
	old    bool                                            // set when the directory has changed since
}

// tell follows the list, and then a change.
func (f *foresight) tell(names []string, stat *session.Stat, err error) {
	f.mu.Lock()
	next := f.next
	if f.old = f.answer != nil; f.old {
		next = nil
	}
	f.answer = func(next func([]string, *session.Stat, error)) { next(names, stat, err) }
	f.mu.Unlock()
	if next != nil {
		next(names, stat, err)
	}
}

// foresee lists directories before they are needed, in the order in which they will be: the server
// reads them in that order too, and a look of several directories takes one round trip.
func (l *looking) foresee(dirs ...string) {
	l.foreseen = make(map[string]*foresight, len(dirs))
	var subs []client.Subscription
	for _, dir := range dirs {
		f := new(foresight)
		l.foreseen[dir] = f
		subs = append(subs, l.requests.FollowOnce(dir, session.AspectChildren, func(r session.Reading, err error) {
			if err == nil && r.Stat == nil { // another subscription of the session waits for the directory
				err = session.ErrNoNode
			}
			f.tell(r.Names, r.Stat, err)
		}))
	}
	l.watches.replace(subs)
}

// list lists a directory. A missing directory has no nodes.
func (l *looking) list(dir string, next func(names []string)) {
	then := func(names []string, stat *session.Stat, err error) {
		l.asked = true
		l.listed(dir, next)(names, stat, err)
	}
	f := l.foreseen[dir]
	delete(l.foreseen, dir)
	if f == nil {
		l.requests.Children(dir, then)
		return
	}
	f.mu.Lock()
	answer, old := f.answer, f.old
	f.next = then
	f.mu.Unlock()
	switch {
	case old:
		l.requests.Children(dir, then)
	case answer != nil:
		answer(then)
	}
}

func (l *looking) listed(dir string, next func(names []string)) func([]string, *session.Stat, error) {
	return func(names []string, stat *session.Stat, err error) {
		switch {
		case err == nil:
			l.view.Seen[dir] = ChildrenOf(stat)
			l.newest = max(l.newest, stat.Ctime, stat.Mtime)
		case errors.Is(err, session.ErrNoNode):
			l.view.Seen[dir] = Children{}
		default:
			l.answer(View{}, err)
			return
		}
		next(names)
	}
}

// follow is list, of a directory that is followed from then on, or is followed already.
func (l *looking) follow(dir string, next func(names []string)) {
	if l.followed == nil {
		l.list(dir, next)
		return
	}
	if names, c, ok := l.followed.get(dir); ok {
		l.known, l.view.Seen[dir] = true, c
		next(names)
		return
	}
	l.followed.follow(l.requests, dir, func(names []string, stat *session.Stat, err error) {
		if err != nil { // a read for another handle may have been older than the directory
			l.list(dir, next)
			return
		}
		l.known = true // perhaps by such a read
		l.listed(dir, next)(names, stat, err)
	})
}

// listOrFollow is list, or follow.
func (l *looking) listOrFollow(dir string, follows bool, next func(names []string)) {
	if follows {
		l.follow(dir, next)
	} else {
		l.list(dir, next)
	}
}

func (l *looking) begin() {
	items := func() { l.follow(l.at.Dir(layout.ItemsDir), l.sorted) }
	if !l.claims {
		items()
		return
	}
	if front := l.at.lastFront(); l.watches != nil && front != "" {
		l.foresee(l.at.Dir(layout.ClaimsDir), l.at.Dir(layout.ItemsDir), front)
	}
	l.listClaims(items)
}

// listClaims lists the claims.
func (l *looking) listClaims(next func()) {
	l.listOrFollow(l.at.Dir(layout.ClaimsDir), l.all, func(names []string) {
		l.claimed = make(map[string]bool, len(names))
		for _, name := range names {
			l.claimed[name] = true
		}
		next()
	})
}

func (l *looking) sorted(names []string) {
	buckets, err := l.at.BucketsOf(names)
	if err != nil {
		l.answer(View{}, err)
		return
	}
	l.view.names, l.view.empty = names, nil
	l.view.Paused = slices.Contains(names, layout.PausedNode) && (l.want != All || l.due)
	l.buckets = slices.DeleteFunc(buckets, func(b layout.Bucket) bool { return l.view.Paused || l.due && !b.After })
	l.timed = slices.ContainsFunc(l.buckets, func(b layout.Bucket) bool { return b.After })
	if !l.timed || l.want == All && !l.due {
		l.next()
		return
	}
	l.receipts.Glance(l.epoch, func(low, _ int64, err error) {
		switch {
		case err == nil:
			l.now = low
		case session.Passing(err) || session.InDoubt(err) || client.Over(err):
			l.answer(View{}, err)
			return
		default: // the client may not write
			l.now = max(l.newest, l.at.Session.Deadline(0).UnixMilli())
		}
		l.next()
	})
}

// next lists the next bucket, unless there are enough items.
func (l *looking) next() {
	l.release()
	if len(l.buckets) == 0 || len(l.view.Places) >= l.want {
		l.done()
		return
	}
	b := l.buckets[0]
	l.buckets = l.buckets[1:]
	switch dir := l.at.Bucket(b); {
	case b.After && b.Begins() > l.now && (l.want != All || l.due):
		l.await(b.Begins())
		l.next()
	case b.After:
		l.view.Brief = l.view.Brief || len(l.view.Places)+len(l.held) == 0
		l.listOrFollow(dir, l.all, func(names []string) { l.bucket(b, names) })
	default:
		l.plain(b, l.all || l.followed != nil && l.at.Any && l.followed.expects(dir))
	}
}

// plain lists a bucket whose items are not delayed. An empty one is followed, as a more urgent item
// may be put into it. What has items is not: it changes with each.
func (l *looking) plain(b layout.Bucket, follows bool) {
	dir := l.at.Bucket(b)
	l.listOrFollow(dir, follows, func(names []string) {
		first := l.followed != nil && l.at.Any && len(l.view.Places)+len(l.held) == 0
		switch {
		case l.all && len(names) > 0:
		case follows && len(names) > 0:
			l.followed.forget(dir)
		case len(names) > 0 || !first || l.isSealed(b):
		case !follows:
			l.plain(b, true)
			return
		default:
			l.view.empty = append(l.view.empty, dir)
		}
		l.bucket(b, names)
	})
}

// isSealed reports whether a bucket has a successor. Nothing is put into it any more.
func (l *looking) isSealed(b layout.Bucket) bool {
	return !b.After && slices.Contains(l.buckets, layout.Bucket{Priority: b.Priority, Number: b.Number + 1})
}

// bucket adds the items of a bucket to the view.
func (l *looking) bucket(b layout.Bucket, names []string) {
	dir := l.at.Bucket(b)
	clear(l.foreseen) // what was listed before an earlier bucket may be older than that
	if len(l.view.Places)+len(l.held)+len(l.view.Left) == 0 && !l.timed {
		l.front = dir
	}
	places, err := l.at.PlacesOf(b, names)
	if err != nil {
		l.answer(View{}, err)
		return
	}
	behind := l.held
	l.held = nil
	for _, p := range places {
		l.found(p)
	}
	l.held = append(l.held, behind...)
	switch {
	case len(names) > 0:
	case l.isSealed(b):
		l.requests.Delete(dir, 1, func(error) {}) // an unsealed one has another version
	case b.After && b.Ends() <= l.now:
		l.requests.Delete(dir, 0, func(error) {}) // a producer that is late makes it again
	}
	l.next()
}

// done answers. What is followed counts if the server had no newer news after the call was begun:
// so at least one directory is listed.
func (l *looking) done() {
	switch {
	case !l.known || l.again:
	case !l.asked:
		l.list(l.at.Dir(layout.ItemsDir), func([]string) { l.done() })
		return
	case !l.at.Stands(l.followed, &l.view):
		l.again = true
		l.view.Places, l.view.Left, l.view.Due, l.view.Brief, l.held = nil, nil, 0, false, nil
		l.begin()
		return
	}
	if len(l.view.Left) == 0 {
		delete(l.view.Seen, l.at.Dir(layout.ClaimsDir)) // nothing can be given back
	}
	l.at.learnFront(l.front)
	l.claimedDue()
}

// claimedDue leaves out claimed items, if only due ones were wanted. Mostly there are none, and the
// claims need not be listed.
func (l *looking) claimedDue() {
	if !l.due || l.claimed != nil || len(l.view.Places) == 0 {
		l.give()
		return
	}
	found := l.view.Places
	l.view.Places = nil
	l.listClaims(func() {
		for _, p := range found {
			l.found(p)
		}
		l.release()
		l.give()
	})
}

// give answers with the view. If the first claimed item is the same as in the last list, its claim
// is looked at, once: a persistent node would hide the item for ever.
func (l *looking) give() {
	if l.claimed == nil || !l.at.hides(&l.view) {
		l.answer(l.view, nil)
		return
	}
	p := l.view.Left[0]
	l.requests.Exists(l.at.Claim(p.ID()), func(stat *session.Stat, err error) {
		switch {
		case err != nil:
		case stat != nil && stat.EphemeralOwner == 0:
			err = layout.Foreign(l.at.Dir(layout.ClaimsDir), p.ID())
		default:
			l.at.trust(p)
		}
		if err != nil {
			l.view = View{}
		}
		l.answer(l.view, err)
	})
}

// hides notes the first claimed item of a view, and reports whether its claim is to be looked at.
func (st *Store) hides(v *View) (again bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(v.Left) == 0 {
		st.hidden = hidden{}
		return false
	}
	id := v.Left[0].ID()
	again = id == st.hidden.id && !st.hidden.proper
	if id != st.hidden.id {
		st.hidden = hidden{id: id}
		v.Doubts = len(v.Places) == 0
	}
	return again
}

// trust notes that the claim of an item is one.
func (st *Store) trust(p layout.Place) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.hidden.id == p.ID() {
		st.hidden.proper = true
	}
}

// Stands reports whether no item was put before the places of a view since. The zero View is no
// list, and never stands.
func (st *Store) Stands(f *Followed, v *View) bool {
	items := st.Dir(layout.ItemsDir)
	names, c, ok := f.get(items)
	if !ok || v.Seen == nil || v.Paused != slices.Contains(names, layout.PausedNode) {
		return false
	}
	if c != v.Seen[items] {
		if !st.behind(v, names) {
			return false
		}
		v.Seen[items], v.names = c, names
	}
	for _, dir := range v.empty {
		if _, c, ok := f.get(dir); !ok || c != v.Seen[dir] {
			return false
		}
	}
	return true
}

// behind reports whether buckets that were not there when a view was made come after its first
// place.
func (st *Store) behind(v *View, names []string) bool {
	known := make(map[string]bool, len(v.names))
	for _, name := range v.names {
		known[name] = true
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		if known[name] {
			return false
		}
		b, ok := layout.ParseBucket(name)
		return !ok || len(v.Places) == 0 || b.Compare(v.Places[0].Bucket) < 0
	})
}

func (l *looking) found(p layout.Place) {
	switch due := layout.DueOf(p.Name); {
	case l.claimed[p.ID()]:
		l.view.Left = append(l.view.Left, p)
	case p.Bucket.After && due > l.now && (l.want != All || l.due):
		l.await(due)
	default:
		l.held = append(l.held, p)
	}
}

// release adds the items to the view that come before those of the buckets that are not listed yet.
func (l *looking) release() {
	n := len(l.held)
	if len(l.buckets) > 0 {
		n = sort.Search(n, func(i int) bool { return l.held[i].Turn().Compare(l.buckets[0]) > 0 })
	}
	l.view.Places = append(l.view.Places, l.held[:n]...)
	l.held = l.held[n:]
}

// await notes that there may be an item at the time. The server's clock is read again after an hour
// at the latest.
func (l *looking) await(due int64) {
	at := l.at.Session.Age() + receipt.Until(min(due-l.now, 60*layout.Minute))
	if l.view.Due == 0 || at < l.view.Due {
		l.view.Due = at
	}
}

// Follow calls changed once when a directory of the view may have changed since.
func (st *Store) Follow(requests client.Async, v View, changed func()) (cancel owned.Func) {
	var subs []client.Subscription
	var once sync.Once
	for _, dir := range slices.Sorted(maps.Keys(v.Seen)) {
		before := v.Seen[dir]
		tell := func(r session.Reading, err error) {
			if err != nil || ChildrenOf(r.Stat) != before {
				once.Do(changed)
			}
		}
		if before == (Children{}) {
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

// AskAgain waits for the answer to a question, which is asked again while its error passes.
func AskAgain[T any](ctx context.Context, ask func(answer func(T, error))) (none T, err error) {
	var pauses owned.Set
	for {
		given := make(chan T, 1)
		err = procedure.AwaitAnswer(ctx, func(done func(error)) {
			ask(func(v T, err error) {
				given <- v
				done(err)
			})
		})
		if err == nil {
			return <-given, nil
		}
		if !session.Passing(err) || ctx.Err() != nil {
			return none, err
		}
		if err := pauses.Wait(ctx, err); err != nil {
			return none, err
		}
	}
}
