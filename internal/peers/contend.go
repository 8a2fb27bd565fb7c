package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// ErrRefused is what [Contender.Join] returns if it cannot stand in this line. A [Mix] goes on.
var ErrRefused = errors.New("refused")

// A Contender stands in line with others, again and again.
type Contender struct {
	Name   string
	Shared bool   // several of them may hold at once
	Limit  int    // how many, if they are shared; 0 is any number
	Dir    string // where they stand in line below the path; "" is the path itself

	// Join returns when it holds. It gives up when ctx ends, and after wait, unless that
	// is 0, with an error that wraps [context.DeadlineExceeded].
	Join func(ctx context.Context, path string, wait time.Duration) (Tenancy, error)
}

// line returns where the contenders for a path stand.
func (c Contender) line(path string) string { return strings.TrimSuffix(path+"/"+c.Dir, "/") }

// A Tenancy is what a contender holds. A [Claim] is one.
type Tenancy interface {
	// Visit reads the node at path and writes it at the version that it has read.
	// It returns the version that the node then has.
	Visit(ctx context.Context, path string) (int, error)

	// Release returns when it holds no more.
	Release(ctx context.Context) error
}

// Visit is [Tenancy.Visit] for those who have a session.
func Visit(ctx context.Context, s *session.Session, path string) (int, error) {
	_, stat, err := s.Get(ctx, path)
	if err != nil {
		return 0, err
	}
	if stat, err = s.Set(ctx, path, nil, stat.Version); err != nil {
		return 0, err
	}
	return int(stat.Version), nil
}

// A Room is what a lock protects: one holder who is exclusive, or any number of those who
// share it, or as many as the [Contender] has for a limit. It is safe for concurrent use; the zero value is empty.
type Room struct {
	mu      sync.Mutex
	inside  map[string]bool // whether they share it
	limit   int             // of those who share it; 0 is none
	most    int
	entries []string
	version int // of the node that exclusive holders write
}

// Enter is called by a contender that believes to hold. It returns an error if others
// are in the room that should not be.
func (r *Room) Enter(who string, shared bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside == nil {
		r.inside = make(map[string]bool)
	}
	var others []string
	for other, theirs := range r.inside {
		if !theirs || !shared {
			others = append(others, other)
		}
	}
	r.inside[who] = shared
	r.most = max(r.most, len(r.inside))
	r.entries = append(r.entries, who)
	if r.limit > 0 && len(r.inside) > r.limit {
		return fmt.Errorf("%s holds as number %d of %d", who, len(r.inside), r.limit)
	}
	if len(others) > 0 {
		slices.Sort(others)
		return fmt.Errorf("%s holds while there still is %s", who, strings.Join(others, ", "))
	}
	return nil
}

// Leave is called before the release.
func (r *Room) Leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, who)
}

// visited takes note of the version that an exclusive holder has written, and returns an
// error if another has written since the one before.
func (r *Room) visited(version int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.version
	r.version = version
	if version != last+1 {
		return fmt.Errorf("version %d was written after %d", version, last)
	}
	return nil
}

// Most returns how many were in the room at once, at most.
func (r *Room) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// Handovers counts who came directly after whom, and how often.
func (r *Room) Handovers() map[[2]string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[[2]string]int)
	for i := 1; i < len(r.entries); i++ {
		counts[[2]string{r.entries[i-1], r.entries[i]}]++
	}
	return counts
}

// lead is how many rounds a contender of [Mix] may be ahead of another.
const lead = 2

// Mix has all contenders hold path in turn, rounds times each. It fails the test if two
// of them hold at once that may not.
//
// None is more than two rounds ahead of another: so all of them are in line nearly all
// the time, however slow some are. In the end the line must be empty. It returns the room
// that they were in, where each has its place in contenders added to its name.
func Mix(tb testing.TB, s *session.Session, path string, rounds int, contenders ...Contender) *Room {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	scratch := path + "-scratch"
	for _, node := range []string{
		path, // kazoo bears no parent that the servers remove, as they do with a container
		scratch,
	} {
		if _, err := s.Create(ctx, node, nil, session.Persistent); err != nil {
			tb.Fatal(err)
		}
	}
	room := Room{limit: contenders[0].Limit}
	line := contenders[0].line(path)
	turn := func(c Contender, who string) error {
		tenancy, err := c.Join(ctx, path, 0)
		if errors.Is(err, ErrRefused) {
			return nil
		}
		if err != nil {
			return err
		}
		err = room.Enter(who, c.Shared)
		if c.Shared {
			err = errors.Join(err, s.Sync(ctx, path), s.Sync(ctx, path)) // others can come
		} else {
			version, visitErr := tenancy.Visit(ctx, scratch)
			if visitErr == nil {
				visitErr = room.visited(version)
			}
			err = errors.Join(err, visitErr)
		}
		room.Leave(who)
		return errors.Join(err, tenancy.Release(ctx))
	}

	done := make([]sync.WaitGroup, rounds) // by round
	for round := range done {
		done[round].Add(len(contenders))
	}
	var all sync.WaitGroup
	for i, c := range contenders {
		who := c.Name + " #" + strconv.Itoa(i+1)
		all.Go(func() {
			for round := range rounds {
				if round >= lead {
					done[round-lead].Wait()
				}
				if ctx.Err() == nil {
					if err := turn(c, who); err != nil && !errors.Is(err, context.Canceled) {
						tb.Errorf("%s, round %d: %v", who, round, err)
						cancel()
					}
				}
				done[round].Done()
			}
		})
	}
	all.Wait()
	if !tb.Failed() {
		awaitLine(ctx, tb, s, line, nil, func(n int) bool { return n == 0 })
	}
	return &room
}

// Pairs makes dir, and has every holder hold a path of its own below it. Meanwhile every
// trier first tries and gives up, and then waits and holds. A trier that should not hold
// meanwhile, or one that should and does not, fails the test. The pairs are parallel
// subtests.
func Pairs(t *testing.T, s *session.Session, dir string, holders, triers []Contender) {
	t.Helper()
	_, err := s.Create(t.Context(), dir, nil, session.Persistent)
	check.Must(t, err)
	for i, holder := range holders {
		for j, trier := range triers {
			t.Run(holder.Name+" holds, "+trier.Name+" tries", func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				p := pair{t: t, ctx: ctx, s: s, path: fmt.Sprintf("%s/%d-%d", dir, i, j), holder: holder, trier: trier}
				if holder.Shared && trier.Shared {
					p.both()
				} else {
					p.oneAfterTheOther()
				}
			})
		}
	}
}

// trial is how long one tries that cannot succeed.
const trial = 250 * time.Millisecond

// A pair of contenders has a path of its own.
type pair struct {
	t             *testing.T
	ctx           context.Context //nolint:containedctx // a pair lives no longer than the call
	s             *session.Session
	path          string
	holder, trier Contender
	room          Room
}

func (p *pair) line() string { return p.holder.line(p.path) }

func (p *pair) both() {
	p.t.Helper()
	first := p.join(p.holder, "holder")
	second := p.join(p.trier, "trier")
	p.leave(first, "holder")
	p.leave(second, "trier")
}

func (p *pair) oneAfterTheOther() {
	p.t.Helper()
	first := p.join(p.holder, "holder")
	alone := inLine(p.ctx, p.t, p.s, p.line())

	// One that tries is in line, and then gives up.
	var err error
	tried := p.meanwhile(func() {
		var second Tenancy
		if second, err = p.trier.Join(p.ctx, p.path, trial); second != nil {
			err = errors.Join(err, p.room.Enter("trier", p.trier.Shared), second.Release(p.ctx))
		}
	})
	awaitLine(p.ctx, p.t, p.s, p.line(), tried, func(n int) bool { return n > alone })
	<-tried
	check.Require(p.t, errors.Is(err, context.DeadlineExceeded), "a try does not end for want of time: %v", err)
	awaitLine(p.ctx, p.t, p.s, p.line(), nil, func(n int) bool { return n == alone })

	// One that waits is in line, and holds when the other has released.
	var second Tenancy
	waited := p.meanwhile(func() {
		if second, err = p.trier.Join(p.ctx, p.path, 0); err == nil {
			err = p.room.Enter("trier", p.trier.Shared)
		}
	})
	awaitLine(p.ctx, p.t, p.s, p.line(), waited, func(n int) bool { return n > alone })
	p.leave(first, "holder")
	<-waited
	check.Must(p.t, err)
	p.leave(second, "trier")
}

func (p *pair) join(c Contender, who string) Tenancy {
	p.t.Helper()
	tenancy, err := c.Join(p.ctx, p.path, 0)
	if err == nil {
		err = p.room.Enter(who, c.Shared)
	}
	check.Must(p.t, err)
	return tenancy
}

func (p *pair) leave(tenancy Tenancy, who string) {
	p.t.Helper()
	p.room.Leave(who)
	check.Must(p.t, tenancy.Release(p.ctx))
}

// meanwhile calls f and returns a channel that is closed when f has returned, which the
// test waits for.
func (p *pair) meanwhile(f func()) <-chan struct{} {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		f()
	})
	p.t.Cleanup(wg.Wait)
	return done
}

// inLine returns how many nodes there are below path.
func inLine(ctx context.Context, tb testing.TB, s *session.Session, path string) int {
	tb.Helper()
	check.Must(tb, s.Sync(ctx, path))
	names, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		tb.Fatal(err)
	}
	return len(names)
}

// awaitLine returns when there are as many in line as ok wants, or until is closed.
func awaitLine(ctx context.Context, tb testing.TB, s *session.Session, path string, until <-chan struct{}, ok func(n int) bool) {
	tb.Helper()
	for !ok(inLine(ctx, tb, s, path)) {
		select {
		case <-until:
			return
		default:
		}
	}
}
