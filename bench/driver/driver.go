// Package driver is the driver's side of the protocol between a driver process and the bench. It
// runs the programs of one system, and reports their operations and times.
//
// The messages are lines of words. The bench sends
//
//	run <program> <name>=<value>...   names: servers, path, timeout_ms, either seconds and warm_seconds
//	                                  or ops and warm_ops, perhaps cpuprofile, and parameters
//	go                                the answer to begin, end and ask
//
// and the driver sends
//
//	begin                             the warm-up has ended: the bench reads its counters, and answers go
//	end                               the measured part has ended: likewise
//	ask <question> <words>...         a request: the bench fulfils it, and answers go
//	progress <operations>             the operations so far, from programs that may hang
//	latencies <µs>...                 at most 1001 quantiles, at equal distances
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

// quantiles is the number of parts into which the reported quantiles divide the latencies.
const quantiles = 1000

// A Program is one workload of one system.
type Program func(r *Run) error

// Serve runs the programs that in names, until in ends.
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

// A conversation is the two streams of a driver.
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

// await sends a message, and waits for the answer go.
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

// A Run is one execution of a program. Its methods are for the goroutine of the program, unless
// their comments permit others.
type Run struct {
	Servers []string
	Path    string // a node for this run alone, which does not exist yet
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

// Int returns a parameter, or fallback if the run does not have it.
func (r *Run) Int(name string, fallback int) int {
	n, err := strconv.Atoi(r.params[name])
	if err != nil {
		return fallback
	}
	return n
}

// Param returns a parameter, or "" if the run does not have it.
func (r *Run) Param(name string) string { return r.params[name] }

// Is reports whether a parameter has the value.
func (r *Run) Is(name, value string) bool { return r.params[name] == value }

// Counted reports whether the run is limited by operations, and not by time.
func (r *Run) Counted() bool { return r.Int("ops", 0) > 0 }

// Extra adds a number to the result.
func (r *Run) Extra(name string, value float64) {
	r.extras = append(r.extras, name+"="+strconv.FormatFloat(value, 'g', 6, 64))
}

// Ask sends a question to the bench, and waits for the answer.
func (r *Run) Ask(question ...string) error {
	return r.talk.await(append([]string{"ask"}, question...)...)
}

// Progress reports the number of operations so far. It may be called on any goroutine.
func (r *Run) Progress(ops int) { r.talk.say("progress", strconv.Itoa(ops)) }

// A Limit decides when a phase ends: after a number of operations, or after a time.
type Limit struct {
	ops      int64
	left     *atomic.Int64 // operations that are left; nil if the phase ends after a time
	deadline time.Time
}

// Next reports whether the phase has another operation. It may be called on any goroutine.
func (l Limit) Next() bool {
	if l.left != nil {
		return l.left.Add(-1) >= 0
	}
	return time.Now().Before(l.deadline)
}

// share returns the limit of one of several workers, which all do the same number of operations.
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

// WarmUp returns the limit of the warm-up, which precedes the measured part.
func (r *Run) WarmUp() Limit { return r.limit("warm_ops", "warm_seconds") }

// Measure runs f between begin and end. It measures the time of f, and the CPU time of this
// process. f returns the number of its operations.
func (r *Run) Measure(f func(l Limit) (ops int, err error)) error {
	if err := r.talk.await("begin"); err != nil {
		return err
	}
	stop, err := r.profile()
	if err != nil {
		return err
	}
	cpu, began := CPUTime(), time.Now()
	ops, err := f(r.limit("ops", "seconds"))
	r.elapsed, r.cpu = time.Since(began), CPUTime()-cpu
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

// Loop is a program in which each worker repeats op: first to warm up, and then measured.
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

// Each calls f for all numbers below n at once. It returns the errors when all calls have returned.
func Each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the first error says enough
		}
	}
	return nil
}

// Rounds is a program of parties that do rounds together. A round is ops operations. No party is
// more than a round ahead of another.
func (r *Run) Rounds(parties, ops int, round func(party int) error) error {
	done := 0
	phase := func(l Limit) ([]time.Duration, error) {
		var took []time.Duration
		var last atomic.Int64 // the number of rounds, as soon as the first party knows it
		last.Store(1 << 60)
		err := Each(parties, func(p int) error {
			i := int64(0)
			for i < last.Load() {
				// The first party decides before the last round: at its end the others may already
				// be in the next.
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

// Latencies warms up, and then measures a phase, which returns the duration of each turn. A turn is
// ops operations.
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

// Memory adds to the result the resident memory of this process before the measured part, and its
// peak so far.
func (r *Run) Memory(before float64) {
	r.Extra("MB_resident_before", before)
	r.Extra("MB_resident_peak", max(before, megabytes("VmHWM:"))) // the kernel notes a peak late
}

// Resident returns the resident memory of this process in MB; 0 if it is not known.
func Resident() float64 { return megabytes("VmRSS:") }

// megabytes returns a field of this process's status.
func megabytes(field string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), field)
	kilobytes, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kilobytes / 1024
}

// CPUTime returns the user and system time of this process.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Context returns the context for programs. It never ends: programs end with their process.
func (*Run) Context() context.Context { return context.Background() }
