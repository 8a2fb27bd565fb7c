package taking

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// An Outlet is where the calls of a handle take items.
type Outlet struct {
	*stock.Store
	live     *session.Session // nil in a model
	receipts *receipt.Writer
	listed   listed
	Followed stock.Followed
	batches  batches
}

// NewOutlet returns the outlet of a queue.
func NewOutlet(st *stock.Store, rs *receipt.Writer) *Outlet {
	o := &Outlet{Store: st, receipts: rs}
	o.batches.store, o.batches.receipts, o.batches.Rule = st, rs, &o.batches
	o.listed.tried, o.listed.gone = make(placeSet), make(placeSet)
	return o
}

// Serve has the outlet serve the calls of users of the session, which begin anywhere among rivals.
func (o *Outlet) Serve(live *session.Session) { o.live, o.listed.rivalry.Chance = live, rand.Uint64() }

// MostTaken returns how many items, of n, one transaction can take.
func (o *Outlet) MostTaken(n int) int {
	if n == 1 {
		return n
	}
	item := o.TakeOps(layout.LongestPlace(o.receipts.NewID()), 1)
	rest := o.Session.Room(o.receipts.Longest())
	each := rest - o.Session.Room(append(item, o.receipts.Longest())...)
	return max(1, min(n, rest/each, mostTaken))
}

// mostTaken is the greatest number of items that one transaction takes.
const mostTaken = layout.BucketSize / 2

// A listed keeps the places that the calls of a handle have listed, and not tried yet.
type listed struct {
	mu      sync.Mutex
	view    stock.View     // the newest list
	at      time.Duration  // the age of the session when it was made
	places  []layout.Place // of the view, in the order in which they are tried
	tried   placeSet       // that were picked, and may be there yet
	gone    placeSet       // of items that calls have taken since the list that is under way was begun
	asking  []question     // for a new list
	surveys bool           // set while a list is under way
	shared  bool           // set if other calls of the handle try the places of the list too
	rivalry layout.Rivalry // with other clients; where to begin in a list
}

// A question is a call's request for a list.
type question struct {
	want   int
	claims bool // whether items that are claimed are left out
	answer func(v stock.View, own bool, err error)
}

const (
	// oldest is the greatest age of a list from which calls pick: they may overlook items that went
	// back.
	oldest = 10 * time.Second

	// oldestDue is oldest while items that are put may be due soon.
	oldestDue = 500 * time.Millisecond
)

// pick returns the next places, at most n. Own is set if the list answers the call: nothing has
// come before it since the call was begun, as far as the session's server knew. Shared is set if
// other calls of the handle try the places too.
func (o *Outlet) pick(n int, own bool) (places []layout.Place, shared bool) {
	l := &o.listed
	l.mu.Lock()
	defer l.mu.Unlock()
	if !own && !o.current() {
		l.drop(nil)
	}
	n = min(n, len(l.places))
	if !own && o.Any { // more items of the first priority may have come, and precede the next
		n = min(n, layout.Alike(l.places, l.view.Places))
	}
	places = slices.Clone(l.places[:n])
	if l.places = l.places[n:]; len(l.places) == 0 && n > 0 {
		l.rivalry.UseUp()
		o.UseUp(l.view)
	}
	l.tried.add(places)
	return places, l.shared
}

// UseUp notes that the items of a view are taken. Their buckets are expected to be empty when they
// are listed again.
func (o *Outlet) UseUp(v stock.View) {
	if !o.Any {
		return
	}
	used := make(map[string]bool)
	for _, p := range v.Places {
		used[o.Bucket(p.Bucket)] = true
	}
	o.Followed.UseUp(used)
}

// isCurrent reports whether nothing has come before the places of the list since.
func (o *Outlet) isCurrent() bool {
	o.listed.mu.Lock()
	defer o.listed.mu.Unlock()
	return o.current()
}

// current is isCurrent, with the list locked.
func (o *Outlet) current() bool {
	l := &o.listed
	age := o.Session.Age()
	most := oldest
	if l.view.Brief {
		most = oldestDue
	}
	if age-l.at > most || l.view.Due > 0 && age >= l.view.Due {
		return false
	}
	return o.Stands(&o.Followed, &l.view)
}

// settle notes that the call that has picked places is done with them, and whether their items are
// gone.
func (l *listed) settle(places []layout.Place, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone && l.surveys { // the list may have seen them
		l.gone.add(places)
	}
	l.tried.remove(places)
}

// A placeSet is a set of places.
type placeSet map[layout.Place]bool

func (s placeSet) add(places []layout.Place) {
	for _, p := range places {
		s[p] = true
	}
}

func (s placeSet) remove(places []layout.Place) {
	for _, p := range places {
		delete(s, p)
	}
}

// lacks returns those of the places that are not in the set.
func (s placeSet) lacks(places []layout.Place) []layout.Place {
	if len(s) == 0 {
		return places
	}
	return slices.DeleteFunc(slices.Clone(places), func(p layout.Place) bool { return s[p] })
}

// putBack undoes the pick of places.
func (l *listed) putBack(places []layout.Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried.remove(places)
	if len(l.view.Places) > 0 { // else another call has found the queue empty since
		back := make(placeSet, len(places))
		back.add(places)
		l.places = slices.Concat(places, back.lacks(l.places))
	}
}

// forget forgets the list, for a call that has picked places and has not taken them. With rivals
// another client has an item of it, and the others may be gone too.
func (l *listed) forget(picked []layout.Place, rivals bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rivals {
		l.rivalry.Meet()
	}
	l.drop(picked)
}

// drop is forget, with the list locked.
func (l *listed) drop(picked []layout.Place) {
	l.rivalry.Leave(slices.Concat(picked, l.places))
	l.places = nil
}

// keep keeps what was listed, but for the places that other calls try, unless there are no others.
// The list was made at an age of the session.
func (o *Outlet) keep(v stock.View) {
	l := &o.listed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view, l.at = v, o.Session.Age()
	there := l.gone.lacks(v.Places)
	l.places = l.tried.lacks(there)
	if l.shared = len(l.places) == 0; l.shared {
		l.places = there
	}
	l.places = l.rivalry.Order(l.places)
}

// survey lists the queue for a call, which picks from the list then. One list is for all calls that
// have asked before it was begun. Calls that have asked since may pick from it too, but an empty
// list says nothing to them. The answer says whether the list is the call's own.
func (o *Outlet) survey(want int, claims bool, answer func(v stock.View, own bool, err error)) {
	l := &o.listed
	l.mu.Lock()
	l.asking = append(l.asking, question{want, claims, answer})
	l.mu.Unlock()
	o.surveyNext()
}

// surveyNext begins a list for the calls that ask, unless one is under way.
func (o *Outlet) surveyNext() {
	l := &o.listed
	l.mu.Lock()
	if l.surveys || len(l.asking) == 0 {
		l.mu.Unlock()
		return
	}
	asked := l.asking
	l.asking, l.surveys = nil, true
	clear(l.gone)
	l.mu.Unlock()
	want, claims := 0, false
	for _, q := range asked {
		want += q.want
		claims = claims || q.claims
	}
	o.LookFollowing(&o.Followed, o.receipts, 0, want, claims, func(v stock.View, err error) {
		o.keep(v)
		others := l.surveyed(len(v.Places) > 0, claims)
		for _, q := range asked {
			q.answer(v, true, err)
		}
		for _, q := range others {
			q.answer(v, false, err)
		}
		o.surveyNext()
	})
}

// surveyed ends a list, and returns those that have asked since and can pick from it.
func (l *listed) surveyed(any, claims bool) (others []question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.surveys = false
	if !any {
		return nil
	}
	waits := func(q question) bool { return q.claims && !claims }
	others = slices.DeleteFunc(slices.Clone(l.asking), waits)
	l.asking = slices.DeleteFunc(l.asking, func(q question) bool { return !waits(q) })
	return others
}
