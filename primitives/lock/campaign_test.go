package lock_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var (
	campaignSeeds = flag.Uint64("lock.seeds", 6, "seeds of the campaign of random contenders")
	campaignFirst = flag.Uint64("lock.seed", 0, "the first of these seeds")
	realCampaign  = flag.Bool("lock.campaign", false, "real servers are used as often as was promised: 500 grants to twenty contenders, 1,000 cycles, 600 rounds, 300 grants with each neighbour")
)

// often returns how often something is done on real servers.
func often(usual, campaign int) int {
	if *realCampaign {
		return campaign
	}
	return hasten.Usually(usual, (usual+2)/3)
}

// An arena is a path where contenders of layouts that exclude each other meet.
type arena struct {
	path     string
	layouts  []lock.Layout
	kinds    []lock.Kind
	revoked  bool // a third party revokes, also by force, and an operator deletes nodes
	preempts bool // contenders do
}

// Every seed plays in two arenas, so that three seeds in a row see all of them.
var arenas = [][2]arena{
	{
		{path: "/standard", layouts: []lock.Layout{lock.Standard}, kinds: everyKind, revoked: true},
		{path: "/preempted", layouts: []lock.Layout{lock.Prioritized}, kinds: everyKind, preempts: true},
	},
	{
		{path: "/curator", layouts: []lock.Layout{lock.Curator}, kinds: everyKind},
		{path: "/prioritized", layouts: []lock.Layout{lock.Prioritized}, kinds: everyKind, revoked: true},
	},
	{
		{path: "/kazoo", layouts: []lock.Layout{lock.Kazoo}, kinds: everyKind, revoked: true},
		{path: "/mutexes", layouts: []lock.Layout{lock.Standard, lock.Curator}, kinds: []lock.Kind{lock.Exclusive}},
	},
}

var everyKind = []lock.Kind{lock.Exclusive, lock.Read, lock.Write}

// tolerates reports whether holders may lose their nodes while their sessions live.
func (a *arena) tolerates() bool { return a.revoked || a.preempts }

// A happening is a kind of thing that a campaign has to have seen.
type happening string

// The happenings, but for faults, which are named where they are made.
const (
	grantedWrite, grantedRead, grantedExclusive happening = "write grant", "read grant", "exclusive grant"
	downgraded, triedInVain, gaveUp             happening = "downgrade", "tried in vain", "gave up"
	lostToDeath, lostToForce                    happening = "lost with the session", "lost with the node"
	askedByOthers, preempted                    happening = "revoked", "preempted"
	abandoned, refusedStale                     happening = "closed from beside", "stale write refused"
	sharedAtOnce, forceOverlap                  happening = "readers at once", "believed on after force"
)

// A campaign is what is known of one seed.
type campaign struct {
	t        *testing.T
	srv      *zktest.Server
	sessions []*session.Session

	mu      sync.Mutex
	seen    map[happening]int
	struck  map[int64]bool // sessions that were expired by hand
	holding map[string][]*belief
	spans   map[string][]span
}

// A belief is a grant of which a holder has heard. It ends with the handle's Done.
type belief struct {
	l       *lock.Lock
	kind    lock.Kind
	session int64
	who     string
}

// A span is between two zxids at which the server has accepted the guard of one grant.
type span struct {
	first, last int64
	token       int64
	shared      bool
	who         string
}

func (c *campaign) saw(what happening) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[what]++
}

// believes notes that a grant has been heard of. No other holder that excludes it may believe
// in its own then, unless its node was deleted. No holder may believe in what went with a
// session that has expired by itself.
func (c *campaign) believes(a *arena, b *belief) {
	c.mu.Lock()
	defer c.mu.Unlock()
	paths, sessions := c.srv.Paths(), c.srv.Sessions()
	stands := func(b *belief) bool { return slices.Contains(paths, b.l.Node()) }
	for path, all := range c.holding {
		all = slices.DeleteFunc(all, func(b *belief) bool { return isClosed(b.l.Done()) })
		c.holding[path] = all
		for _, other := range all {
			check.False(c.t, !slices.Contains(sessions, other.session) && !c.struck[other.session], "%s: %s believes in what went with its session", path, other.who)
		}
	}
	if isClosed(b.l.Done()) {
		return
	}
	for _, other := range c.holding[a.path] {
		switch {
		case b.kind == lock.Read && other.kind == lock.Read:
			c.seen[sharedAtOnce]++
		case stands(other) && stands(b):
			c.t.Errorf("%s: %s and %s stand there, and both hold the lock", a.path, other.who, b.who)
		case c.struck[other.session] || c.struck[b.session]:
		case !a.tolerates():
			c.t.Errorf("%s: %s was granted what %s holds", a.path, b.who, other.who)
		default:
			c.seen[forceOverlap]++
		}
	}
	c.holding[a.path] = append(c.holding[a.path], b)
}

// lowers notes that a writer is about to share.
func (c *campaign) lowers(b *belief) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.kind = lock.Read
}

// lost looks at the reason of a loss.
func (c *campaign) lost(a *arena, b *belief) {
	err := b.l.Err()
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	forced := errors.Is(err, lock.ErrNodeDeleted) || errors.Is(err, lock.ErrRevoked)
	switch {
	case !errors.Is(err, lock.ErrLost):
		c.t.Errorf("%s: %v", b.who, err)
	case !forced && (errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrLapsed)):
		c.seen[lostToDeath]++
	case forced && slices.Contains(c.srv.Sessions(), b.session) && !a.tolerates():
		c.t.Errorf("%s: %v, of a session that lives", b.who, err)
	case forced:
		c.seen[lostToForce]++
	default:
		c.t.Errorf("%s: %v", b.who, err)
	}
}

// write writes under the guard of the grant. It returns the zxid, 0 if that is not known.
func (c *campaign) write(s *session.Session, b *belief, mark string) int64 {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	results, err := s.Multi(ctx, b.l.Guard(), session.SetOp(mark, nil, session.AnyVersion))
	switch {
	case err == nil:
		return results[1].Stat.Mzxid
	case errors.Is(err, lock.ErrNotHeld):
		check.False(c.t, slices.Contains(c.srv.Paths(), b.l.Node()) && !isClosed(b.l.Done()), "%s: refused, and its node is there: %v", b.who, err)
		c.saw(refusedStale)
	}
	return 0
}

// accept notes that the guard held at first, and at last if that is known.
func (c *campaign) accept(a *arena, b *belief, first, last int64) {
	if first == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans[a.path] = append(c.spans[a.path], span{first, max(first, last), b.l.Token(), b.kind == lock.Read, b.who})
}

// check looks for overlaps and for tokens that do not grow, in the server's own time.
func (c *campaign) check() {
	for path, spans := range c.spans {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
		for i, next := range spans {
			for _, former := range spans[:i] {
				if former.shared && next.shared {
					continue
				}
				check.True(c.t, former.last < next.first, "%s: %+v overlaps %+v", path, former, next)
				if former.token >= next.token && former.who != next.who { // a writer that was downgraded keeps its own
					c.t.Errorf("%s: token of %+v after %+v", path, next, former)
				}
			}
		}
	}
}

// story collects the first letters of the events of a lock, until the last.
func (c *campaign) story(wg *sync.WaitGroup, l *lock.Lock, who string) {
	events := l.Events()
	wg.Go(func() {
		var told, letters strings.Builder
		for ev := range events {
			letters.WriteString(map[string]string{
				"Waiting": "w", "Acquired": "a", "Suspended": "s", "Resumed": "r", "Revoked": "v", "Released": "E", "Lost": "E", "Failed": "F",
			}[strings.TrimPrefix(fmt.Sprintf("%T", ev), "lock.")])
			fmt.Fprintf(&told, "%v; ", ev)
		}
		check.True(c.t, grammar.MatchString(letters.String()) && strings.Count(letters.String(), "v") <= 1, "%s was told: %s", who, told.String())
	})
}

var grammar = regexp.MustCompile(`^w*((a?v?(sv?rv?)*(sv?)?)?E|F)$`)

var tries = map[bool]string{true: "tries", false: "acquires"}

// contend is one round of a contender.
func (c *campaign) contend(wg *sync.WaitGroup, r *rand.Rand, a *arena, s *session.Session, who, mark string) {
	kind := a.kinds[r.IntN(len(a.kinds))]
	opts := &lock.Options{Layout: a.layouts[r.IntN(len(a.layouts))], Data: []byte(who), ReleaseInBackground: r.IntN(8) == 0}
	if opts.Layout == lock.Prioritized {
		opts.Priority = r.IntN(5) - 2
	}
	if a.preempts && r.IntN(2) == 0 {
		opts.Preempt, opts.PreemptAfter = true, time.Duration(r.IntN(4))*50*time.Millisecond
	}
	try, patience := r.IntN(6) == 0, time.Hour
	impatient := r.IntN(6) == 0
	if impatient {
		patience = time.Duration(1+r.IntN(300)) * time.Millisecond
	}
	how := opens[kind].acquire
	if try {
		how = opens[kind].try
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	l, err := how(ctx, s, a.path, opts)
	cancel()
	switch {
	case try && errors.Is(err, lock.ErrHeld):
		c.saw(triedInVain)
		return
	case impatient && errors.Is(err, context.DeadlineExceeded):
		c.saw(gaveUp)
		return
	case try && errors.Is(err, session.ErrExpired), impatient && errors.Is(err, session.ErrExpired):
		return
	case err != nil:
		c.t.Errorf("%s %s %s, %v: %v", who, tries[try], a.path, kind, err)
		return
	}
	c.saw(map[lock.Kind]happening{lock.Exclusive: grantedExclusive, lock.Read: grantedRead, lock.Write: grantedWrite}[kind])
	b := &belief{l, kind, s.ID(), fmt.Sprintf("%s %v %d", who, kind, l.Token())}
	c.believes(a, b)
	c.story(wg, l, b.who)
	c.hold(wg, r, a, s, b, mark)
	c.lost(a, b)
}

// hold is what a holder does until it has left.
func (c *campaign) hold(wg *sync.WaitGroup, r *rand.Rand, a *arena, s *session.Session, b *belief, mark string) {
	defer b.l.Close()
	work := func() {
		first := c.write(s, b, mark)
		select {
		case <-time.After(time.Duration(r.IntN(60)) * time.Millisecond):
		case <-b.l.Done():
		}
		c.accept(a, b, first, c.write(s, b, mark))
	}
	if r.IntN(12) == 0 {
		after := time.Duration(r.IntN(30)) * time.Millisecond
		wg.Go(func() {
			<-time.After(after)
			b.l.Close()
		})
		c.saw(abandoned)
	}
	work()
	if b.kind == lock.Write && r.IntN(2) == 0 {
		c.lowers(b)
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(1+r.IntN(2000))*time.Millisecond)
		err := b.l.Downgrade(ctx)
		cancel()
		if err == nil {
			c.saw(downgraded)
			work()
		}
	}
	if isClosed(b.l.Revoked()) {
		c.saw(map[bool]happening{true: preempted, false: askedByOthers}[a.preempts])
		if r.IntN(2) == 0 { // it does not hurry
			select {
			case <-time.After(time.Second):
			case <-b.l.Done():
			}
			c.accept(a, b, c.write(s, b, mark), 0)
		}
	}
	if r.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(1+r.IntN(100))*time.Millisecond)
		_ = b.l.Release(ctx)
		cancel()
	}
}

// strike is one fault. It returns what is to be done to end it, if anything is.
func (c *campaign) strike(r *rand.Rand) (what happening, after func()) {
	id := c.sessions[r.IntN(len(c.sessions))].ID()
	if id == 0 {
		return "", nil
	}
	ops := []zktest.Op{0, 0, zktest.OpMulti, zktest.OpDelete, zktest.OpCreate, zktest.OpGetData, zktest.OpExists, zktest.OpGetChildren2, zktest.OpSetData}
	match := zktest.Match{Session: id, Op: ops[r.IntN(len(ops))], Skip: r.IntN(3)}
	switch r.IntN(12) {
	case 0:
		c.srv.Disconnect(id)
		return "cut", nil
	case 1:
		c.srv.DropReply(match)
		return "lost reply", nil
	case 2:
		c.srv.DropRequest(match)
		return "lost request", nil
	case 3:
		c.srv.Freeze(id, []zktest.Direction{zktest.ToServer, zktest.ToClient, zktest.Both}[r.IntN(3)])
		return "freeze", func() { c.srv.Thaw(id) }
	case 4:
		c.mu.Lock()
		c.struck[id] = true
		c.mu.Unlock()
		c.srv.Expire(id)
		return "expiry", nil
	case 5, 6:
		for range 1 + r.IntN(4) {
			c.srv.AnswerError(match, []int32{throttled, -7}[r.IntN(2)])
		}
		return "throttled", nil
	case 7:
		c.srv.Delay(match, time.Duration(r.IntN(800))*time.Millisecond)
		return "delay", nil
	case 8:
		c.srv.DelayEvent(zktest.Match{Session: id}, time.Duration(r.IntN(400))*time.Millisecond)
		return "late event", nil
	case 9:
		i := r.IntN(3)
		c.srv.Isolate(i)
		return "isolation", func() { c.srv.Heal(i) }
	case 10:
		c.srv.SetLag(r.IntN(3), time.Duration(r.IntN(200))*time.Millisecond)
		return "lag", nil
	default:
		c.srv.Refuse(true)
		return "refused", func() { c.srv.Refuse(false) }
	}
}

// strikes makes faults one after the other; some last while others come.
func (c *campaign) strikes(r *rand.Rand, over <-chan struct{}) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	const most = 300
	for range most {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(r.IntN(500)) * time.Millisecond):
		}
		what, after := c.strike(r)
		if what == "" {
			continue
		}
		c.saw(what)
		if after != nil {
			d := time.Duration(r.IntN(1500)) * time.Millisecond
			if what == "freeze" && r.IntN(2) == 0 {
				d += 8 * time.Second // sessions expire
			}
			lasting.Go(func() {
				<-time.After(d)
				after()
			})
		}
	}
}

// meddles revokes, and deletes by hand.
func (c *campaign) meddles(r *rand.Rand, a *arena, operator *session.Session, over <-chan struct{}) {
	layout := a.layouts[0]
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(r.IntN(500)) * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		opts := &lock.RevokeOptions{Layout: layout, ForceAfter: time.Duration(r.IntN(4)) * 20 * time.Millisecond}
		switch r.IntN(5) {
		case 0, 1, 2:
			err := lock.Revoke(ctx, operator, a.path, opts)
			check.False(c.t, err != nil && !errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, context.DeadlineExceeded), "revoke: %v", err)
		default:
			all, err := lock.Contenders(ctx, operator, a.path, &lock.Options{Layout: layout})
			if err != nil {
				c.t.Errorf("contenders: %v", err)
			} else if len(all) > 0 {
				node := all[r.IntN(len(all))].Node
				if r.IntN(2) == 0 {
					_ = operator.Delete(ctx, node, session.AnyVersion)
				} else if err := lock.RevokeNode(ctx, operator, node, opts); err != nil && !errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, context.DeadlineExceeded) {
					c.t.Errorf("revoke %s: %v", node, err)
				}
			}
		}
		cancel()
	}
}

// play plays a seed.
func (c *campaign) play(seed uint64) {
	const contenders, rounds = 10, 60
	t := c.t
	both := &arenas[seed%uint64(len(arenas))]
	last := len(c.sessions) - 1
	operator := c.sessions[last]
	c.sessions = c.sessions[:last] // no fault is aimed at it
	kit.Ensure(t, operator, "/marks", nil)
	var wg, beside sync.WaitGroup
	over := make(chan struct{})
	for i := range contenders {
		mark := fmt.Sprint("/marks/", i)
		kit.Ensure(t, operator, mark, nil)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for round := range rounds {
				c.contend(&wg, r, &both[r.IntN(2)], c.sessions[i%last], fmt.Sprintf("%d.%d", i, round), mark)
			}
		})
	}
	beside.Go(func() { c.strikes(rand.New(rand.NewPCG(seed, 100)), over) })
	for i := range both {
		if both[i].revoked {
			beside.Go(func() { c.meddles(rand.New(rand.NewPCG(seed, 200)), &both[i], operator, over) })
		}
	}
	wg.Wait()
	close(over)
	beside.Wait()
	c.srv.ClearFaults()
	<-time.After(time.Minute)
	c.check()
	for _, path := range c.srv.Paths() {
		if i := strings.LastIndexByte(path, '/'); i > 0 && !strings.HasPrefix(path, "/marks") && !strings.HasPrefix(path, "/zookeeper") && path[i:] != "/readers" {
			t.Errorf("%s is left", path)
		}
	}
}

// TestCampaign: contenders of mixed kinds, layouts and priorities, whatever happens to their
// sessions, nodes and servers: no two exclusive grants overlap, in the server's time or in what
// holders believe, tokens grow, all get on, and nothing is left. A seed is played again with
// -lock.seed n -lock.seeds 1; 60 seeds are a campaign.
func TestCampaign(t *testing.T) {
	seeds := hasten.Sized(*campaignSeeds, 1)
	total := make(map[happening]int)
	for seed := *campaignFirst; seed < *campaignFirst+seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := &campaign{
				seen: make(map[happening]int), struck: make(map[int64]bool),
				holding: make(map[string][]*belief), spans: make(map[string][]span),
			}
			config := zktest.Config{Replicas: 3, Lag: 7 * time.Millisecond, Latency: time.Millisecond, ReapInterval: 2 * time.Second}
			spread(t, config, 6, 6*time.Second, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				c.t, c.srv, c.sessions = t, srv, all
				c.play(seed)
			})
			for what, n := range c.seen {
				total[what] += n
			}
			t.Logf("%v", c.seen)
		})
	}
	t.Logf("in all: %v", total)
	if seeds < uint64(len(arenas)) {
		return // not every kind of thing can happen
	}
	const campaigns = 60 // seeds: what is rare happens, too
	check.False(t, seeds >= campaigns && total[lostToDeath] == 0, "%s never happened", lostToDeath)
	for _, what := range []happening{
		grantedWrite, grantedRead, grantedExclusive, downgraded, triedInVain, gaveUp, lostToForce, askedByOthers, preempted, abandoned, sharedAtOnce,
		"cut", "lost reply", "lost request", "freeze", "expiry", "throttled", "delay", "late event", "isolation", "lag", "refused",
	} {
		check.True(t, total[what] != 0, "%s never happened", what)
	}
}
