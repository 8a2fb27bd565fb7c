package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// neighbours are who stand for one election with this library, and with each other.
var neighbours = []struct {
	name   string
	layout election.Layout
	theirs []peers.Kind
}{
	{"Curator's latch", election.Curator, []peers.Kind{peers.CuratorLatch}},
	{"Curator's selector", election.CuratorSelector, []peers.Kind{peers.CuratorSelector}},
	{"kazoo's election", election.Kazoo, []peers.Kind{peers.KazooElection, peers.KazooLock}},
}

// TestRealPeers has one server and the other libraries for all that meets them.
func TestRealPeers(t *testing.T) {
	peers.Meet(t, map[string]peers.Play{"neighbours": meetNeighbours, "strangers": meetStrangers, "leaders": meetLeaders},
		map[string]peers.Play{"neighbours": meetNeighbours})
}

func meetNeighbours(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator := kit.Open(t, ens.Addrs(), nil)
	sessions := []*session.Session{kit.Open(t, ens.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)}
	for i, n := range neighbours {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			row := peers.Row{Theirs: n.theirs}
			reigns := &reigns{newest: make(map[string]int64)}
			for _, s := range sessions {
				row.Ours = append(row.Ours, reigns.contender(s, n.layout))
			}
			company.Contend(t, operator, company.At(fmt.Sprintf("/neighbours-%d", i)), 300, row)
		})
	}
}

// meetLeaders: who leads, and who has led, is seen on both sides.
func meetLeaders(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	operator := kit.Open(t, ens.Addrs(), nil)
	for _, n := range neighbours {
		for _, kind := range n.theirs {
			t.Run("who sees "+string(kind), func(t *testing.T) {
				t.Parallel()
				path := company.At("/seen-" + strings.ReplaceAll(string(kind), "/", "-"))
				seen(t, company.Peer(t, kind.Library()), operator, path, kind, n.layout)
			})
		}
	}
	for kind, layout := range map[peers.Kind]election.Layout{peers.CuratorLatch: election.Curator, peers.KazooElection: election.Kazoo} {
		t.Run(string(kind)+" is gone", func(t *testing.T) {
			t.Parallel()
			gone(t, ens, company, kind, layout)
		})
		t.Run(string(kind)+" waits, and we are cut off", func(t *testing.T) {
			t.Parallel()
			cutOff(t, ens, company, kind, layout)
		})
	}
}

// reigns are the terms of our leaders. Those of one path grow.
type reigns struct {
	mu     sync.Mutex
	newest map[string]int64 // by path
}

func (r *reigns) begin(path string, term int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.newest[path]
	r.newest[path] = max(last, term)
	if term <= last {
		return fmt.Errorf("term %d after %d", term, last)
	}
	return nil
}

func (r *reigns) contender(s *session.Session, layout election.Layout) peers.Contender {
	return peers.Contender{
		Name: "our candidate",
		Join: func(ctx context.Context, path string, wait time.Duration) (peers.Tenancy, error) {
			if wait > 0 {
				limited, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				ctx = limited
			}
			c, err := election.New(s, path, &election.Options{Layout: layout})
			if err != nil {
				return nil, err
			}
			term, err := elected(ctx, c)
			if err == nil {
				err = r.begin(path, term)
			}
			if err != nil {
				c.Close()
				return nil, err
			}
			return tenancy{c, s, term}, nil
		},
	}
}

// elected returns when the candidate leads.
func elected(ctx context.Context, c *election.Candidate) (term int64, err error) {
	for {
		select {
		case ev, ok := <-c.Events():
			if e, is := ev.(election.Elected); is {
				return e.Term, nil
			}
			if !ok {
				return 0, errors.Join(errors.New("it has left"), c.Err())
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// A tenancy is a term of ours.
type tenancy struct {
	*election.Candidate
	session *session.Session
	term    int64
}

func (h tenancy) Visit(ctx context.Context, path string) (int, error) {
	version, err := peers.Visit(ctx, h.session, path)
	if term, leading := h.Leading(); !leading || term != h.term {
		err = errors.Join(err, fmt.Errorf("elected in term %d, and now it is %d, %v", h.term, term, leading))
	}
	return version, err
}

func (h tenancy) Release(ctx context.Context) error {
	defer h.Close()
	return h.Resign(ctx)
}

// seen: who leads is told by them of us, and by us of them.
func seen(t *testing.T, peer *peers.Peer, s *session.Session, path string, kind peers.Kind, layout election.Layout) {
	const ours = "our-id"
	ctx := check.Patient(t)
	observer := check.Have(election.Observe(s, path, &election.ObserveOptions{Layout: layout}))(t)
	defer observer.Close()
	first := check.Have(peer.Acquire(ctx, kind, path))(t)
	c := check.Have(election.New(s, path, &election.Options{Layout: layout, Data: []byte(ours)}))(t)
	defer c.Close()
	var won election.Elected // the newest
	var told election.LeaderChanged
	next := func() {
		t.Helper()
		select {
		case ev := <-c.Events():
			switch ev := ev.(type) {
			case election.Elected:
				won = ev
			case election.LeaderChanged:
				told = ev
			case election.Standing, election.Suspended, election.Resumed, election.Deposed, election.Overrun, election.Left:
			}
		case <-ctx.Done():
			t.Fatalf("nothing happens after %v and %v", won, told)
		}
	}
	leads := func(node, id string) (term int64) {
		t.Helper()
		if node == "-" { // LeaderSelector does not reveal it
			for string(told.Leader.Data) != id {
				next()
			}
			node = told.Leader.Node
		}
		for told.Leader.Node != node {
			next()
		}
		for done := false; !done; {
			select {
			case ev := <-observer.Events():
				term, done = ev.Term, ev.Leader.Node == node
			case <-ctx.Done():
				t.Fatalf("the observer is not told of %s", id)
			}
		}
		mine, known := c.Leader()
		other, knows := observer.Leader()
		if !known || !knows || mine.Node != node || other.Node != node || string(mine.Data) != id || string(other.Data) != id {
			t.Errorf("%s as %s leads; the candidate knows %v, the observer %v", id, node, mine, other)
		}
		check.True(t, told.Term == term && string(told.Leader.Data) == id, "the candidate is told of %v, the observer of term %d", told, term)
		if stat, err := s.Exists(ctx, node); err != nil || stat == nil || stat.Czxid != term {
			t.Errorf("term %d of %+v, %v", term, stat, err)
		}
		return term
	}
	line := func(want ...string) {
		t.Helper()
		if got, err := peer.Line(ctx, kind, path); err != nil || !slices.Equal(got, want) {
			t.Errorf("they see %q, %v, want %q", got, err, want)
		}
		check.OK(t, s.Sync(ctx, path)) // its server may be behind
		standing, err := election.Candidates(ctx, s, path, &election.ObserveOptions{Layout: layout})
		var got []string
		for i, who := range standing {
			got = append(got, string(who.Data))
			check.Equal(t, who.Leading, i == 0, who.Data, "leads")
		}
		check.True(t, err == nil && slices.Equal(got, want), "we see %q, %v, want %q", got, err, want)
	}

	inLine := func(n int) {
		t.Helper()
		for names := []string(nil); len(names) != n; {
			var err error
			names, _, err = s.Children(ctx, path)
			check.Must(t, err)
		}
	}

	before := leads(first.Node(), first.ID())
	inLine(2)
	line(first.ID(), ours)
	check.Must(t, first.Release(ctx))
	for won.Term == 0 {
		next()
	}
	if term := leads(c.Node(), ours); term != won.Term || term <= before {
		t.Errorf("elected in term %d, which is %d, after %d", won.Term, term, before)
	}
	line(ours)
	second := check.Have(peer.Join(kind, path, 0))(t)
	inLine(2)
	line(ours, second.ID())
	check.Must(t, c.Resign(ctx))
	select {
	case <-second.Acquired():
	case <-ctx.Done():
		t.Fatal("they do not lead after us")
	}
	after := leads(second.Node(), second.ID())
	check.True(t, after > won.Term, "term %d after %d", after, won.Term)
	inLine(2) // it stands again
	line(second.ID(), ours)
	check.OK(t, second.Release(ctx))
}

// gone: we lead when the session of a leader that has crashed is over, and not before.
func gone(t *testing.T, ens *zktest.Ensemble, company *peers.Company, kind peers.Kind, layout election.Layout) {
	path := company.At("/gone-" + string(kind.Library()))
	ctx := check.Patient(t)
	peer := company.Start(t, kind.Library(), ens.Addrs(), &peers.Options{SessionTimeout: 2 * time.Second})
	claim := check.Have(peer.Acquire(ctx, kind, path))(t)
	s := kit.Open(t, ens.Addrs(), nil)
	c := check.Have(election.New(s, path, &election.Options{Layout: layout}))(t)
	defer c.Close()
	for kit.Await[election.LeaderChanged](t, c.Events()).Leader.Node != claim.Node() {
		if t.Failed() {
			t.FailNow()
		}
	}
	check.Must(t, peer.Kill())
	check.Have(elected(ctx, c))(t)
	check.Must(t, s.Sync(ctx, path)) // its server may be behind
	stat, err := s.Exists(ctx, claim.Node())
	check.True(t, err == nil && stat == nil, "we lead, and there is still %s: %+v, %v", claim.Node(), stat, err)
}

// cutOff: our leader is deposed before another leads.
func cutOff(t *testing.T, ens *zktest.Ensemble, company *peers.Company, kind peers.Kind, layout election.Layout) {
	path, peer := company.At("/cut-off-"+string(kind.Library())), company.Peer(t, kind.Library())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	c := check.Have(election.New(mortal(t, proxy.Addrs()), path, &election.Options{Layout: layout}))(t)
	defer c.Close()
	kit.Await[election.Elected](t, c.Events())
	claim, err := peer.Join(kind, path, 0)
	check.Must(t, err)
	s := kit.Open(t, ens.Addrs(), nil)
	for line := []election.Candidacy(nil); len(line) < 2; {
		line, err = election.Candidates(check.Patient(t), s, path, &election.ObserveOptions{Layout: layout})
		check.Must(t, err)
	}
	proxy.Freeze(0, zktest.Both)
	kit.Await[election.Suspended](t, c.Events())
	kit.Await[election.Deposed](t, c.Events())
	deposed := time.Now()
	check.None(t, claim.Acquired(), "we are deposed, and another led already")
	select {
	case <-claim.Acquired():
	case <-check.Patient(t).Done():
		t.Error("nobody leads after us")
	}
	t.Logf("deposed %v before another led", time.Since(deposed))
	proxy.Thaw(0)
	for kit.Await[election.LeaderChanged](t, c.Events()).Leader.Node != claim.Node() {
		if t.Failed() {
			t.FailNow()
		}
	}
	check.OK(t, claim.Release(check.Patient(t)))
	kit.Await[election.Elected](t, c.Events())
}

// trial is how long a contender that cannot succeed is given.
const trial = 500 * time.Millisecond

// strangers says for each of our layouts, in the order of theirs, what a contender of theirs does
// while a candidate of ours leads: it waits (w), or leads too (l); what a candidate of ours that
// waits does when that has left: it is elected (e), or is refused (r); and what one does that comes
// while theirs leads: it waits (w), is refused (r), or is elected (e). The documentation of
// [election.Layout] has the same.
var (
	theirs = []struct {
		kind peers.Kind
		dir  string // below the path
	}{
		{peers.CuratorLatch, ""},
		{peers.CuratorSelector, ""},
		{peers.CuratorMutex, ""},
		{peers.KazooElection, ""},
		{peers.KazooLock, ""},
		{peers.KazooElection, "/candidates"}, // where only the standard layout has contenders
	}
	strangers = map[election.Layout]string{
		election.Standard: "lrr lrr lrr lrr lrr lrr",
		election.Curator:  "wew lrr lrr lrr lrr",
		election.Kazoo:    "lrr lrr lrr wew wew",

		election.CuratorSelector: "lrr wew wew lrr lrr",
	}
)

// meetStrangers measures which elections exclude which. No candidate of ours is elected while a
// contender of another layout leads.
func meetStrangers(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	s := kit.Open(t, ens.Addrs(), nil)
	for layout, row := range strangers {
		for i, want := range strings.Fields(row) {
			t.Run(fmt.Sprintf("%v beside %s in %q", layout, theirs[i].kind, theirs[i].dir), func(t *testing.T) {
				t.Parallel()
				their := company.Peer(t, theirs[i].kind.Library()).Contender(theirs[i].kind)
				path := company.At(fmt.Sprintf("/strangers-%v-%d", layout, i))
				got := theyCome(t, s, path, theirs[i].dir, layout, their, want[0] == 'l') + weCome(t, s, path+"-they", theirs[i].dir, layout, their)
				check.Equal(t, got, want)
			})
		}
	}
}

// theyCome has a contender of theirs come while a candidate of ours leads, and another waits. Only
// one that is not expected to be elected has no more than a trial.
func theyCome(t *testing.T, s *session.Session, path, dir string, layout election.Layout, their peers.Contender, expected bool) (cell string) {
	t.Helper()
	ctx, opts := check.Patient(t), &election.Options{Layout: layout}
	leader := check.Have(election.New(s, path, opts))(t)
	defer leader.Close()
	check.Have(elected(ctx, leader))(t)
	waiter := check.Have(election.Stand(ctx, s, path, opts))(t)
	limit := trial
	if expected {
		limit = 0
	}
	their.Overtakes(ctx, t, path+dir, limit, func(led bool) {
		defer waiter.Close()
		cell = "w"
		if led {
			cell = "l"
		}
		leader.Close()
		switch _, left := elected(ctx, waiter); {
		case left == nil:
			cell += "e"
		case errors.Is(left, election.ErrLayout):
			cell += "r"
		default:
			t.Errorf("a waiter of ours has ended: %v", left)
		}
	})
	return cell
}

// weCome has a candidate of ours come while theirs leads.
func weCome(t *testing.T, s *session.Session, path, dir string, layout election.Layout, their peers.Contender) string {
	t.Helper()
	ctx := check.Patient(t)
	tenancy := check.Have(their.Join(ctx, path+dir, 0))(t)
	defer func() {
		check.OK(t, tenancy.Release(ctx))
	}()
	c := check.Have(election.New(s, path, &election.Options{Layout: layout}))(t)
	defer c.Close()
	for {
		select {
		case ev := <-c.Events():
			switch ev := ev.(type) {
			case election.Elected:
				return "e"
			case election.LeaderChanged:
				if strings.HasPrefix(ev.Leader.Node, path) && ev.Leader.Node != c.Node() {
					return "w"
				}
			case election.Left:
				check.Is(t, ev.Err, election.ErrLayout, "it has left")
				return "r"
			case election.Standing, election.Suspended, election.Resumed, election.Deposed, election.Overrun:
			}
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}
