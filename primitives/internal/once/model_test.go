package once

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file has clients write in the model of ZooKeeper, with the machine and the performer, while
// requests and replies are lost or come late, sessions expire, callers leave, older data is
// restored, and others delete markers and write to them.

const (
	modelRoot    = "/w"
	modelLog     = modelRoot + "/log"     // has a node for each time that a write was done
	modelValue   = modelRoot + "/value"   // whose version writes may name
	modelMarkers = modelRoot + "/markers" // made by the first writer
)

// A scene is who writes.
type scene struct {
	name    string
	clients int
	writes  int  // of each client, at the same time or one after the other
	bound   bool // each belongs to the epoch in which it begins
	rests   bool // each rests on what was read under the lease in which it begins
	narrow  bool // each names the version of the value, so that others are refused
	leaves  int  // callers that leave
	meddles int  // writes of others to markers
	tries   int  // replies that may be lost before a write is given up; 0 for any number
	effort  int  // how much more than others it takes; 0 for 1
	faults  zkmodel.Faults
	mutant  mutant
}

// A mutant is what is wrong on purpose.
type mutant struct {
	bend  func(ops []session.Op) []session.Op // of every transaction
	blank bool                                // the number of a marker is not seen
	voids bool                                // a marker is not deleted before an answer
}

var scenes = []scene{
	{name: "calm", clients: 2, writes: 2, narrow: true},
	{name: "one client", clients: 1, writes: 2, leaves: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "one client, one epoch", clients: 1, writes: 2, bound: true, leaves: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1}},
	{name: "lost too often", clients: 1, writes: 2, tries: 2, leaves: 1, effort: 2, faults: zkmodel.Faults{Cuts: 3, Lates: 2}},
	{name: "lost too often, and sessions", clients: 1, writes: 1, tries: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1, Kills: 1, Restores: 1}},
	{name: "refusals", clients: 2, writes: 1, narrow: true, leaves: 1, effort: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Expires: 1}},
	{name: "a lapse", clients: 1, writes: 2, rests: true, effort: 2, faults: zkmodel.Faults{Cuts: 2, Lapses: 1, Lates: 1}},
	{name: "a lapse, refusals", clients: 2, writes: 1, narrow: true, rests: true, leaves: 1, faults: zkmodel.Faults{Cuts: 2, Lapses: 1, Lates: 1}},
	{name: "refusals, one epoch", clients: 2, writes: 1, narrow: true, bound: true, effort: 2, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Kills: 1}},
	{name: "crashes", clients: 2, writes: 1, narrow: true, faults: zkmodel.Faults{Cuts: 1, Crashes: 1, Kills: 1, Lates: 1}},
	{name: "a session that closes", clients: 1, writes: 2, leaves: 1, faults: zkmodel.Faults{Cuts: 1, Closes: 1, Lates: 1}},
	{name: "others delete markers", clients: 1, writes: 2, bound: true, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Strikes: 1}},
	{name: "others write to markers", clients: 1, writes: 2, narrow: true, meddles: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	{name: "directories that go", clients: 1, writes: 2, leaves: 1, faults: zkmodel.Faults{Reaps: 2, Cuts: 1, Expires: 1}},
	{name: "followers that lag", clients: 2, writes: 2, narrow: true, faults: zkmodel.Faults{Lags: 2, Cuts: 1}},
	{name: "a busy server", clients: 1, writes: 2, narrow: true, faults: zkmodel.Faults{Busy: 2, Full: 1}},
	{name: "a restore", clients: 2, writes: 2, narrow: true, faults: zkmodel.Faults{Restores: 1, Cuts: 1}},
	{name: "a restore of a backup", clients: 1, writes: 2, effort: 2, faults: zkmodel.Faults{Restores: 1, Backups: 1, Cuts: 1}},
	{name: "a restore of a backup, refusals", clients: 2, writes: 2, narrow: true, effort: 2, faults: zkmodel.Faults{Restores: 1, Backups: 1}},
	{name: "a restore of a backup, one epoch", clients: 1, writes: 2, bound: true, faults: zkmodel.Faults{Restores: 1, Backups: 1, Cuts: 1}},
}

// A fate is what a caller was told of a write.
type fate int

const (
	open fate = iota
	confirmed
	unknown
	denied
)

// A peer is a client.
type peer struct {
	n      int
	at     *zkmodel.Session
	writer Writer
	names  int
	leaves []func() // by write; nil when it was answered
	caller *zkmodel.Calling
	closes bool
	closed bool
}

// A model is the whole world.
type model struct {
	*zkmodel.World
	s       *scene
	all     []*peer
	leaves  int
	meddles int
	said    map[string]fate
	done    map[string][]string // the nodes in the log, by write
}

func newModel(s *scene, keyed bool) *model {
	w := &model{s: s, leaves: s.leaves, meddles: s.meddles, said: map[string]fate{}, done: map[string][]string{}}
	node := func(path string, made int32) zkmodel.Node {
		return zkmodel.Node{Path: path, Czxid: 1, Mzxid: 1, Pzxid: 1, Made: made}
	}
	w.World = zkmodel.New(s.faults, s.clients, node(modelRoot, 2), node(modelLog, 0), node(modelValue, 0))
	if w.Root = modelRoot; keyed {
		w.Keyed()
		w.Serial() // writes are in closures, and callers that leave change them too
	}
	// In package session a connection begins with a sync: a late creation is done before that. Of
	// writes that is not assumed.
	w.Prompt = func(data string) bool { return data == string(number(0)) }
	w.Strikes = func(path string) bool { return strings.HasPrefix(path, modelMarkers+"/") }
	for i := range s.clients {
		p := &peer{n: i, at: w.Sessions[i]}
		p.writer = Writer{Session: bent{p.at, &s.mutant}, Dir: modelMarkers, Closed: errors.New("closed"), Name: func(epoch int) string {
			p.names++
			return fmt.Sprintf("%d.%d-%d", p.n, p.names, epoch)
		}}
		p.caller = zkmodel.Calls(w.World, p.at, func(n int) { w.write(p, n) })
		w.all = append(w.all, p)
		w.Share(p)
	}
	return w
}

// write begins a write, which enters itself in the log.
func (w *model) write(p *peer, n int) {
	x := fmt.Sprintf("%d.%d", p.n, n)
	w.said[x] = open
	ops := []session.Op{session.CreateOp(modelLog+"/"+x+"-", nil, session.PersistentSequential)}
	if w.s.narrow {
		ops = append(ops, session.SetOp(modelValue, nil, w.Node(modelValue).Version))
	}
	epoch := 0
	if w.s.bound {
		epoch = p.at.Epoch()
	}
	lease := int64(0)
	if w.s.rests {
		lease = p.at.Lease()
	}
	p.leaves = append(p.leaves, nil)
	leave := p.writer.begin(Write{Epoch: epoch, Tries: w.s.tries, Rests: w.s.rests}, lease, ops, func(results []session.OpResult, err error) {
		p.leaves[n] = nil
		switch {
		case w.said[x] != open:
			zkmodel.Violate("write %s: a second answer", x)
		case session.InDoubt(err):
			w.said[x] = unknown
		case err != nil:
			w.said[x] = denied
			if !client.IsAny(err, session.ErrBadVersion, procedure.ErrAbandoned, session.ErrLapsed, session.ErrExpired, session.ErrClosed, session.ErrSessionFull, session.ErrTooLarge, p.writer.Closed) {
				zkmodel.Violate("write %s fails: %v", x, err)
			}
		default:
			w.said[x] = confirmed
			if len(results) > 0 && (len(results) != len(ops) || results[0].Path == "") {
				zkmodel.Violate("write %s: results %v", x, results)
			}
		}
	})
	if w.said[x] == open {
		p.leaves[n] = leave
	}
}

// Actions implements [exploration.World].
func (w *model) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	for i, p := range w.all {
		if p.at.Crashed() {
			continue
		}
		if !p.closes && p.caller.M.Calls < w.s.writes && len(p.caller.Mail) == 0 && (p.at.Epoch() != 0 || !w.s.bound) {
			wishes = append(wishes, zkmodel.Action{Kind: "write", I: i})
		}
		for n, leave := range p.leaves {
			if leave != nil && w.leaves > 0 {
				wishes = append(wishes, zkmodel.Action{Kind: "leave", I: i, Variant: n})
			}
		}
		if !p.closes {
			wishes = append(wishes, zkmodel.Action{Kind: "end", I: i})
		}
	}
	if w.meddles > 0 {
		for _, n := range w.Nodes() {
			if strings.HasPrefix(n.Path, modelMarkers+"/") {
				faulty = append(faulty, zkmodel.Action{Kind: "meddle", Node: n.Path})
			}
		}
	}
	return normal, wishes, faulty
}

// Apply implements [exploration.World].
func (w *model) Apply(a zkmodel.Action) {
	switch p := w.all[min(a.I, len(w.all)-1)]; a.Kind {
	case "write":
		p.caller.Tell(zkmodel.Call{N: p.caller.M.Calls})
	case "leave":
		w.leaves--
		p.caller.Begin(p.leaves[a.Variant])
	case "end":
		p.closes = true
		p.caller.Begin(func() { p.writer.Close(func() { p.closed = true }) })
	case "meddle":
		w.meddles--
		w.SetData(a.Node, "meddled")
	case "restore":
		w.World.Apply(a)
		clear(w.done) // a new history: what callers were told before is undone
		for x, told := range w.said {
			if told != open {
				delete(w.said, x)
			}
		}
	default:
		w.World.Apply(a)
	}
	for _, name := range w.Children(modelLog) {
		x, _, _ := strings.Cut(name, "-")
		if !slices.Contains(w.done[x], name) {
			w.done[x] = append(w.done[x], name)
		}
	}
}

// Check implements [exploration.World]: a write is done once or not at all, and its caller is told
// the truth.
func (w *model) Check() {
	for x, told := range w.said {
		if n := len(w.done[x]); n > 1 || told == confirmed && n == 0 || told == denied && n > 0 {
			zkmodel.Violate("write %s, of which was said %d, was done %d times", x, told, n)
		}
	}
	if !w.Quiet() {
		return
	}
	for _, p := range w.all {
		if p.at.Crashed() {
			continue
		}
		if slices.ContainsFunc(p.leaves, func(leave func()) bool { return leave != nil }) {
			zkmodel.Violate("client %d writes for ever", p.n)
		}
		if p.closes && !p.closed {
			zkmodel.Violate("client %d closes for ever", p.n)
		}
		for _, n := range w.Nodes() {
			if p.closed && n.Owner != 0 && n.Owner == p.at.ID() {
				zkmodel.Violate("the marker %s is left", n.Path)
			}
		}
	}
}

// Key implements [exploration.World].
func (w *model) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

// TestOnceOrNotAtAll goes through what can happen to writes.
func TestOnceOrNotAtAll(t *testing.T) {
	outcomes := map[fate]int{}
	for i := range scenes {
		s := &scenes[i]
		t.Run(s.name, func(t *testing.T) {
			exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newModel(s, keyed) }, max(1, s.effort),
				func(w exploration.World[zkmodel.Action]) error {
					for _, told := range w.(*model).said {
						outcomes[told]++
					}
					return nil
				})
		})
	}
	check.True(t, outcomes[confirmed] != 0 && outcomes[unknown] != 0 && outcomes[denied] != 0, "outcomes %v", outcomes)
}

// --- mutants

// bent is a session whose requests are meddled with.
type bent struct {
	client.Session
	*mutant
}

// Async implements [client.Session].
func (b bent) Async(epoch int) client.Async { return bentRequests{b.Session.Async(epoch), b.mutant} }

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
	b.Async.Multi(ops, answer)
}

// Get implements [client.Async].
func (b bentRequests) Get(path string, answer func([]byte, *session.Stat, error)) {
	b.Async.Get(path, func(data []byte, stat *session.Stat, err error) {
		if b.blank {
			data = nil
			if stat != nil {
				stat.Version = 0 // and so is not the version
			}
		}
		answer(data, stat, err)
	})
}

// Delete implements [client.Async].
func (b bentRequests) Delete(path string, version int32, answer func(error)) {
	if b.voids {
		answer(nil)
		return
	}
	b.Async.Delete(path, version, answer)
}

// TestMutants: each part of the protocol is needed. Without it the model finds a violation soon.
func TestMutants(t *testing.T) {
	marker := func(to func(path string) session.Op) func(ops []session.Op) []session.Op {
		return func(ops []session.Op) []session.Op {
			ops = slices.Clone(ops)
			ops[0] = to(ops[0].Path())
			return ops
		}
	}
	for _, s := range []scene{
		{
			name: "no write to the marker: it is done twice", clients: 1, writes: 1, faults: zkmodel.Faults{Cuts: 1},
			mutant: mutant{bend: marker(func(string) session.Op { return session.CheckOp("/", session.AnyVersion) })},
		},
		{
			name: "not at its version: a late one is done too", clients: 1, writes: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1},
			mutant: mutant{bend: marker(func(path string) session.Op { return session.SetOp(path, nil, session.AnyVersion) })},
		},
		{
			name: "a marker that is not as it was counts as unchanged", clients: 1, writes: 1, faults: zkmodel.Faults{Cuts: 1},
			mutant: mutant{blank: true, bend: marker(func(path string) session.Op { return session.SetOp(path, nil, session.AnyVersion) })},
		},
		{
			name: "given up while an attempt may come", clients: 1, writes: 1, tries: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1},
			mutant: mutant{voids: true},
		},
		{
			name: "a refusal counts while an attempt may come", clients: 2, writes: 1, narrow: true, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Restores: 1},
			mutant: mutant{voids: true},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			const walks = 20_000
			for seed := range uint64(walks) {
				random := rand.New(rand.NewPCG(seed, 1))
				if _, err := exploration.Walk[zkmodel.Action](newModel(&s, false), random.IntN); err != nil {
					t.Logf("mutant %q is found in %d walks: %v", s.name, seed+1, err)
					return
				}
			}
			t.Errorf("nothing is wrong in %d walks", walks)
		})
	}
}
