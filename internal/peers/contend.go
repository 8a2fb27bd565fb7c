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

// ErrRefused is the error of a [Contender.Join] that cannot stand in this line. A [Mix] goes on
// without that turn.
var ErrRefused = errors.New("refused")

// A Contender stands in line with others, again and again.
type Contender struct {
	Name   string
	Shared bool   // several of these contenders may hold at once
	Limit  int    // how many may, if they are shared; 0 is any number
	Dir    string // the line's directory below the path; "" is the path itself

	// Join returns when the contender holds. It gives up when ctx ends, and after wait, unless wait
	// is 0, with an error that wraps [context.DeadlineExceeded].
	Join func(ctx context.Context, path string, wait time.Duration) (Tenancy, error)
}

// line returns the directory of the line for a path.
func (c Contender) line(path string) string { return strings.TrimSuffix(path+"/"+c.Dir, "/") }

// A Tenancy is a grant to a contender. A [Claim] is one.
type Tenancy interface {
	// Visit reads the node at path, and writes it on the condition that it still has the version
	// that was read. It returns the version after the write.
	Visit(ctx context.Context, path string) (int, error)

	// Release returns when the contender does not hold any more.
	Release(ctx context.Context) error
}

// Visit implements [Tenancy.Visit] for a contender that has a session.
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

// A Room is the resource that a lock protects. It admits one exclusive holder, or any number of
// shared holders, or as many of these as the limit of the [Contender] allows. It is safe for
// concurrent use; the zero value is empty.
type Room struct {
	mu      sync.Mutex
	inside  map[string]bool // by name: whether the holder is shared
	limit   int             // the number of shared holders at once; 0 is no limit
	most    int
	entries []string
	version int // of the node that exclusive holders write
}

// Enter is called by a contender that believes that it holds. It returns an error if that
// contradicts the others in the room.
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

// Leave is called before the contender releases.
func (r *Room) Leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, who)
}

// visited records the version that an exclusive holder has written, and returns an error if another
// client has written between this holder and the one before.
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

// Most returns the largest number of contenders that were in the room at once.
func (r *Room) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// Handovers returns, for each pair of contenders, how often the second entered directly after the
// first.
func (r *Room) Handovers() map[[2]string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[[2]string]int)
	for i := 1; i < len(r.entries); i++ {
		counts[[2]string{r.entries[i-1], r.entries[i]}]++
	}
	return counts
}

// lead is the number of rounds by which a contender of [Mix] may be ahead of another.
const lead = 2

// Mix has every contender hold path rounds times, in turn. It fails the test if two contenders hold
// at once that must not.
//
// No contender is more than two rounds ahead of another. So nearly all the time all of them are in
// line, however slow some are. At the end the line must be empty. Mix returns the room that they
// shared. There a contender's name ends with its number in contenders.
func Mix(tb testing.TB, s *session.Session, path string, rounds int, contenders ...Contender) *Room {
	tb.Helper()
	ctx, cancel := context.WithCancel(check.Patient(tb))
	defer cancel()
	scratch := path + "-scratch"
	for _, node := range []string{
		path, // not a container: the servers would remove it when it is empty, which kazoo does not survive
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
			err = errors.Join(err, s.Sync(ctx, path), s.Sync(ctx, path)) // give other shared holders time to enter
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

// Pairs creates dir, and has every holder hold a path of its own below dir for every trier. While
// the holder holds, the trier first tries and gives up, and then waits until it holds. The test
// fails if a trier acquires while the holder excludes it, or does not acquire when it could. The
// pairs are parallel subtests.
func Pairs(t *testing.T, s *session.Session, dir string, holders, triers []Contender) {
	t.Helper()
	_, err := s.Create(t.Context(), dir, nil, session.Persistent)
	check.Must(t, err)
	for i, holder := range holders {
		for j, trier := range triers {
			t.Run(holder.Name+" holds, "+trier.Name+" tries", func(t *testing.T) {
				t.Parallel()
				p := pair{t: t, ctx: check.Patient(t), s: s, path: fmt.Sprintf("%s/%d-%d", dir, i, j), holder: holder, trier: trier}
				if holder.Shared && trier.Shared {
					p.both()
				} else {
					p.oneAfterTheOther()
				}
			})
		}
	}
}

// trial is the duration of a try that cannot succeed.
const trial = 250 * time.Millisecond

// A pair is a holder and a trier that contend for a path of their own.
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

	// First the trier tries for a short time: it is in line, and then gives up.
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

	// Then it waits: it is in line, and holds when the holder has released.
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

// meanwhile calls f in a goroutine, and returns a channel that is closed when f has returned. The
// test waits for that goroutine.
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

// inLine returns the number of nodes below path.
func inLine(ctx context.Context, tb testing.TB, s *session.Session, path string) int {
	tb.Helper()
	check.Must(tb, s.Sync(ctx, path))
	names, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		tb.Fatal(err)
	}
	return len(names)
}

// awaitLine returns when ok accepts the number of nodes in line, or when until is closed.
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
