package leasemodel

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Result has the findings of random schedules.
type Result struct {
	Played   int // schedules
	Tally    Tally
	Failures map[Failure]*Example
}

// An Example is the earliest failure of its kind.
type Example struct {
	Schedules int // that failed in this way
	Committed int // of these, those in which the expiry was committed, not only possible

	variant  Variant
	schedule schedule
	at       time.Duration
}

// Explore plays the schedules of the seeds from First up. It stops early when it has found
// every failure that the variant must have.
func (v Variant) Explore(schedules int) Result {
	r := Result{Failures: make(map[Failure]*Example)}
	r.Tally.Tightest = time.Hour
	for i := range schedules {
		s := newSchedule(v.First + uint64(i))
		r.Played++
		w := s.run(v, &r.Tally, nil)
		if w.failed == None {
			continue
		}
		e := r.Failures[w.failed]
		if e == nil {
			e = &Example{variant: v, at: time.Hour}
			r.Failures[w.failed] = e
		}
		e.Schedules++
		if w.firm {
			e.Committed++
		}
		if w.failedAt < e.at {
			e.schedule, e.at = s, w.failedAt
		}
		if !slices.ContainsFunc(v.Fails, func(f Failure) bool { return r.Failures[f] == nil }) && len(v.Fails) > 0 {
			break
		}
	}
	return r
}

// Trace returns what happened in the example, without the faults that do not matter.
func (e *Example) Trace() string {
	way := e.schedule.run(e.variant, new(Tally), nil).failed
	for i := 0; i < len(e.schedule.faults)-1; {
		less := e.schedule
		less.faults = slices.Delete(slices.Clone(less.faults), i, i+1)
		if less.run(e.variant, new(Tally), nil).failed == way {
			e.schedule = less
		} else {
			i++
		}
	}
	var b strings.Builder
	e.schedule.run(e.variant, new(Tally), &b)
	return b.String()
}

// Outlives plays elections of a given length: all servers hang up at a random moment, and no server
// leads meanwhile. It reports whether no lease has ended. Something rested on each. Nothing
// else goes wrong, and answers take 60 ms at most.
func (v Variant) Outlives(tick, lasts time.Duration, runs int) bool {
	for seed := range runs {
		w := &world{
			variant: v, rng: rand.New(rand.NewPCG(uint64(seed), 3)), tally: new(Tally), held: make(map[[2]int]time.Duration),
			tick: tick, patience: 2 * tick, delay: 10 * time.Millisecond, paced: true,
		}
		for id := range 3 {
			w.servers = append(w.servers, &server{w: w, id: id, most: Timeout, heard: make([]time.Duration, 1)})
		}
		c := &client{w: w, rate: 1, timeout: Timeout, stake: v.Stake(tick)}
		w.clients, w.serving, w.addresses = []*client{c}, w.servers, w.servers
		w.crown(w.servers)
		w.after(0, c.dial)
		w.after(0, c.live)
		w.after(Timeout/2, func() { c.begin(&c.contenders[0]) })
		begins := 5*Timeout + w.upTo(Timeout)
		w.after(begins, func() {
			for _, s := range w.servers {
				s.leave()
			}
		})
		w.after(begins+lasts, func() { w.crown(w.servers) })
		for w.now < begins+lasts+2*Timeout && !c.lost && c.lapses == 0 {
			w.step()
		}
		if c.lost || c.lapses > 0 {
			return false
		}
	}
	return true
}
