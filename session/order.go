package session

import "sync"

// An order brings what happens on many goroutines into one sequence: the order
// of the wire. A place in it can be taken before it is known what stands there;
// nothing behind an empty place is done. What stands in it is done by one goroutine
// at a time, one after the other.
type order struct {
	mu     sync.Mutex
	places []*place
	busy   bool          // somebody is doing what stands here
	ready  chan struct{} // holds a value while there may be something to do
	before func()        // done before each

	detached bool // nobody waits for ready any more
}

type place struct{ do func() }

func newOrder(before func()) *order {
	return &order{ready: make(chan struct{}, 1), before: before}
}

// put appends do. It does not do it: the caller may hold locks.
func (o *order) put(do func()) { o.fill(o.reserve(), do) }

// reserve takes the next place.
func (o *order) reserve() *place {
	p := new(place)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.places = append(o.places, p)
	return p
}

// fill says what stands at a place.
func (o *order) fill(p *place, do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.do = do
	if !o.busy && o.places[0].do != nil {
		if o.detached {
			go o.run()
			return
		}
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

// detach is called by the one who waits for ready when it stops.
func (o *order) detach() {
	o.mu.Lock()
	o.detached = true
	o.mu.Unlock()
	o.run()
}

// run does what there is to do, unless somebody else is at it. It saves a change of
// goroutines over waiting for the loop. The caller holds no locks.
func (o *order) run() {
	o.mu.Lock()
	if o.busy {
		o.mu.Unlock()
		return
	}
	o.busy = true
	for len(o.places) > 0 && o.places[0].do != nil {
		p := o.places[0]
		o.places[0] = nil
		if o.places = o.places[1:]; len(o.places) == 0 {
			o.places = nil
		}
		o.mu.Unlock()
		o.before()
		p.do()
		o.mu.Lock()
	}
	o.busy = false
	o.mu.Unlock()
}
