package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/taking"
	"github.com/zkactors/zkactors/session"
)

// This file has producers, takers and consumers work on one queue in the model of ZooKeeper, with
// their machines and performers, while requests and replies are lost or come late, sessions expire,
// clients crash, and callers leave.

const (
	modelQueue = "/q"
	modelDead  = "/dead"
)

// A scene is who works on a queue.
type scene struct {
	name      string
	producers int
	puts      int // of each producer
	takers    int
	takes     int // of each taker
	waits     bool
	operators int  // that redrive a dead letter, if they see one
	pauses    bool // they pause the queue instead, and resume it
	together  int  // items that one call takes at most; 0 for 1
	consumers int
	prefetch  int
	most      int  // items in the queue
	attempts  int  // before an item is dead
	items     int  // that are there at the start
	leaves    int  // callers that leave
	callers   int  // of one handle, in one session; 0 for 1
	all       bool // every second producer puts two items at once
	empty     bool // not even the directories exist
	undead    bool // there is no queue for dead letters
	foreign   bool // it is another recipe's
	delays    int  // 1 if readers reject with a delay too
	with      int  // 1 if readers acknowledge with an operation of their own too, 2 if also with one that is refused
	layout    Layout
	small     bool // a bucket is full with two items
	urgent    bool // each item is more urgent than the one before
	effort    int  // how much more than others it takes; 0 for 1
	faults    zkmodel.Faults
	mutant    mutant
}

// A mutant is what is wrong on purpose.
type mutant struct {
	bend    func(ops []session.Op) []session.Op // of every transaction
	deny    bool                                // a lost reply counts as a request that was never sent, and receipts have no numbers
	keeps   string                              // if not "", nodes whose paths begin with it are not removed
	blind   bool                                // an acknowledgement checks nothing
	deaf    bool                                // the first in line is not woken
	voids   bool                                // a receipt is not removed before an answer
	roams   bool                                // nobody knows the epoch
	unaware bool                                // nobody reads that producers stand in line
}

var scenes = []scene{
	{name: "a producer", producers: 1, puts: 2, empty: true, leaves: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "two producers", producers: 2, puts: 1, empty: true, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Kills: 1}},
	{name: "a bound", producers: 2, puts: 2, most: 2, items: 1, takers: 1, takes: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	{name: "a bound, and room", producers: 3, puts: 1, most: 1, items: 1, takers: 1, takes: 3, waits: true, leaves: 1, faults: zkmodel.Faults{Expires: 1, Cuts: 1}},
	{name: "a bound, and a line", producers: 3, puts: 2, all: true, most: 3, items: 3, takers: 1, takes: 6, waits: true, effort: 2, faults: zkmodel.Faults{Cuts: 1, Kills: 1}},
	{name: "a bound, and a line of two", producers: 2, puts: 3, most: 3, items: 2, takers: 1, takes: 3, waits: true, faults: zkmodel.Faults{Lates: 1, Expires: 1, Reaps: 1}},
	{name: "a bound, and directories that go", producers: 2, puts: 2, all: true, most: 2, empty: true, takers: 1, takes: 2, effort: 2, faults: zkmodel.Faults{Reaps: 3, Expires: 1}},
	{name: "takers", takers: 2, takes: 2, items: 2, leaves: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "takers that wait", producers: 1, puts: 2, takers: 2, takes: 1, waits: true, leaves: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}},
	{name: "three takers that wait", producers: 1, puts: 3, takers: 3, takes: 1, waits: true, faults: zkmodel.Faults{Crashes: 1, Cuts: 1}},
	{name: "a consumer", consumers: 1, prefetch: 2, items: 2, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "two consumers", consumers: 2, prefetch: 1, items: 2, effort: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Kills: 1, Crashes: 1}},
	{name: "two consumers wait", producers: 1, puts: 2, consumers: 2, prefetch: 1, effort: 2, faults: zkmodel.Faults{Cuts: 1, Kills: 1}},
	{name: "consumers that wait in turns", producers: 1, puts: 3, consumers: 3, prefetch: 2, effort: 2, faults: zkmodel.Faults{Cuts: 1, Crashes: 1}},
	{name: "priorities", producers: 1, puts: 2, consumers: 2, prefetch: 1, items: 1, urgent: true, effort: 2, faults: zkmodel.Faults{Cuts: 1, Kills: 1}},
	{name: "dead letters", consumers: 2, prefetch: 1, items: 1, attempts: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Kills: 1}},
	{name: "a consumer and a taker", consumers: 1, prefetch: 1, takers: 1, takes: 2, items: 2, faults: zkmodel.Faults{Cuts: 2, Kills: 1, Lates: 1}},
	{name: "followers that lag", producers: 1, puts: 2, consumers: 1, prefetch: 1, takers: 1, takes: 1, waits: true, faults: zkmodel.Faults{Lags: 2, Cuts: 1}},
	{name: "dead letters, crashes", producers: 1, puts: 1, consumers: 2, prefetch: 1, items: 1, attempts: 2, undead: true, faults: zkmodel.Faults{Cuts: 1, Crashes: 1, Lates: 1}},
	{name: "dead letters, expiries", consumers: 2, prefetch: 2, items: 2, attempts: 1, undead: true, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Reaps: 2, Busy: 1}},
	{name: "dead letters, and a taker", takers: 1, takes: 2, consumers: 1, prefetch: 1, items: 1, attempts: 1, faults: zkmodel.Faults{Cuts: 1, Kills: 1, Crashes: 1}},
	{name: "dead letters that cannot be moved", consumers: 2, prefetch: 1, items: 2, attempts: 1, foreign: true, effort: 2, faults: zkmodel.Faults{Cuts: 1, Kills: 1}},
	{name: "retries", consumers: 2, prefetch: 1, items: 2, delays: 1, effort: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Kills: 1}},
	{name: "retries, and dead letters", consumers: 1, prefetch: 2, items: 2, attempts: 2, delays: 1, effort: 2, faults: zkmodel.Faults{Expires: 1, Cuts: 1, Reaps: 1}},
	{name: "crashes", consumers: 3, prefetch: 2, items: 3, attempts: 2, effort: 2, faults: zkmodel.Faults{Crashes: 2, Kills: 1}},
	{name: "acknowledged with operations", consumers: 2, prefetch: 2, items: 2, with: 1, effort: 2, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Kills: 1}},
	{name: "acknowledged with operations, or not", consumers: 1, prefetch: 2, items: 2, with: 2, effort: 2, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	{name: "an exchange", producers: 1, puts: 3, consumers: 2, prefetch: 2, items: 2, urgent: true, effort: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	{name: "dead letters, redriven", operators: 2, consumers: 1, prefetch: 1, items: 1, attempts: 1, leaves: 1, effort: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Kills: 1}},
	{name: "dead letters, redriven and taken", operators: 1, takers: 1, takes: 2, waits: true, consumers: 1, prefetch: 1, items: 1, attempts: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Reaps: 1}},
	{name: "a pause", operators: 1, pauses: true, producers: 1, puts: 1, consumers: 1, prefetch: 1, takers: 1, takes: 2, waits: true, items: 2, effort: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Lags: 1}},
	{name: "a pause, and consumers", operators: 2, pauses: true, consumers: 2, prefetch: 1, items: 3, leaves: 1, effort: 2, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Reaps: 1}},
	{name: "calls of Put", callers: 3, producers: 3, puts: 2, all: true, empty: true, leaves: 2, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "calls of Put, bounded", callers: 4, producers: 3, puts: 1, all: true, most: 2, items: 1, takers: 1, takes: 3, waits: true, leaves: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	{name: "calls of Take", callers: 3, takers: 3, takes: 2, items: 4, leaves: 2, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "calls of Take wait", callers: 3, producers: 1, puts: 3, takers: 2, takes: 2, waits: true, leaves: 2, faults: zkmodel.Faults{Cuts: 1, Kills: 1}},
	{name: "calls of Take, other layouts", callers: 2, takers: 4, takes: 1, items: 3, layout: Curator, leaves: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	{name: "calls of TakeN", callers: 2, takers: 4, takes: 1, together: 2, items: 5, leaves: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	{name: "calls of TakeN, and a consumer", takers: 2, takes: 1, together: 3, consumers: 1, prefetch: 1, items: 3, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	{name: "takers of the most urgent", producers: 1, puts: 3, takers: 2, takes: 2, waits: true, urgent: true, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	{name: "Take and Consume", callers: 3, takers: 2, takes: 2, consumers: 1, prefetch: 1, items: 3, leaves: 1, faults: zkmodel.Faults{Cuts: 2, Expires: 1}},
	{name: "all calls of two handles", callers: 3, producers: 2, puts: 1, all: true, takers: 2, takes: 1, waits: true, consumers: 2, prefetch: 1, leaves: 2, effort: 2, faults: zkmodel.Faults{Cuts: 1, Kills: 1, Lates: 1}},
	{name: "a busy server", producers: 1, puts: 1, consumers: 1, prefetch: 1, takers: 1, takes: 1, faults: zkmodel.Faults{Busy: 2}},
	{name: "denials", producers: 1, puts: 1, consumers: 1, prefetch: 2, takers: 1, takes: 1, items: 2, effort: 2, faults: zkmodel.Faults{Denials: 1, Cuts: 1}},
	{name: "denials, and dead letters", consumers: 2, prefetch: 1, items: 2, attempts: 1, delays: 1, effort: 2, faults: zkmodel.Faults{Denials: 2}},
	{name: "deleted items", consumers: 1, prefetch: 2, takers: 1, takes: 1, items: 3, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	{name: "deleted items, retries, and dead letters", consumers: 2, prefetch: 1, items: 2, attempts: 2, delays: 1, effort: 2, faults: zkmodel.Faults{Strikes: 2}},
	{name: "small buckets", producers: 2, puts: 3, takers: 1, takes: 4, small: true, faults: zkmodel.Faults{Reaps: 1, Cuts: 1}},
	{name: "small buckets, late", producers: 3, puts: 2, takers: 1, takes: 3, small: true, leaves: 1, faults: zkmodel.Faults{Lates: 1, Reaps: 2}},
	{name: "small buckets, calls of Put", callers: 2, producers: 4, puts: 2, all: true, takers: 2, takes: 2, small: true, faults: zkmodel.Faults{Expires: 1}},
	{name: "a restore", producers: 2, puts: 2, takers: 1, takes: 2, items: 1, waits: true, faults: zkmodel.Faults{Restores: 1}},
	{name: "a restore to nothing", producers: 2, puts: 2, empty: true, takers: 2, takes: 1, waits: true, leaves: 1, faults: zkmodel.Faults{Restores: 1, Expires: 1}},
	{name: "a restore, and a bound", producers: 2, puts: 2, most: 2, items: 1, takers: 1, takes: 3, waits: true, effort: 2, faults: zkmodel.Faults{Restores: 1, Cuts: 1}},
	{name: "a restore, and consumers", producers: 1, puts: 2, consumers: 2, prefetch: 2, items: 2, attempts: 2, effort: 2, faults: zkmodel.Faults{Restores: 1}},
	{name: "a restore, and other layouts", producers: 1, puts: 2, takers: 1, takes: 1, layout: Curator, waits: true, effort: 2, faults: zkmodel.Faults{Restores: 1}},
	{name: "a restore of a backup, and other layouts", producers: 1, puts: 2, takers: 1, takes: 2, layout: Curator, effort: 2, faults: zkmodel.Faults{Restores: 1, Backups: 1}},
	{name: "a restore of a backup, and a bound", producers: 2, puts: 2, most: 2, items: 1, takers: 1, takes: 1, effort: 2, faults: zkmodel.Faults{Restores: 1, Backups: 1}},
	{name: "a restore, and calls of Take", callers: 2, producers: 1, puts: 2, takers: 3, takes: 1, items: 1, layout: Curator, leaves: 1, faults: zkmodel.Faults{Restores: 1, Cuts: 1}},
	{name: "a restore of a backup", producers: 1, puts: 2, takers: 1, takes: 1, items: 1, faults: zkmodel.Faults{Restores: 1, Backups: 1}},
	{name: "other layouts, closed", producers: 1, puts: 1, takers: 1, takes: 1, layout: Curator, empty: true, waits: true, faults: zkmodel.Faults{Closes: 1}},
	{name: "other layouts", producers: 1, puts: 1, takers: 2, takes: 1, items: 1, layout: Curator, waits: true, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Expires: 1}},
}

// A fate is what a caller was told of an item.
type fate int

const (
	open fate = iota
	confirmed
	unknown
	denied
)

// --- clients

// A peer is a client of the queue.
type peer struct {
	n       int
	at      *zkmodel.Session
	base    *base
	flat    *Flat // instead, in another layout
	ids     int
	abandon func() // the call that is under way
	busy    bool   // a call is under way
	left    bool

	caller   *zkmodel.Calling // of producers and takers
	consumer *Consumer
	machine  *zkmodel.Runner[machine, input, effect, Event]
	shelf    []*layout.Claimed
	received []*layout.Claimed
	aging    []requestID    // the timer of the newest list
	resting  []layout.Place // timers
	asked    []asked
	made     []string // the IDs of the nodes that the consumer has asked for, beside its claims
}

type asked struct {
	reply  actors.Reply[error]
	what   settling
	before bool // the answer is of the history before a restore
}

// A model is the whole world.
type model struct {
	*zkmodel.World
	s         *scene
	producers []*peer
	takers    []*peer
	operators []*peer
	consumers []*peer
	leaves    int
	put       map[string]fate
	taken     map[string]int
	acked     map[string]int
	redriven  map[string]int      // calls that may have moved it
	doubtful  map[string]bool     // may have been taken or acknowledged
	nodes     map[string][]string // of an item that was ever there
	wrong     string              // what a caller was told that is wrong by itself
	line      producerLine
	asker     func() *actors.Actor[input, Event] // a function, so that the actor is not hashed
}

func newModel(s *scene, keyed bool, asker *actors.Actor[input, Event]) *model {
	w := &model{
		s: s, leaves: s.leaves, put: map[string]fate{}, taken: map[string]int{}, acked: map[string]int{}, redriven: map[string]int{},
		doubtful: map[string]bool{}, nodes: map[string][]string{}, asker: func() *actors.Actor[input, Event] { return asker },
	}
	var there []zkmodel.Node
	add := func(path, data string) {
		there = append(there, zkmodel.Node{Path: path, Data: data, Czxid: 1, Mzxid: 1, Pzxid: 1})
		dir, _ := znode.Split(path)
		for j := range there {
			if there[j].Path == dir {
				there[j].Made++
			}
		}
	}
	if !s.empty {
		add(modelQueue, "")
		if s.layout == 0 {
			for _, dir := range []string{layout.ItemsDir, layout.ClaimsDir, layout.ReceiptsDir, layout.WaitersDir, layout.ProducersDir, layout.ItemsDir + "/" + layout.Bucket{}.Name()} {
				add(modelQueue+"/"+dir, "")
			}
			if !s.undead {
				add(modelDead, "")
			}
			if s.foreign {
				add(modelDead+"/locks", "")
			}
		} else {
			add("/_queue-receipts", "")
		}
	}
	for i := range s.items {
		x := fmt.Sprintf("old.%d", i)
		infix := []string{layout.ItemInfix, layout.EarlierInfix}[i%2]
		node := fmt.Sprintf("%s/items/%s/_c_%036d%s%010d", modelQueue, layout.Bucket{}.Name(), i, infix, i)
		if s.layout != 0 {
			node = fmt.Sprintf("%s/%s%010d", modelQueue, s.layout.prefix(), i)
		}
		data := x
		if s.layout == 0 && infix == layout.ItemInfix {
			data = "\n" + x
		}
		add(node, data)
		w.put[x] = confirmed
	}
	n, callers := s.producers+s.takers+s.operators+s.consumers, max(s.callers, 1)
	w.World = zkmodel.New(s.faults, (n+callers-1)/callers, there...)
	w.Strikes = func(path string) bool {
		_, name := znode.Split(path)
		return layout.ParseItem(name)
	}
	if w.Root = modelQueue; keyed {
		w.Keyed()
		w.Serial() // a procedure is in closures, and callers that leave, and other calls of the handle, change it too
	}
	var p *peer
	for i := range n {
		if p = w.newPeer(i, w.Sessions[i/callers], p); i%callers == 0 {
			p.base = w.handle(p)
		}
		switch {
		case i < s.producers:
			w.producers = append(w.producers, p)
			w.calls(p, w.putOne)
		case i < s.producers+s.takers:
			w.takers = append(w.takers, p)
			w.calls(p, w.takeOne)
		case i < s.producers+s.takers+s.operators:
			w.operators = append(w.operators, p)
			w.calls(p, w.redriveOne)
		default:
			w.consumers = append(w.consumers, p)
			w.consume(p)
		}
	}
	w.note()
	return w
}

// newPeer returns a client, which uses the handle of the one before.
func (w *model) newPeer(i int, at *zkmodel.Session, before *peer) *peer {
	p := &peer{n: i, at: at}
	if before != nil {
		p.base, p.flat = before.base, before.flat
	}
	w.Share(p)
	return p
}

// handle returns a handle of a client.
func (w *model) handle(p *peer) *base {
	newID := func() string {
		p.ids++
		return fmt.Sprintf("%036d", 1000*(p.n+1)+p.ids)
	}
	if w.s.layout != 0 {
		p.flat = newFlatOf(bent{p.at, &w.s.mutant}, modelQueue, w.s.layout, FlatOptions{})
		p.flat.receipts.NewID = newID
		return nil
	}
	o := Options{MaxItems: w.s.most, MaxAttempts: w.s.attempts}
	if w.s.attempts > 0 {
		o.DeadLetter = modelDead
	}
	b := newBaseOf(bent{p.at, &w.s.mutant}, modelQueue, o)
	b.at.Any = w.s.urgent
	if w.s.small {
		b.desk.Size = 2
	}
	b.receipts.NewID = newID
	return b
}

func (w *model) calls(p *peer, do func(p *peer, n int)) {
	p.caller = zkmodel.Calls(w.World, p.at, func(n int) { do(p, n) })
}

func (w *model) putOne(p *peer, n int) {
	items := []string{fmt.Sprintf("%d.%d", p.n, n)}
	if w.s.all && p.n%2 == 0 {
		items = append(items, items[0]+"+")
	}
	call, other := &filing.Call{}, &flatPut{}
	for _, x := range items {
		w.put[x] = open
		if other.data = append(other.data, []byte(x)); p.base != nil {
			call.Items = append(call.Items, p.base.desk.NewItem(layout.Record{}, []byte(x)))
		}
	}
	priority := int32(0)
	if w.s.urgent {
		priority = int32(-n)
	}
	p.busy, call.Priority = true, priority
	call.Answer = func(_ []session.OpResult, err error) {
		p.busy = false
		told := confirmed
		switch {
		case session.InDoubt(err):
			told = unknown
		case err != nil:
			told = denied
			w.fair(err)
		}
		for _, x := range items {
			w.put[x] = told
		}
	}
	if other.Answer = call.Answer; p.flat != nil {
		p.abandon = p.flat.puts.Begin(other)
		return
	}
	p.abandon = p.base.desk.Begin(call)
}

func (w *model) takeOne(p *peer, _ int) {
	p.busy = true
	epoch := p.at.Epoch()
	answer := func(items []layout.Claimed, err error) {
		p.busy = false
		if session.InDoubt(err) && epoch != 0 && epoch == p.at.Epoch() {
			w.wrong = fmt.Sprintf("Take does not know, and the session lasts: %v", err)
		}
		for _, item := range items {
			switch x := string(item.Data); {
			case err == nil:
				w.taken[x]++
			case session.InDoubt(err):
				w.doubtful[x] = true
			}
		}
		if !session.InDoubt(err) && err != nil && !errors.Is(err, ErrEmpty) {
			w.fair(err)
		}
	}
	if p.flat != nil {
		k := &flatCaller{Flat: p.flat, call: flatCall{waits: w.s.waits}, answer: func(g flatGive) { answer([]layout.Claimed{{Data: g.item.data}}, g.err) }}
		p.abandon = k.begin()
		return
	}
	p.abandon = p.base.outlet.NewTaker(max(w.s.together, 1)).Begin(taking.Machine{Wait: w.s.waits}, answer)
}

// redriveOne redrives the first dead letter.
func (w *model) redriveOne(p *peer, n int) {
	if w.s.pauses {
		w.pause(p, n == 0)
		return
	}
	for _, n := range w.Nodes() {
		_, name := znode.Split(n.Path)
		if !layout.ParseItem(name) || !strings.HasPrefix(n.Path, modelDead+"/") {
			continue
		}
		c := layout.ItemOf(layout.Place{Name: name}, []byte(n.Data), &session.Stat{Version: n.Version})
		l := &Letters{p.base, &stock.Store{Session: p.base.at.Session, Path: modelDead}}
		p.busy = true
		x := string(c.Data)
		w.redriven[x]++
		_, _, p.abandon = l.redrive([]Letter{{ID: c.Place.ID(), claimed: c}}, func(err error) {
			p.busy = false
			switch {
			case err == nil || session.InDoubt(err):
			case client.IsAny(err, session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion):
				w.redriven[x]--
			default:
				w.redriven[x]--
				w.fair(err)
			}
		})
		return
	}
}

// pause pauses the queue, or ends its pause.
func (w *model) pause(p *peer, begins bool) {
	op, no := session.DeleteOp(p.base.paused(), session.AnyVersion), session.ErrNoNode
	if begins {
		op, no = session.CreateOp(p.base.paused(), nil, session.Persistent), session.ErrNodeExists
	}
	p.busy = true
	p.abandon = p.base.receipts.Begin(0, []session.Op{op}, func(_ []session.OpResult, err error) {
		if p.busy = false; err != nil && !session.InDoubt(err) && !errors.Is(err, no) {
			w.fair(err)
		}
	})
}

// fair complains of errors that callers cannot do anything about.
func (w *model) fair(err error) {
	denied := w.s.faults.Denials > 0 && errors.Is(err, session.ErrNoAuth)
	closed := w.s.faults.Closes > 0 && errors.Is(err, session.ErrClosed)
	if !errors.Is(err, procedure.ErrAbandoned) && !denied && !closed {
		w.wrong = fmt.Sprintf("a call fails: %v", err)
	}
}

func (w *model) consume(p *peer) {
	c := &Consumer{base: p.base, receipts: receipt.New(p.base.at.Session, p.base.receipts.Dir)}
	c.receipts.NewID = func() string {
		id := p.base.receipts.NewID()
		p.made = append(p.made, id)
		return id
	}
	c.owned.Clock = p.at
	p.consumer = c
	p.machine = zkmodel.Run(w.World, p.at, machine{prefetch: w.s.prefetch, limit: w.s.attempts, urgent: w.s.urgent, rivalry: layout.Rivalry{Chance: uint64(p.n)}, attended: true}, actors.Role[machine, input, effect, Event]{
		Perform: func(e effect, tell func(input)) { w.perform(p, e, tell) },
		Observe: func(m machine, _ []Event) {
			if m.ended {
				c.owned.End()
				w.clean(p, m)
			}
		},
	}, nil)
	p.machine.Begin(func() { c.owned.Follow(p.at, func(ev session.Event) { p.machine.Tell(heard{ev}) }, nil) })
}

// clean complains of nodes that a consumer leaves behind in its session.
func (w *model) clean(p *peer, m machine) {
	if m.newest.epoch == 0 {
		return // they go with the session
	}
	for _, n := range w.Nodes() {
		mine := func(id string) bool { return strings.Contains(n.Path, znode.GUIDName(id, "")) }
		if n.Owner != 0 && n.Owner == p.at.ID() && slices.ContainsFunc(p.made, mine) {
			w.wrong = "a consumer has ended, and left " + n.Path
		}
	}
}

// perform does itself what concerns readers.
func (w *model) perform(p *peer, e effect, tell func(input)) {
	switch e := e.(type) {
	case offer:
		p.shelf = append(p.shelf, e.items...)
	case withdraw:
		p.shelf = nil
	case answer:
		i := slices.IndexFunc(p.asked, func(a asked) bool { return a.reply == e.reply })
		if i < 0 {
			return // it gives back by itself
		}
		a := p.asked[i]
		p.asked = slices.Delete(p.asked, i, i+1)
		if !a.before {
			w.settled(p, a.what, e.err)
			if x := string(a.what.Data); len(a.what.ops) > 0 && e.err == nil && w.Node(doneNode(x)) == nil {
				w.wrong = x + " is acknowledged without the operations of its reader"
			}
		}
	case conclude:
		if !w.s.mutant.blind {
			p.consumer.perform(e, tell)
			return
		}
		var ops []session.Op
		for _, item := range e.items {
			ops = append(ops, session.CheckOp(modelQueue, session.AnyVersion), session.DeleteOp(p.base.at.Node(item.Place), session.AnyVersion))
		}
		ops = append(ops, p.consumer.claimOps(e.claims)...)
		p.consumer.receipts.Begin(e.epoch, ops, func(results []session.OpResult, err error) { tell(settled{stock.Refused(results, err)}) })
	case recall:
		i := slices.IndexFunc(p.shelf, func(c *layout.Claimed) bool { return c.Place == e.Place })
		if i >= 0 {
			p.shelf = slices.Delete(slices.Clone(p.shelf), i, i+1)
		}
		tell(recalled{e.Claimed, i >= 0})
	case age:
		p.aging = []requestID{e.requestID}
	case rest:
		p.resting = append(slices.DeleteFunc(slices.Clone(p.resting), func(q layout.Place) bool { return q == e.place }), e.place)
	case tick, remind, grow, try:
	case look, follow, quit, read, claim, move, sweep, part:
		p.consumer.perform(e, tell)
	}
}

// settled follows the answer to a settlement. An item whose settlement was refused is settled once
// more.
func (w *model) settled(p *peer, what settling, err error) {
	x := string(what.Data)
	switch {
	case errors.Is(err, ErrNotClaimed):
	case session.InDoubt(err):
		w.doubtful[x] = w.doubtful[x] || what.how == acknowledge
	case err != nil:
		if p.received = append(p.received, what.Claimed); len(what.ops) == 0 {
			w.fair(err)
		}
	case what.how == acknowledge:
		w.acked[x]++
	}
}

// --- what can happen

// Actions implements [exploration.World].
func (w *model) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	wish := func(kind string, p *peer, variants int) {
		for v := range variants {
			wishes = append(wishes, zkmodel.Action{Kind: kind, I: p.n, Variant: v})
		}
	}
	for _, p := range w.producers {
		w.callable(p, w.s.puts, wish)
	}
	for _, p := range w.takers {
		w.callable(p, w.s.takes, wish)
	}
	for _, p := range w.operators {
		w.callable(p, 2, wish)
	}
	for _, p := range w.consumers {
		if p.machine.Ended() {
			continue
		}
		if len(p.shelf) > 0 {
			wish("receive", p, 1)
		}
		if len(p.received) > 0 {
			wish("settle", p, 2+w.s.delays+w.s.with)
		}
		if len(p.aging) > 0 {
			wish("age", p, 1)
		}
		if len(p.resting) > 0 {
			wish("rest", p, 1)
		}
		if !p.left {
			wish("leave", p, 1)
		}
	}
	return normal, wishes, faulty
}

func (w *model) callable(p *peer, most int, wish func(string, *peer, int)) {
	switch {
	case p.at.Crashed():
	case p.busy && w.leaves > 0:
		wish("abandon", p, 1)
	case !p.busy && p.caller.M.Calls < most && len(p.caller.Mail) == 0:
		wish("call", p, 1)
	}
}

// Apply implements [exploration.World].
func (w *model) Apply(a zkmodel.Action) {
	all := slices.Concat(w.producers, w.takers, w.operators, w.consumers)
	p := all[min(a.I, len(all)-1)]
	switch a.Kind {
	case "call":
		p.caller.Tell(zkmodel.Call{N: p.caller.M.Calls})
	case "abandon":
		w.leaves--
		p.caller.Begin(p.abandon)
	case "receive":
		item := p.shelf[0]
		p.shelf = p.shelf[1:]
		p.received = append(p.received, item)
		p.machine.Tell(taken{item})
	case "settle":
		item := p.received[0]
		p.received = p.received[1:]
		if p.machine.Ended() {
			break // it is not claimed any more
		}
		var reply actors.Reply[error]
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = actors.Ask(over, w.asker(), func(r actors.Reply[error]) input {
			reply = r
			return changed{}
		})
		what := settling{Claimed: item, reply: reply}
		switch {
		case a.Variant == 1:
			what.how = reject
		case a.Variant == 2 && w.s.delays > 0:
			what.how, what.delay = reject, time.Millisecond
		case a.Variant >= 2:
			what.ops = []session.Op{session.CreateOp(doneNode(string(item.Data)), nil, session.Persistent)}
			if a.Variant == 3 {
				what.ops = append(what.ops, session.DeleteOp("/nowhere", session.AnyVersion))
			}
		}
		p.asked = append(p.asked, asked{reply, what, false})
		p.machine.Tell(settle{what})
	case "age":
		p.machine.Tell(aged{p.aging[0]})
		p.aging = nil
	case "rest":
		p.machine.Tell(rested{p.resting[0]})
		p.resting = p.resting[1:]
	case "leave":
		p.left = true
		p.machine.Tell(leave{})
	case "restore":
		w.World.Apply(a)
		w.forget()
	default:
		w.World.Apply(a)
	}
	w.note()
}

// forget begins a new history: what calls were told before is undone. What calls are told from now
// on has to be true of the new one.
func (w *model) forget() {
	w.line = producerLine{}
	clear(w.nodes)
	clear(w.taken)
	clear(w.acked)
	clear(w.doubtful)
	here := map[string]bool{}
	for _, n := range w.Nodes() {
		if x, ok := itemAt(n); ok {
			here[x] = true
		}
	}
	for x, told := range w.put {
		if told != open && !here[x] {
			delete(w.put, x)
		}
	}
	for _, p := range w.consumers {
		for i := range p.asked {
			p.asked[i].before = slices.ContainsFunc(p.machine.Mail, func(in input) bool { _, is := in.(settled); return is })
		}
	}
}

// A producerLine is what the model knows of the line of producers.
type producerLine struct {
	first zkmodel.Node    // the first in line; its path is "" if there is none
	known map[string]bool // the waiters that everybody who puts has to heed
	told  int32           // the version of the directory of the receipts
}

// turns complains if a producer has put an item while another was the first in line.
func (w *model) turns() {
	var line []zkmodel.Node
	for _, n := range w.Nodes() {
		dir, name := znode.Split(n.Path)
		switch x, ok := itemAt(n); {
		case dir == modelQueue+"/"+layout.ProducersDir && layout.IsWaiter(name):
			line = append(line, n)
		case ok && strings.HasPrefix(n.Path, modelQueue+"/") && !slices.Contains(w.nodes[x], n.Path):
			w.turn(x)
		}
	}
	slices.SortFunc(line, func(a, b zkmodel.Node) int { return int(layout.SequenceOf(a.Path) - layout.SequenceOf(b.Path)) })
	dir := w.Node(modelQueue + "/" + layout.ReceiptsDir)
	if dir != nil && dir.Version != w.line.told && layout.ParseTally([]byte(dir.Data)).Lined {
		w.line.known = make(map[string]bool)
		for _, n := range line {
			w.line.known[n.Path] = true
		}
	}
	if dir != nil {
		w.line.told = dir.Version
	}
	if w.line.first = (zkmodel.Node{}); len(line) > 0 {
		w.line.first = line[0]
	}
}

// turn complains if it was not the turn of an item that was put.
func (w *model) turn(x string) {
	by, _, _ := strings.Cut(x, ".")
	i := slices.IndexFunc(w.producers, func(p *peer) bool { return strconv.Itoa(p.n) == by })
	first := w.line.first
	if i < 0 || w.s.leaves > 0 || !w.line.known[first.Path] {
		return
	}
	if w.producers[i].at.ID() == first.Owner {
		w.line.known = maps.Clone(w.line.known)
		delete(w.line.known, first.Path) // it leaves
	} else if w.Node(first.Path) != nil {
		w.wrong = fmt.Sprintf("%s is put, and %s is the first in line", x, first.Path)
	}
}

// note notes which items are there.
func (w *model) note() {
	w.turns()
	for _, n := range w.Nodes() {
		if x, ok := itemAt(n); ok && !slices.Contains(w.nodes[x], n.Path) {
			w.nodes[x] = append(w.nodes[x], n.Path)
		}
	}
}

// doneNode returns the path of the node that a reader creates with the acknowledgement.
func doneNode(x string) string { return "/done-" + x }

// puts returns how often an item was put that had the nodes. One that was moved keeps its ID.
func puts(nodes []string) int {
	ids := map[string]bool{}
	for _, path := range nodes {
		_, name := znode.Split(path)
		if layout.ParseItem(name) {
			name = layout.Place{Name: name}.ID()
		}
		ids[name] = true
	}
	return len(ids)
}

// itemAt returns the item whose node it is.
func itemAt(n zkmodel.Node) (x string, ok bool) {
	_, name := znode.Split(n.Path)
	if !layout.ParseItem(name) && !Curator.owns(name) {
		return "", false
	}
	_, after, found := strings.Cut(n.Data, "\n")
	if !found {
		after = n.Data
	}
	return after, true
}

// Check implements [exploration.World].
func (w *model) Check() {
	if w.wrong != "" {
		zkmodel.Violate("%s", w.wrong)
	}
	here := map[string]int{}
	live := 0
	for _, n := range w.Nodes() {
		if x, ok := itemAt(n); ok {
			if here[x]++; strings.HasPrefix(n.Path, modelQueue+"/") {
				live++
			}
		}
	}
	if w.s.most > 0 && live > w.s.most {
		zkmodel.Violate("%d items, and at most %d are allowed", live, w.s.most)
	}
	w.checkSeals()
	for _, claim := range w.Children(modelQueue + "/" + layout.ClaimsDir) {
		of := func(n zkmodel.Node) bool { return strings.Contains(n.Path, "/"+znode.GUIDName(claim, "")) }
		if !slices.ContainsFunc(w.Nodes(), of) && (!slices.ContainsFunc(w.Struck, of) || !w.holds(claim)) {
			zkmodel.Violate("%s is claimed, and not there", claim)
		}
	}
	for _, p := range w.consumers {
		owned := 0
		for _, n := range w.Nodes() {
			if n.Owner != 0 && n.Owner == p.at.ID() && strings.HasPrefix(n.Path, modelQueue+"/"+layout.ClaimsDir+"/") {
				owned++
			}
		}
		if owned > w.s.prefetch*max(w.s.callers, 1) {
			zkmodel.Violate("%d has %d claims", p.n, owned)
		}
	}
	quiet := w.Quiet()
	for x, told := range w.put {
		ever, buried := puts(w.nodes[x]), 0
		for _, path := range w.nodes[x] {
			if strings.HasPrefix(path, modelDead+"/") {
				buried++
			}
		}
		again := w.redriven[x] // at most
		if w.Node(doneNode(x)) != nil && here[x] > 0 {
			zkmodel.Violate("item %s is done, and is there", x)
		}
		out := w.taken[x] + w.acked[x]
		switch with, all := w.nodes[x+"+"]; {
		case all && (ever == 0) != (len(with) == 0):
			zkmodel.Violate("items %s and %s+ were put by one call, %d times and %d times", x, x, ever, len(with))
		case ever > 1 || buried > 1+again || here[x] > 1:
			zkmodel.Violate("item %s was put %d times, and is there %d times", x, ever, here[x])
		case told == confirmed && ever == 0, told == denied && ever > 0:
			zkmodel.Violate("item %s: the producer was told %v, and it was put %d times", x, told, ever)
		case out > 1 || out > 0 && here[x] > 0:
			zkmodel.Violate("item %s was taken %d times, acknowledged %d times, and is there %d times", x, w.taken[x], w.acked[x], here[x])
		case quiet && told == confirmed && here[x] == 0 && out == 0 && !w.doubtful[x] && !w.crashed() && !w.struck(x):
			zkmodel.Violate("item %s is lost", x)
		}
	}
	if quiet {
		w.rest()
	}
}

// struck reports whether an operator has deleted the item.
func (w *model) struck(x string) bool {
	return slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool {
		y, ok := itemAt(n)
		return ok && x == y
	})
}

// holds reports whether a consumer may hold the item with the ID, or has to delete its claim yet.
func (w *model) holds(id string) bool {
	return !w.Quiet() || slices.ContainsFunc(w.consumers, func(p *peer) bool {
		return slices.ContainsFunc(p.machine.M.held, func(h held) bool { return h.Place.ID() == id })
	})
}

// checkSeals complains of a bucket that takes items, and is not the newest: they would come before
// older ones.
func (w *model) checkSeals() {
	newest := layout.Bucket{Number: -1}
	var open []layout.Bucket
	for _, n := range w.Nodes() {
		dir, name := znode.Split(n.Path)
		b, ok := layout.ParseBucket(name)
		if dir != modelQueue+"/"+layout.ItemsDir || !ok || b.After || b.Priority != 0 {
			continue
		}
		if b.Number > newest.Number {
			newest = b
		}
		if n.Version == 0 {
			open = append(open, b)
		}
	}
	for _, b := range open {
		if b != newest {
			zkmodel.Violate("%v takes items, and %v is newer", b, newest)
		}
	}
}

func (w *model) crashed() bool {
	return slices.ContainsFunc(w.Sessions, func(s *zkmodel.Session) bool { return s.Crashed() })
}

// rest holds when nothing happens by itself any more: whatever is waited for is not there.
func (w *model) rest() {
	free, live, paused := 0, 0, w.Node(modelQueue+"/"+layout.ItemsDir+"/"+layout.PausedNode) != nil
	there := map[string]bool{} // the names of the free items
	for _, n := range w.Nodes() {
		if _, ok := itemAt(n); !ok || !strings.HasPrefix(n.Path, modelQueue+"/") {
			continue
		}
		live++
		_, name := znode.Split(n.Path)
		if !paused && (w.s.layout != 0 || w.Node(modelQueue+"/"+layout.ClaimsDir+"/"+layout.Place{Name: name}.ID()) == nil) {
			free++
			there[name] = true
		}
	}
	for _, p := range w.takers {
		if p.busy && !p.at.Crashed() && free > 0 {
			zkmodel.Violate("%d items are free, and %d waits for ever", free, p.n)
		}
	}
	for _, p := range w.consumers {
		m := p.machine.M
		free := free
		for _, a := range m.asides {
			if there[a.place.Name] {
				free--
			}
		}
		// One that a crash has left waits for a reader, and so do those behind it.
		if turn := (&turn{machine: m}); len(m.listed) > 0 && !turn.idle() && slices.ContainsFunc(m.kept, func(c *layout.Claimed) bool { return c.Place == m.listed[0] && c.Tentative }) {
			free = 0
		}
		if !p.machine.Ended() && !m.leaving && free > 0 && len(m.held) < m.prefetch {
			zkmodel.Violate("%d items are free, and %d waits for ever: %v", free, p.n, m)
		}
		if !p.machine.Ended() && (m.leaving || len(p.asked) > 0) {
			zkmodel.Violate("%d never ends: %v, %d asked", p.n, m, len(p.asked))
		}
	}
	widest := 1 // call, of which others may be behind
	if w.s.all {
		widest = 2
	}
	for _, p := range w.producers {
		if p.busy && !p.at.Crashed() && (w.s.most == 0 || live+widest <= w.s.most) {
			zkmodel.Violate("%d puts for ever", p.n)
		}
	}
}

// Key implements [exploration.World].
func (w *model) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

// --- mutants

// bent is a session whose requests are meddled with.
type bent struct {
	client.Session
	*mutant
}

// Async implements [client.Session].
func (b bent) Async(epoch int) client.Async { return bentRequests{b.Session.Async(epoch), b.mutant} }

// Subscribe implements [client.Session].
func (b bent) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	return b.Session.Subscribe(func(ev session.Event) <-chan struct{} {
		if c, is := ev.(session.Connected); is && b.roams {
			c.Epoch = 0
			ev = c
		}
		return tell(ev)
	})
}

type bentRequests struct {
	client.Async
	*mutant
}

// Under implements [client.Async].
func (b bentRequests) Under(lease int64) client.Async {
	return bentRequests{b.Async.Under(lease), b.mutant}
}

// Multi implements [client.Async].
func (b bentRequests) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	if b.bend != nil {
		ops = b.bend(ops)
	}
	b.Async.Multi(ops, func(results []session.OpResult, err error) {
		if b.deny && session.InDoubt(err) {
			err = session.ErrDisconnected
		}
		answer(results, err)
	})
}

// Get implements [client.Async].
func (b bentRequests) Get(path string, answer func([]byte, *session.Stat, error)) {
	b.Async.Get(path, func(data []byte, stat *session.Stat, err error) {
		if b.deny && strings.HasSuffix(path, "receipt") {
			data = nil
		}
		if b.unaware && path == modelQueue+"/"+layout.ReceiptsDir {
			data = nil
		}
		answer(data, stat, err)
	})
}

// Withdraw implements [client.Async].
func (b bentRequests) Withdraw(path string, answer func(error)) {
	if b.keeps != "" && strings.HasPrefix(path, b.keeps) {
		answer(nil)
		return
	}
	b.Async.Withdraw(path, answer)
}

// Delete implements [client.Async].
func (b bentRequests) Delete(path string, version int32, answer func(error)) {
	if b.voids {
		answer(nil)
		return
	}
	b.Async.Delete(path, version, answer)
}

// Follow implements [client.Async].
func (b bentRequests) Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) client.Subscription {
	return b.Async.Follow(path, aspect, lasting, func(r session.Reading, err error) {
		if !b.deaf || aspect != session.AspectChildren {
			tell(r, err)
		}
	})
}

// FollowOnce implements [client.Async].
func (b bentRequests) FollowOnce(path string, aspect session.Aspect, tell func(session.Reading, error)) client.Subscription {
	return b.Async.FollowOnce(path, aspect, func(r session.Reading, err error) {
		if !b.deaf || aspect != session.AspectChildren {
			tell(r, err)
		}
	})
}

func newAsker(t *testing.T) *actors.Actor[input, Event] {
	asker := actors.Start(machine{}, actors.Role[machine, input, effect, Event]{Perform: func(effect, func(input)) {}, Stop: leave{}})
	t.Cleanup(asker.Close)
	return asker
}

func explore(t *testing.T, s *scene) {
	asker := newAsker(t)
	exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newModel(s, keyed, asker) }, max(1, s.effort),
		func(w exploration.World[zkmodel.Action]) error {
			m := w.(*model)
			for _, p := range m.consumers {
				if !p.machine.Ended() {
					return fmt.Errorf("consumer %d never ends: %v", p.n, p.machine.M)
				}
			}
			return nil
		})
}

// TestOnce goes through what can happen to items.
func TestOnce(t *testing.T) {
	for i := range scenes {
		t.Run(scenes[i].name, func(t *testing.T) { explore(t, &scenes[i]) })
	}
}
