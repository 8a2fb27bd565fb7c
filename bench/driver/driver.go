// Package driver is the side of a driver process in the conversation with the bench: it
// runs the programs of one system, and reports their operations and times.
//
// The conversation is lines of words. The bench says
//
//	run <program> <name>=<value>...   with servers, path, timeout_ms, either seconds and warm_seconds or ops and warm_ops, perhaps cpuprofile, and parameters
//	go                                the answer to begin, end and ask
//
// and the driver
//
//	begin                             the warm-up is over: the bench reads its counters, and says go
//	end                               the measured part is over: likewise
//	ask <question> <words>...         the bench does it, and says go
//	progress <operations>             done so far, from programs that may hang
//	latencies <µs>...                 at most 1001 quantiles, equally far apart
//	result ops=<n> seconds=<s> cpu_us=<µs> <name>=<value>...
//	failed <error>
//
// A run ends with result or failed. The driver ends with its standard input.
package driver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// quantiles is the number of parts in which a distribution of latencies is reported.
const quantiles = 1000

// A Program is one workload of one system.
type Program func(r *Run) error

// Serve runs the programs that are named on in, until its end.
func Serve(in io.Reader, out io.Writer, programs map[string]Program) error {
	c := &conversation{in: bufio.NewScanner(in), out: out}
	for c.in.Scan() {
		words := strings.Fields(c.in.Text())
		if len(words) < 2 || words[0] != "run" {
			return fmt.Errorf("driver: %q is not a run", c.in.Text())
		}
		if err := c.run(programs, words[1], words[2:]); err != nil {
			c.say("failed", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return c.in.Err()
}

// conversation is the two streams of a driver.
type conversation struct {
	in *bufio.Scanner

	mu  sync.Mutex // guards out
	out io.Writer
}

func (c *conversation) say(words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.out, strings.Join(words, " ")+"\n") // if the bench is gone, the input ends too
}

// await says something, and waits for the answer go.
func (c *conversation) await(words ...string) error {
	c.say(words...)
	if !c.in.Scan() {
		return errors.Join(io.ErrUnexpectedEOF, c.in.Err())
	}
	if c.in.Text() != "go" {
		return fmt.Errorf("driver: %q is no answer to %v", c.in.Text(), words)
	}
	return nil
}

func (c *conversation) run(programs map[string]Program, name string, words []string) error {
	program := programs[name]
	if program == nil {
		return fmt.Errorf("there is no program %q", name)
	}
	r := &Run{talk: c, scale: 1, params: make(map[string]string)}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		r.params[key] = value
	}
	r.Servers = strings.Split(r.params["servers"], ",")
	r.Path = r.params["path"]
	r.Timeout = time.Duration(r.Int("timeout_ms", 20_000)) * time.Millisecond
	if err := program(r); err != nil {
		return err
	}
	r.report()
	return nil
}

// A Run is one execution of a program. Its methods are for the goroutine of the program,
// unless they say otherwise.
type Run struct {
	Servers []string
	Path    string // a node of this run's own, which does not exist yet
	Timeout time.Duration

	talk      *conversation
	params    map[string]string
	ops       atomic.Int64
	scale     int // operations in each turn of Loop
	elapsed   time.Duration
	cpu       time.Duration
	latencies []time.Duration
	extras    []string
}

// Int returns a parameter, or the fallback if there is none.
func (r *Run) Int(name string, fallback int) int {
	n, err := strconv.Atoi(r.params[name])
	if err != nil {
		return fallback
	}
	return n
}

// Is reports whether a parameter has the value.
func (r *Run) Is(name, value string) bool { return r.params[name] == value }

// Counted reports whether the run is limited by operations, and not by time.
func (r *Run) Counted() bool { return r.Int("ops", 0) > 0 }

// Extra adds a number to the result.
func (r *Run) Extra(name string, value float64) {
	r.extras = append(r.extras, name+"="+strconv.FormatFloat(value, 'g', 6, 64))
}

// Ask sends a question to the bench, and waits until it is answered.
func (r *Run) Ask(question ...string) error {
	return r.talk.await(append([]string{"ask"}, question...)...)
}

// Progress reports how many operations are done. It may be called on any goroutine.
func (r *Run) Progress(ops int) { r.talk.say("progress", strconv.Itoa(ops)) }

// A Limit says when a phase is over: after a number of operations, or a time.
type Limit struct {
	ops      int64
	left     *atomic.Int64 // of the operations; nil if the time counts
	deadline time.Time
}

// Next reports whether there is another operation to do. It may be called on any goroutine.
func (l Limit) Next() bool {
	if l.left != nil {
		return l.left.Add(-1) >= 0
	}
	return time.Now().Before(l.deadline)
}

// share returns the limit of one worker. All workers do the same number of operations.
func (l Limit) share(workers int) Limit {
	if l.left == nil {
		return l
	}
	left := new(atomic.Int64)
	left.Store(max(1, l.ops/int64(workers)))
	return Limit{left: left}
}

func (r *Run) limit(ops, seconds string) Limit {
	if r.Counted() {
		left := new(atomic.Int64)
		left.Store(int64(r.Int(ops, 0)))
		return Limit{ops: left.Load(), left: left}
	}
	s, err := strconv.ParseFloat(r.params[seconds], 64)
	if err != nil {
		s = 1
	}
	return Limit{deadline: time.Now().Add(time.Duration(s * float64(time.Second)))}
}

// WarmUp returns the limit of the part before the measured one.
func (r *Run) WarmUp() Limit { return r.limit("warm_ops", "warm_seconds") }

// Measure runs f between begin and end, and measures its time, and the CPU time of this process.
// f returns how many operations it did.
func (r *Run) Measure(f func(l Limit) (ops int, err error)) error {
	if err := r.talk.await("begin"); err != nil {
		return err
	}
	stop, err := r.profile()
	if err != nil {
		return err
	}
	cpu, began := cpuTime(), time.Now()
	ops, err := f(r.limit("ops", "seconds"))
	r.elapsed, r.cpu = time.Since(began), cpuTime()-cpu
	r.ops.Store(int64(ops))
	err = errors.Join(err, stop())
	if err != nil {
		return err
	}
	return r.talk.await("end")
}

// profile begins a CPU profile, if the parameter cpuprofile names a file for it.
func (r *Run) profile() (stop func() error, err error) {
	name := r.params["cpuprofile"]
	if name == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// Latency adds latencies of operations.
func (r *Run) Latency(took ...time.Duration) { r.latencies = append(r.latencies, took...) }

// Loop is a program of workers that each do operations of one kind, one after the other: first
// to warm up, and then measured.
func (r *Run) Loop(workers int, op func(worker, turn int) error) error {
	if _, _, err := loop(r.WarmUp(), workers, op); err != nil {
		return err
	}
	return r.Measure(func(l Limit) (int, error) {
		ops, took, err := loop(l, workers, op)
		r.Latency(took...)
		return ops * r.scale, err
	})
}

// Scale sets the number of operations in each turn of [Run.Loop]. The default is 1.
func (r *Run) Scale(n int) { r.scale = n }

func loop(l Limit, workers int, op func(worker, turn int) error) (ops int, took []time.Duration, err error) {
	each := make([][]time.Duration, workers)
	err = Each(workers, func(w int) error {
		l := l.share(workers)
		for turn := 0; l.Next(); turn++ {
			began := time.Now()
			if err := op(w, turn); err != nil {
				return err
			}
			each[w] = append(each[w], time.Since(began))
		}
		return nil
	})
	took = slices.Concat(each...)
	return len(took), took, err
}

// Each calls f for the numbers below n at once, and returns the errors when all have returned.
func Each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the first says enough
		}
	}
	return nil
}

// Rounds is a program of parties that do rounds together, each of which is ops operations. No
// party is more than a round ahead of another.
func (r *Run) Rounds(parties, ops int, round func(party int) error) error {
	done := 0
	phase := func(l Limit) ([]time.Duration, error) {
		var took []time.Duration
		var last atomic.Int64 // the number of rounds, when the first party knows it
		last.Store(1 << 60)
		err := Each(parties, func(p int) error {
			i := int64(0)
			for i < last.Load() {
				// The others may be in the next round when this one is over.
				if p == 0 && !l.Next() {
					last.Store(i + 1)
				}
				began := time.Now()
				if err := round(p); err != nil {
					return err
				}
				if p == 0 {
					took = append(took, time.Since(began))
					done += ops
					r.Progress(done)
				}
				i++
			}
			return nil
		})
		return took, err
	}
	return r.Latencies(ops, phase)
}

// Latencies warms up, and measures a phase: it returns how long each turn took, and a turn is so many operations.
func (r *Run) Latencies(ops int, phase func(Limit) (took []time.Duration, err error)) error {
	if _, err := phase(r.WarmUp()); err != nil {
		return err
	}
	return r.Measure(func(l Limit) (int, error) {
		took, err := phase(l)
		r.Latency(took...)
		return len(took) * ops, err
	})
}

func (r *Run) report() {
	slices.Sort(r.latencies)
	if n := len(r.latencies); n > 0 {
		words := []string{"latencies"}
		parts := min(quantiles, n-1)
		for i := range parts + 1 {
			at := 0
			if parts > 0 {
				at = i * (n - 1) / parts
			}
			words = append(words, strconv.FormatFloat(float64(r.latencies[at].Nanoseconds())/1e3, 'f', 1, 64))
		}
		r.talk.say(words...)
	}
	r.talk.say(append([]string{
		"result", fmt.Sprintf("ops=%d", r.ops.Load()), fmt.Sprintf("seconds=%.6f", r.elapsed.Seconds()),
		fmt.Sprintf("cpu_us=%d", r.cpu.Microseconds()),
	}, r.extras...)...)
}

// cpuTime returns the user and system time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Context returns the context of programs, which are ended with their process.
func (*Run) Context() context.Context { return context.Background() }
