package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/peers/process"
)

// ErrHung means that a run did not end in time.
var ErrHung = errors.New("hung")

// A Process is a running driver.
type Process struct {
	Library Library

	running *process.Process
}

// Start starts a driver.
func Start(l Library, command []string) (*Process, error) {
	running, err := process.Start(exec.Command(command[0], command[1:]...))
	if err != nil {
		return nil, err
	}
	return &Process{l, running}, nil
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.running.Pid() }

// Kill ends the process and its children. It may be called any number of times.
func (p *Process) Kill() { p.running.End() }

// ended returns the error for a process that has ended by itself, with the end of its complaints.
func (p *Process) ended(why error) error {
	p.Kill() // after it the complaints are complete
	const shown = 2000
	complaints := p.running.Complaints()
	complaints = strings.ReplaceAll(complaints[max(0, len(complaints)-shown):], "\n", "; ")
	if why == nil {
		return fmt.Errorf("the driver of %s has ended: %s", p.Library, complaints)
	}
	return fmt.Errorf("the driver of %s has ended: %w: %s", p.Library, why, complaints)
}

// A Measurement is the result of a run.
type Measurement struct {
	Ops       int
	Seconds   float64
	CPU       time.Duration
	Latencies []float64          // quantiles in ms, at equal distances
	Extras    map[string]float64 // by name
}

// Quantile returns a quantile of the latencies in ms, or 0 without latencies.
func (m Measurement) Quantile(q float64) float64 {
	if len(m.Latencies) == 0 {
		return 0
	}
	return m.Latencies[int(q*float64(len(m.Latencies)-1)+0.5)]
}

// MeanLatency returns the mean of the latencies in ms, or 0 without latencies.
func (m Measurement) MeanLatency() (mean float64) {
	for _, l := range m.Latencies {
		mean += l / float64(len(m.Latencies))
	}
	return mean
}

// Hooks are called during a run. They may be nil.
type Hooks struct {
	Begin, End func()
	Ask        func(question []string) error
}

// Patience bounds a run.
type Patience struct {
	Total time.Duration // of the whole run
	// Silence bounds the time between two reports of progress, and half of the time until the first
	// report. It is 0 for programs that report no progress.
	Silence time.Duration
}

// A HungError says how far a run came that did not end in time. It wraps [ErrHung].
type HungError struct {
	Ops  int     // of its last report
	Rate float64 // operations per second between its first report and its last; 0 with fewer than two reports
	Took time.Duration
}

// Error implements the error interface.
func (e *HungError) Error() string {
	return fmt.Sprintf("hung after %d operations; cut off after %.0f s", e.Ops, e.Took.Seconds())
}

// Unwrap returns [ErrHung].
func (*HungError) Unwrap() error { return ErrHung }

// Run has the driver run a program. After an error that wraps [ErrHung] the caller must kill the
// process.
func (p *Process) Run(ctx context.Context, program string, params map[string]string, hooks Hooks, patience Patience) (Measurement, error) {
	words := []string{"run", program}
	for name, value := range params {
		words = append(words, name+"="+value)
	}
	if err := p.say(strings.Join(words, " ")); err != nil {
		return Measurement{}, err
	}
	r := run{p: p, hooks: hooks, began: time.Now()}
	r.m.Extras = make(map[string]float64)
	total, silence := time.NewTimer(patience.Total), time.NewTimer(min(patience.Total, cmp.Or(2*patience.Silence, patience.Total)))
	defer total.Stop()
	defer silence.Stop()
	for {
		select {
		case line, ok := <-p.running.Lines():
			if !ok {
				return r.m, p.ended(nil)
			}
			done, err := r.hear(strings.Fields(line))
			if err != nil || done {
				return r.m, err
			}
			if r.reports > 0 && patience.Silence > 0 {
				silence.Reset(patience.Silence)
			}
		case <-silence.C:
			return r.m, r.hung()
		case <-total.C:
			return r.m, r.hung()
		case <-ctx.Done():
			return r.m, context.Cause(ctx)
		}
	}
}

func (p *Process) say(line string) error {
	if err := p.running.Say(line); err != nil {
		return p.ended(err)
	}
	return nil
}

// A run is a run that has begun.
type run struct {
	p        *Process
	hooks    Hooks
	m        Measurement
	began    time.Time
	reports  int // number of progress reports
	first    time.Time
	last     time.Time
	firstOps int // of the first report
	ops      int // of the last report
}

func (r *run) hung() error {
	err := &HungError{Ops: r.ops, Took: time.Since(r.began)}
	if r.reports > 1 {
		err.Rate = float64(r.ops-r.firstOps) / r.last.Sub(r.first).Seconds()
	}
	return err
}

// hear handles a line of the driver, and reports whether the run has ended.
func (r *run) hear(words []string) (done bool, err error) {
	if len(words) == 0 {
		return false, nil
	}
	switch words[0] {
	case "begin":
		call(r.hooks.Begin)
		return false, r.p.say("go")
	case "end":
		call(r.hooks.End)
		return false, r.p.say("go")
	case "ask":
		if r.hooks.Ask == nil {
			return false, fmt.Errorf("the driver of %s asks: %v", r.p.Library, words[1:])
		}
		if err := r.hooks.Ask(words[1:]); err != nil {
			return false, err
		}
		return false, r.p.say("go")
	case "progress":
		r.last = time.Now()
		r.ops, err = strconv.Atoi(words[1])
		if r.reports == 0 {
			r.first, r.firstOps = r.last, r.ops
		}
		r.reports++
		return false, err
	case "latencies":
		return false, r.latencies(words[1:])
	case "result":
		return true, r.result(words[1:])
	case "failed":
		return true, errors.New(strings.Join(words[1:], " "))
	}
	return false, fmt.Errorf("the driver of %s says %q", r.p.Library, strings.Join(words, " "))
}

func call(f func()) {
	if f != nil {
		f()
	}
}

func (r *run) latencies(words []string) error {
	for _, word := range words {
		us, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return err
		}
		r.m.Latencies = append(r.m.Latencies, us/1000)
	}
	return nil
}

func (r *run) result(words []string) error {
	for _, word := range words {
		name, text, _ := strings.Cut(word, "=")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("the driver of %s says %q: %w", r.p.Library, word, err)
		}
		switch name {
		case "ops":
			r.m.Ops = int(value)
		case "seconds":
			r.m.Seconds = value
		case "cpu_us":
			r.m.CPU = time.Duration(value * float64(time.Microsecond))
		default:
			r.m.Extras[name] = value
		}
	}
	return nil
}
