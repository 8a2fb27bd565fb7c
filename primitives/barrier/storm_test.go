package barrier_test

import (
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
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has parties enter and leave rounds, gates be raised, and clients wait for barriers,
// while connections break, requests and replies are lost or late, servers are busy, sessions
// expire, followers lag and empty directories are removed. What must hold, whatever fails:
//
//   - A round has as many members as there are parties, each once, and all of them know the same
//     members. Rounds do not overlap.
//   - Leave returns when no other member is in the round whose session lives.
//   - No two gates stand. Wait does not return while one barrier stands from before the call to
//     after it.
//   - The events are those of the grammar. When all is well again, rounds and barriers go on.
//     Nothing is left.

var (
	stormSeeds = flag.Int("barrier.seeds", hasten.Usually(4, 1), "storms of each kind; 300 are a campaign")
	stormFirst = flag.Int("barrier.first", 0, "the first of their seeds")
)

const (
	strikes = 40 * time.Second // while all fails
	settles = 45 * time.Second // until sessions that have failed are gone
	calm    = 20 * time.Second // in which all go on
)

// A storm is one run. Its lock guards all that is not constant.
type storm struct {
	*testing.T

	srv     *zktest.Server
	all     []*session.Session
	meddled bool          // an operator deletes nodes: then who excludes whom is not checked
	calms   chan struct{} // closed when nothing fails any more

	mu      sync.Mutex
	random  *rand.Rand
	expired map[int64]bool          // sessions that the server has ended
	members map[string][]string     // by round, unless the record may be made anew
	inside  map[string]int64        // the sessions of members that know that they are in, by party and round
	gates   map[*barrier.Gate]int64 // the sessions of those that have been raised
	stands  int                     // the number of the barrier that stands for certain; 0 for none
	done    int                     // rounds that were left, gates that were raised, or calls of Wait that returned
	log     []string
}

// storms plays with so many sessions for each seed.
func storms(t *testing.T, kind uint64, config func(*rand.Rand) (sessions int, _ zktest.Config), play func(ctx context.Context, w *storm, calls *sync.WaitGroup)) {
	t.Helper()
	for seed := *stormFirst; seed < *stormFirst+hasten.Sized(*stormSeeds, 1); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), kind))
			n, c := config(random)
			c.Replicas = 3
			bubble(t, n, c, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				w := &storm{
					T: t, srv: srv, all: all, meddled: seed%4 == 3, calms: make(chan struct{}), random: random,
					expired: map[int64]bool{}, inside: map[string]int64{}, gates: map[*barrier.Gate]int64{},
				}
				if c.ReapInterval == 0 && !w.meddled {
					w.members = map[string][]string{}
				}
				var calls, faults sync.WaitGroup
				ctx, end := context.WithCancel(t.Context())
				defer end()
				play(ctx, w, &calls)
				faults.Go(w.strike)
				kit.Pass(strikes)
				close(w.calms)
				faults.Wait()
				srv.ClearFaults()
				kit.Pass(settles)
				before := w.count()
				kit.Pass(calm)
				if got := w.count() - before; got < 2*len(all) {
					w.fail("in the calm only %d go on, after %d; there are %q", got, before, srv.Paths())
				}
				end()
				calls.Wait()
				kit.Pass(time.Second)
				for range 4 { // a directory, and the one above it
					srv.Reap()
				}
				for _, left := range srv.Paths() {
					if strings.HasPrefix(left, path) {
						w.fail("%s is left", left)
					}
				}
			})
		})
	}
}

func (w *storm) count() int { w.mu.Lock(); defer w.mu.Unlock(); return w.done }

// below, oneIn and pause choose.
func (w *storm) below(n int) int          { w.mu.Lock(); defer w.mu.Unlock(); return w.random.IntN(n) }
func (w *storm) oneIn(n int) bool         { return w.below(n) == 0 }
func (w *storm) pause(most time.Duration) { <-time.After(w.upTo(most)) }

func (w *storm) upTo(most time.Duration) time.Duration {
	return time.Duration(w.below(int(most/time.Millisecond))) * time.Millisecond
}

// fail fails the test, with what went before.
func (w *storm) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed(format, args...)
}

func (w *storm) failed(format string, args ...any) {
	const last = 30
	w.Errorf(format+"\n\t%s", append(args, strings.Join(w.log[max(0, len(w.log)-last):], "\n\t"))...)
}

// note notes what a party has done. Locked.
func (w *storm) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// strike has one thing go wrong after the other.
func (w *storm) strike() {
	for !client.Closed(w.calms) {
		id := w.all[w.below(len(w.all))].ID()
		match := zktest.Match{Session: id}
		switch w.below(14) {
		case 0, 1, 2, 3:
			w.srv.Disconnect(id)
		case 4, 5:
			w.srv.DropReply(match)
		case 6:
			w.srv.DropRequest(match)
		case 7:
			w.srv.Delay(match, w.upTo(500*time.Millisecond))
		case 8:
			w.srv.DelayEvent(match, w.upTo(500*time.Millisecond))
		case 9:
			const throttled = -127
			w.srv.AnswerError(match, throttled)
		case 10:
			if w.oneIn(4) {
				w.mu.Lock()
				w.expired[id] = true
				w.note("the server ends %x", id)
				w.mu.Unlock()
				w.srv.Expire(id)
			}
		case 11:
			if w.oneIn(4) {
				w.srv.Freeze(id, zktest.Direction(w.below(3)))
				w.pause(3 * time.Second)
				w.srv.Thaw(id)
			}
		default:
			w.meddle()
		}
		w.pause(80 * time.Millisecond)
	}
}

// meddle deletes a node, or all, in storms with such an operator.
func (w *storm) meddle() {
	paths := slices.DeleteFunc(w.srv.Paths(), func(p string) bool { return !strings.HasPrefix(p, path) })
	if !w.meddled || len(paths) == 0 || !w.oneIn(3) {
		return
	}
	if w.oneIn(2) {
		paths = paths[w.below(len(paths)):][:1]
	}
	for _, p := range slices.Backward(paths) {
		_ = w.all[0].Delete(w.Context(), p, session.AnyVersion)
	}
}

// soon calls f with a context that may end soon, as long as all fails.
func (w *storm) soon(ctx context.Context, in int, most time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !client.Closed(w.calms) && w.oneIn(in) {
		defer time.AfterFunc(w.upTo(most), cancel).Stop()
	}
	return f(ctx)
}

// The grammars, with a letter for each event.
var (
	doubleGrammar  = regexp.MustCompile(`^(w*(el*[fL]|x))*(w*|w*el*)C$`)
	gateGrammar    = regexp.MustCompile(`^r?[eL]$`)
	barrierGrammar = regexp.MustCompile(`^[re]*C$`)
	doubleLetters  = map[string]string{"Waiting": "w", "Entered": "e", "Leaving": "l", "Left": "f", "Lost": "L", "Withdrawn": "x", "Closed": "C"}
	gateLetters    = map[string]string{"Raised": "r", "Released": "e", "Lost": "L"}
	barrierLetters = map[string]string{"Raised": "r", "Released": "e", "Closed": "C"}
)

// follow receives all events, and checks them against the grammar.
func follow[Ev any](w *storm, who string, events <-chan Ev, letters map[string]string, grammar *regexp.Regexp, each func(Ev)) {
	var word strings.Builder
	for ev := range events {
		_, kind, _ := strings.Cut(fmt.Sprintf("%T", ev), ".")
		word.WriteString(letters[kind])
		if each != nil {
			each(ev)
		}
	}
	if !grammar.MatchString(word.String()) {
		w.fail("%s receives %q", who, word.String())
	}
}

// --- rounds

// TestStormsOfRounds: more parties than a round has.
func TestStormsOfRounds(t *testing.T) {
	n := 0
	storms(t, 77, func(r *rand.Rand) (int, zktest.Config) {
		n = 2 + r.IntN(3)
		c := zktest.Config{Lag: time.Duration(r.IntN(150)) * time.Millisecond, Latency: time.Duration(r.IntN(4)) * time.Millisecond}
		if r.IntN(2) == 0 {
			c.ReapInterval = time.Duration(1+r.IntN(4)) * 500 * time.Millisecond
		}
		return n + r.IntN(4), c
	}, func(ctx context.Context, w *storm, calls *sync.WaitGroup) {
		if w.oneIn(3) { // two handles of one session
			w.all[1] = w.all[0]
		}
		for i, s := range w.all {
			who := fmt.Sprint("p", i)
			d := check.Have(barrier.NewDouble(s, path, n, &barrier.DoubleOptions{Name: who}))(w)
			entered := make(chan barrier.Entered, 1000)
			calls.Go(func() {
				follow(w, who, d.Events(), doubleLetters, doubleGrammar, func(ev barrier.DoubleEvent) {
					if in, is := ev.(barrier.Entered); is {
						entered <- in
					}
				})
			})
			calls.Go(func() {
				defer d.Close()
				for ctx.Err() == nil {
					w.party(ctx, d, s, who, n, entered)
				}
			})
		}
	})
}

// party goes through one round.
func (w *storm) party(ctx context.Context, d *barrier.Double, s *session.Session, who string, n int, entered <-chan barrier.Entered) {
	err := w.soon(ctx, 3, 400*time.Millisecond, d.Enter)
	if err != nil {
		if !errors.Is(err, context.Canceled) && (!w.meddled || !errors.Is(err, barrier.ErrParties)) {
			w.fail("%s enters: %v", who, err)
		}
		w.pause(300 * time.Millisecond)
		return
	}
	in := <-entered
	for len(entered) > 0 { // rounds that were lost before Enter returned
		in = <-entered
	}
	w.enter(who, in, s.ID(), n)
	if !w.oneIn(3) {
		w.pause(200 * time.Millisecond)
	}
	w.leave(who, in)
	for err = context.Canceled; errors.Is(err, context.Canceled); {
		err = w.soon(context.WithoutCancel(ctx), 4, 100*time.Millisecond, d.Leave)
	}
	switch {
	case err == nil:
		w.left(who, in)
	case !errors.Is(err, barrier.ErrNotEntered): // it was lost, or left between two calls of Leave
		w.fail("%s leaves: %v", who, err)
	}
}

func round(in barrier.Entered) string { return fmt.Sprint(in.Round, " ", in.Members) }

// enter notes that a party is in, and checks the round.
func (w *storm) enter(who string, in barrier.Entered, id int64, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s enters %v", who, in)
	defer func() { w.inside[who+" in "+round(in)] = id }()
	once := slices.Compact(slices.Sorted(slices.Values(in.Members)))
	if len(in.Members) != n || len(once) != n || !slices.Contains(once, who) {
		w.failed("%s enters a round of %d with %v", who, n, in.Members)
	}
	if w.meddled || w.expired[id] { // one whose session has ended, and hears that next
		return
	}
	for other, its := range w.inside {
		if !strings.HasSuffix(other, " in "+round(in)) && !w.expired[its] {
			w.failed("%s enters %v, and there is %s", who, in, other)
		}
	}
	if known, number := w.members[fmt.Sprint(in.Round)], fmt.Sprint(in.Round); w.members != nil {
		if w.members[number] = in.Members; known != nil && !slices.Equal(known, in.Members) {
			w.failed("round %s has two lists: %v and %v", number, known, in.Members)
		}
	}
}

// leave notes that a party is about to leave.
func (w *storm) leave(who string, in barrier.Entered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s leaves %v", who, in)
	delete(w.inside, who+" in "+round(in))
}

// left checks that all others have left the round, or are dead.
func (w *storm) left(who string, in barrier.Entered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	w.note("%s has left %v", who, in)
	for _, other := range in.Members {
		if id, is := w.inside[other+" in "+round(in)]; is && !w.expired[id] && !w.meddled {
			w.failed("%s has left %v, where %s is", who, in, other)
		}
	}
}

// --- gates

// TestStormsOfGates: gates of four handles, two of which have the same session.
func TestStormsOfGates(t *testing.T) {
	storms(t, 5, func(r *rand.Rand) (int, zktest.Config) {
		return 4, zktest.Config{Lag: time.Duration(r.IntN(100)) * time.Millisecond, Latency: time.Duration(r.IntN(4)) * time.Millisecond}
	}, func(ctx context.Context, w *storm, calls *sync.WaitGroup) {
		w.all[1] = w.all[0]
		for i, s := range w.all {
			b := check.Have(barrier.New(s, path, nil))(w)
			calls.Go(func() {
				defer b.Close()
				for ctx.Err() == nil {
					w.gate(ctx, b, s, fmt.Sprint("g", i))
				}
			})
		}
	})
}

// gate raises a gate, and lifts it.
func (w *storm) gate(ctx context.Context, b *barrier.Barrier, s *session.Session, who string) {
	var g *barrier.Gate
	err := w.soon(ctx, 3, 50*time.Millisecond, func(ctx context.Context) (err error) {
		g, err = b.TryRaise(ctx)
		return err
	})
	if err != nil {
		if !client.IsAny(err, barrier.ErrRaised, context.Canceled, session.ErrExpired) {
			w.fail("%s: %v", who, err)
		}
		w.pause(30 * time.Millisecond)
		return
	}
	w.raise(who, g, s.ID())
	select {
	case <-g.Done():
	case <-time.After(w.upTo(60 * time.Millisecond)):
	}
	if err := w.soon(ctx, 3, 10*time.Millisecond, g.Lift); err != nil && !errors.Is(err, context.Canceled) && !session.Passing(err) {
		w.fail("%s: lift: %v", who, err)
	}
	<-g.Done()
	follow(w, who, g.Events(), gateLetters, gateGrammar, nil)
}

// raise checks that no other gate stands when one is raised.
func (w *storm) raise(who string, g *barrier.Gate, id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	w.note("%s is raised with %d", who, g.Token())
	if client.Closed(g.Done()) || w.expired[id] { // its session hears of the end next
		return
	}
	for other, its := range w.gates {
		switch {
		case client.Closed(other.Done()):
			delete(w.gates, other)
		case w.meddled: // an operator has deleted the other, whose session has not heard of that
		case !w.expired[its]:
			w.failed("%s is raised with %d, and one stands with %d", who, g.Token(), other.Token())
		case other.Token() >= g.Token():
			w.failed("%s is raised with %d after %d", who, g.Token(), other.Token())
		}
	}
	w.gates[g] = id
}

// --- barriers

// TestStormsOfBarriers: one client raises a barrier and lifts it, and others wait for it.
func TestStormsOfBarriers(t *testing.T) {
	storms(t, 9, func(r *rand.Rand) (int, zktest.Config) {
		return 4, zktest.Config{Lag: time.Duration(r.IntN(300)) * time.Millisecond, Latency: time.Duration(r.IntN(4)) * time.Millisecond}
	}, func(ctx context.Context, w *storm, calls *sync.WaitGroup) {
		raiser := check.Have(barrier.New(w.all[0], path, nil))(w)
		calls.Go(func() {
			defer raiser.Close()
			for n := 1; ctx.Err() == nil; n++ {
				w.until(context.WithoutCancel(ctx), raiser.Raise)
				w.stand(n)
				w.pause(400 * time.Millisecond)
				w.stand(0)
				w.until(context.WithoutCancel(ctx), raiser.Lift)
				w.pause(100 * time.Millisecond)
			}
		})
		for i, s := range w.all[1:] {
			who, b := fmt.Sprint("w", i), check.Have(barrier.New(s, path, nil))(w)
			calls.Go(func() {
				last := int64(0)
				follow(w, who, b.Events(), barrierLetters, barrierGrammar, func(ev barrier.Event) {
					if up, is := ev.(barrier.Raised); is {
						if up.Token <= last {
							w.fail("%s receives %v after %d", who, up, last)
						}
						last = up.Token
					}
				})
			})
			calls.Go(func() {
				defer b.Close()
				for ctx.Err() == nil {
					w.wait(context.WithoutCancel(ctx), b, who)
				}
			})
		}
	})
}

// until repeats a command whose outcome is unknown.
func (w *storm) until(ctx context.Context, command func(context.Context) error) {
	for {
		err := command(ctx)
		if err == nil {
			return
		}
		if !errors.Is(err, session.ErrUnknownOutcome) {
			w.fail("%v", err)
			return
		}
	}
}

func (w *storm) stand(n int)   { w.mu.Lock(); defer w.mu.Unlock(); w.stands = n }
func (w *storm) standing() int { w.mu.Lock(); defer w.mu.Unlock(); return w.stands }

// wait checks that Wait does not return while a barrier stands.
func (w *storm) wait(ctx context.Context, b *barrier.Barrier, who string) {
	before := w.standing()
	if err := b.Wait(ctx); err != nil {
		w.fail("%s waits: %v", who, err)
	}
	if before != 0 && before == w.standing() && !w.meddled {
		w.fail("%s does not wait, and barrier %d stands", who, before)
	}
	w.mu.Lock()
	w.done++
	w.mu.Unlock()
	w.pause(100 * time.Millisecond)
}
