package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
)

const crashTimeout = "2000" // of the sessions, in ms

// errKilled ends the run of a process that is about to be killed.
var errKilled = errors.New("killed")

// crash kills the process of a leader, and measures the time until a candidate in another process
// knows that it leads.
func (b *bench) crash(ctx context.Context, f *fleet, w workload, s system) (got sample, err error) {
	run := b.params(w, s, f.clients).with(params{"timeout_ms": crashTimeout})
	defer func() { err = errors.Join(err, sweep(context.WithoutCancel(ctx), f.addrs, run["path"])) }()
	leader, err := b.another(s.library)
	if err != nil {
		return got, err
	}
	defer leader.Kill()
	_, err = leader.Run(ctx, w.program, run, peers.Hooks{Ask: func(question []string) error {
		if question[0] == "elected" {
			return errKilled
		}
		return nil
	}}, b.patience(w))
	if !errors.Is(err, errKilled) {
		return got, err
	}
	next, err := b.another(s.library)
	if err != nil {
		return got, err
	}
	defer next.Kill()
	var used use
	var killed time.Time
	_, err = next.Run(ctx, w.program, run, peers.Hooks{Ask: func(question []string) error {
		if question[0] == "standing" {
			used = measureUse()
			killed = time.Now()
			leader.Kill()
			return nil
		}
		took := time.Since(killed)
		got.Ops, got.Seconds = 1, took.Seconds()
		got.Latencies = []float64{took.Seconds() * 1000}
		got.others = measureUse().others(used, append(b.own(f, next.Pid()), leader.Pid()))
		return errKilled
	}}, b.patience(w))
	if !errors.Is(err, errKilled) {
		return got, err
	}
	return got, nil
}
