package driver

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a driver that receives one line, and answers its questions like the bench. It returns
// the lines that the driver sends.
func serve(t *testing.T, line string, program Program) []string {
	t.Helper()
	in, toDriver := io.Pipe()
	fromDriver, out := io.Pipe()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := Serve(in, out, map[string]Program{"it": program}); err != nil {
			t.Error(err)
		}
		_ = out.Close()
	})
	if _, err := io.WriteString(toDriver, line+"\n"); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(fromDriver); lines.Scan(); {
		said = append(said, lines.Text())
		switch word, _, _ := strings.Cut(lines.Text(), " "); word {
		case "begin", "end", "ask":
			if _, err := io.WriteString(toDriver, "go\n"); err != nil {
				t.Fatal(err)
			}
		case "result", "failed":
			_ = toDriver.Close()
		}
	}
	return said
}

// TestCountedLoop: workers of a counted run do the same number of operations, in the warm-up and in
// the measured part.
func TestCountedLoop(t *testing.T) {
	var turns [3]atomic.Int64
	said := serve(t, "run it servers=a,b path=/x ops=30 warm_ops=6", func(r *Run) error {
		if !slices.Equal(r.Servers, []string{"a", "b"}) || r.Path != "/x" || !r.Counted() {
			t.Errorf("the run is %+v", r)
		}
		r.Scale(2)
		r.Extra("bytes_each", 12)
		return r.Loop(3, func(w, _ int) error {
			turns[w].Add(1)
			return nil
		})
	})
	for w := range turns {
		if n := turns[w].Load(); n != 12 {
			t.Errorf("worker %d has done %d operations, want 2 and 10", w, n)
		}
	}
	if len(said) != 4 || said[0] != "begin" || said[1] != "end" || len(strings.Fields(said[2])) != 31 ||
		!strings.HasPrefix(said[3], "result ops=60 ") || !strings.HasSuffix(said[3], " bytes_each=12") {
		t.Errorf("it said %q", said)
	}
}

// TestRounds: all parties do the same number of rounds, whenever the first party decides it.
func TestRounds(t *testing.T) {
	const parties = 5
	var mu sync.Mutex
	all := sync.NewCond(&mu)
	inside, round := 0, 0
	meet := func(int) error {
		mu.Lock()
		defer mu.Unlock()
		mine := round
		if inside++; inside == parties {
			inside, round = 0, round+1
			all.Broadcast()
		}
		for round == mine {
			all.Wait()
		}
		return nil
	}
	said := serve(t, "run it seconds=0.01 warm_seconds=0.01", func(r *Run) error { return r.Rounds(parties, 2*parties, meet) })
	last := said[len(said)-1]
	if !strings.HasPrefix(last, "result ops=") || inside != 0 {
		t.Errorf("it said %s, and %d wait", last, inside)
	}
}

func TestProgramsThatFail(t *testing.T) {
	said := serve(t, "run it", func(r *Run) error {
		return r.Measure(func(Limit) (int, error) { return 0, errors.New("no\nluck") })
	})
	if !slices.Equal(said, []string{"begin", "failed no; luck"}) {
		t.Errorf("it said %q", said)
	}
	if said := serve(t, "run that", nil); !slices.Equal(said, []string{`failed there is no program "that"`}) {
		t.Errorf("it said %q", said)
	}
}

func TestQuantiles(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 500: 500, 5000: quantiles + 1} {
		said := serve(t, "run it", func(r *Run) error {
			return r.Measure(func(Limit) (int, error) {
				for i := range n {
					r.Latency(time.Duration(i) * time.Microsecond)
				}
				return n, nil
			})
		})
		words := strings.Fields(said[2])
		if len(words) != want+1 || words[1] != "0.0" {
			t.Errorf("of %d there are %d quantiles from %s µs, want %d", n, len(words)-1, words[1], want)
		}
	}
}
