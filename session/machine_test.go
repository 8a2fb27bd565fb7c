package session

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// grammar follows the events of a session, and says which may come next.
type grammar int

const (
	without grammar = iota // no session
	with
	inDoubt
	lapsed
	after
)

func (g grammar) next(ev Event) (grammar, error) {
	switch ev.(type) {
	case Connected:
		if g == without {
			return with, nil
		}
	case Suspended:
		if g == with {
			return inDoubt, nil
		}
	case Lapsed:
		if g == inDoubt {
			return lapsed, nil
		}
	case Resumed:
		if g == inDoubt || g == lapsed {
			return with, nil
		}
	case Expired:
		if g == with || g == inDoubt || g == lapsed {
			return without, nil
		}
	case Closed:
		if g != after {
			return after, nil
		}
	}
	return g, errors.New("out of place")
}

func inputs(epoch int) []input {
	var all []input
	for _, n := range []int{epoch - 1, epoch, epoch + 1} {
		all = append(all,
			established{epoch: n, id: int64(100 + n), timeout: time.Second, server: "a:1"},
			severed{epoch: n}, rejected{epoch: n}, overdue{epoch: n})
	}
	return append(all, shut{}, parted{})
}

// TestMachineGrammar explores every state of the first epochs with every input,
// possible or not.
func TestMachineGrammar(t *testing.T) {
	type position struct {
		m machine
		g grammar
	}
	var given check.Given
	start := position{m: machine{epoch: 1}}
	seen := map[position]bool{start: true}
	for queue := []position{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.m.epoch > 4 {
			continue
		}
		for _, in := range inputs(at.m.epoch) {
			check.Note(&given, in)
			m, e := at.m.after(in)
			g := at.g
			for _, ev := range e.Emit {
				next, err := g.next(ev)
				check.Must(t, err, at.m, "given", in, in, "emits", ev)
				g = next
			}
			check.Must(t, checkEffects(at.m, m, e.Do), at.m, "given", in, in)
			if next := (position{m, g}); !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	check.Explored(t, "input", given)
	t.Logf("%d states", len(seen))
}

// checkEffects holds one step against the rules: epochs are dialled once, in
// order, after the one before has been retired, and the last is retired at the end.
func checkEffects(before, after machine, do []effect) error {
	var want []effect
	switch {
	case after.epoch > before.epoch:
		want = []effect{retire{before.epoch}, dial{after.epoch}}
	case before.state != stateClosing && after.state == stateClosing:
		want = []effect{part{before.epoch}}
	case before.state != stateClosed && after.state == stateClosed:
		want = []effect{retire{before.epoch}}
	}
	if !slices.Equal(do, want) {
		return fmt.Errorf("asks for %v, want %v", do, want)
	}
	if before.Ended() && after != before {
		return fmt.Errorf("revived as %v", after)
	}
	return nil
}

func TestMachineRows(t *testing.T) {
	deadline := time.Unix(7, 0)
	connect := established{epoch: 1, id: 9, timeout: time.Second, server: "a:1"}
	for _, row := range []struct {
		danger string
		given  []input
		events []string
	}{
		{
			"a reconnect is not a new session",
			[]input{connect, severed{1, deadline}, established{epoch: 1, id: 9, server: "b:1"}},
			[]string{"connected id=0x9 epoch=1 timeout=1s server=a:1", Suspended{deadline}.String(), "resumed server=b:1"},
		},
		{
			"a connection that fails twice suspends once",
			[]input{connect, severed{1, deadline}, severed{1, deadline}},
			[]string{"connected id=0x9 epoch=1 timeout=1s server=a:1", Suspended{deadline}.String()},
		},
		{
			"a session that was never announced is not mourned",
			[]input{overdue{epoch: 1, deadline: deadline, held: true}, established{epoch: 2, id: 10, timeout: time.Second, server: "a:1"}},
			[]string{"connected id=0xa epoch=2 timeout=1s server=a:1"},
		},
		{
			"the deadline passes without a word from the server",
			[]input{connect, overdue{epoch: 1, deadline: deadline, held: true}, rejected{1}},
			[]string{"connected id=0x9 epoch=1 timeout=1s server=a:1", Suspended{deadline}.String(), "lapsed", "expired id=0x9 epoch=1"},
		},
		{
			"a session that has lapsed goes on, and lapses once in each suspension",
			[]input{
				connect,
				severed{1, deadline},
				overdue{epoch: 1},
				overdue{epoch: 1},
				established{epoch: 1, id: 9, server: "b:1"},
				severed{1, deadline},
				overdue{epoch: 1},
			},
			[]string{
				"connected id=0x9 epoch=1 timeout=1s server=a:1", Suspended{deadline}.String(), "lapsed", "resumed server=b:1",
				Suspended{deadline}.String(), "lapsed",
			},
		},
		{
			"news of an epoch that is over is no news",
			[]input{connect, rejected{1}, established{epoch: 1, id: 9}, severed{1, deadline}, overdue{epoch: 1, deadline: deadline, held: true}},
			[]string{"connected id=0x9 epoch=1 timeout=1s server=a:1", "expired id=0x9 epoch=1"},
		},
		{
			"nothing comes after Closed, not even the loss",
			[]input{connect, shut{}, overdue{epoch: 1, deadline: deadline, held: true}, rejected{1}, severed{1, deadline}, parted{}, connect, shut{}},
			[]string{"connected id=0x9 epoch=1 timeout=1s server=a:1", "closed"},
		},
	} {
		t.Run(row.danger, func(t *testing.T) {
			m := machine{epoch: 1}
			var events []string
			for _, in := range row.given {
				var e effects
				m, e = m.after(in)
				for _, ev := range e.Emit {
					events = append(events, ev.String())
				}
			}
			check.True(t, slices.Equal(events, row.events), "got  %q\nwant %q", events, row.events)
		})
	}
}

// after is Step with effects of its own.
func (m machine) after(in input) (machine, effects) {
	var out effects
	m = m.Step(in, &out)
	return m, out
}
