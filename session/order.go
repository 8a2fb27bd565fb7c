package session

import "sync"

// An order brings what happens on many goroutines into one sequence: the order
// of the wire. A place in it can be taken before it is known what stands there;
// nothing behind an empty place is delivered.
type order struct {
	mu     sync.Mutex
	places []*place
	ready  chan struct{} // holds a value while there may be something to take

	detached bool // nobody takes any more: who fills a place delivers
	busy     bool // somebody does
}

type place struct{ do func() }

func newOrder() *order { return &order{ready: make(chan struct{}, 1)} }

// put appends do.
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
	if o.detached {
		o.deliver()
		return
	}
	if o.places[0].do != nil {
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

// detach is called by the one who takes when it stops: from then on what is put is
// done at once, and still one after the other.
func (o *order) detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.detached = true
	o.deliver()
}

func (o *order) deliver() {
	if o.busy {
		return
	}
	o.busy = true
	for len(o.places) > 0 && o.places[0].do != nil {
		p := o.places[0]
		o.places = o.places[1:]
		o.mu.Unlock()
		p.do()
		o.mu.Lock()
	}
	o.busy = false
}

// take removes what can be delivered.
func (o *order) take() []*place {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.places) && o.places[n].do != nil {
		n++
	}
	taken := o.places[:n:n]
	o.places = o.places[n:]
	if len(o.places) == 0 {
		o.places = nil
	}
	return taken
}
