package barrier

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var kills = flag.Int("barrier.kills", 2, "processes that are killed, one in ten rounds; 20 are a campaign")

const (
	// asParty is the variable that has the test's own program be a party: the addresses of the
	// servers.
	asParty    = "BARRIER_TEST_AS_PARTY"
	processes  = 10
	killsEvery = 10
	partyPath  = "/barriers/processes"
)

// beParty goes through rounds until its input ends, and says what it does: a moment before, and a
// moment after. Its clock is that of the other processes on this machine.
func beParty(addrs string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	s, err := session.Open(ctx, strings.Split(addrs, ","), &session.Options{Timeout: 10 * time.Second, ServerTick: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	defer s.Close()
	d, err := NewDouble(s, partyPath, processes, &DoubleOptions{Name: fmt.Sprint(os.Getpid())})
	if err != nil {
		return err
	}
	defer d.Close()
	say := func(what string, round int, members ...string) {
		fmt.Println(time.Now().UnixNano(), what, round, strings.Join(members, ","))
	}
	events := d.Events()
	for {
		say("calls", 0)
		if err := d.Enter(ctx); err != nil {
			return err
		}
		in := entered(events)
		say("enters", in.Round, in.Members...)
		say("leaves", in.Round)
		switch err := d.Leave(ctx); {
		case err == nil:
			say("left", in.Round)
		case ctx.Err() != nil:
			return err
		default:
			say("lost", in.Round, err.Error())
		}
	}
}

// entered returns the next event that is Entered.
func entered(events <-chan DoubleEvent) Entered {
	for ev := range events {
		if in, is := ev.(Entered); is {
			return in
		}
	}
	return Entered{}
}

// A deed is a line that a party has written.
type deed struct {
	at      int64
	what    string
	round   int
	members []string
	of      *partyProcess
	err     error // the last of a process
}

// A partyProcess is a process that is a party.
type partyProcess struct {
	cmd   *exec.Cmd
	input io.Closer
	name  string
	died  int64         // before it was killed; 0 while it was not
	calls int64         // the newest
	deeds map[int]times // by round
	gone  bool
}

// times are when a party did what in a round; 0 for what it did not.
type times struct{ calls, enters, leaves, left, lost int64 }

func startParty(t *testing.T, addrs []string, tell chan<- deed) *partyProcess {
	t.Helper()
	p := &partyProcess{cmd: exec.Command(os.Args[0]), deeds: make(map[int]times)}
	p.cmd.Env = append(os.Environ(), asParty+"="+strings.Join(addrs, ","), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	input := check.Have(p.cmd.StdinPipe())(t)
	p.input = input
	output, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	check.Must(t, err)
	p.name = fmt.Sprint(p.cmd.Process.Pid)
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			line := deed{of: p}
			var members string
			_, _ = fmt.Sscan(lines.Text(), &line.at, &line.what, &line.round, &members)
			line.members = strings.Split(members, ",")
			tell <- line
		}
		tell <- deed{of: p, what: "ends", err: p.cmd.Wait()}
	}()
	return p
}

// TestKilledProcesses has ten processes go through rounds on three servers. One is killed in every
// tenth round, at whatever it does just then, and another takes its place.
func TestKilledProcesses(t *testing.T) {
	hasten.Waits(t)
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	// The server looks for empty containers as often as in production. A new process does not know
	// the number of the newest round, if the record is removed between two rounds, just before that
	// process comes.
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.JVMFlags("-Dznode.container.checkIntervalMs=60000"))
	told := make(chan deed, 1000)
	var all []*partyProcess
	for range processes {
		all = append(all, startParty(t, ens.Addrs(), told))
	}
	defer func() {
		for _, p := range all {
			if !p.gone {
				_ = p.cmd.Process.Kill()
			}
		}
		for slices.ContainsFunc(all, func(p *partyProcess) bool { return !p.gone }) {
			if d := <-told; d.what == "ends" {
				d.of.gone = true
			}
		}
	}()
	r := rand.New(rand.NewPCG(uint64(*kills), 0))
	killed, fuse, lost := 0, -1, 0 // the fuse counts lines until a process is killed
	last := *kills * killsEvery
	lists := make(map[int][]string)
	begun := time.Now()
	for done := 0; done < processes; {
		var d deed
		select {
		case d = <-told:
		case <-time.After(check.Patience):
			t.Fatalf("stuck after %v, %d killed, %d rounds", time.Since(begun), killed, len(lists))
		}
		if d.what == "ends" {
			if d.of.gone = true; d.of.died == 0 {
				t.Fatalf("%s has ended: %v", d.of.name, d.err)
			}
			continue
		}
		d.of.note(d)
		switch d.what {
		case "enters":
			if lists[d.round] == nil {
				lists[d.round] = d.members
				if d.round%killsEvery == killsEvery/2 && killed < *kills {
					fuse = r.IntN(4 * processes)
				}
			}
			if !slices.Equal(d.members, lists[d.round]) || len(d.members) != processes {
				t.Errorf("%s enters round %d with %v, others with %v", d.of.name, d.round, d.members, lists[d.round])
			}
		case "left":
			if d.round == last {
				done++
			}
		case "lost":
			lost++
			t.Logf("%s was lost in round %d: %v", d.of.name, d.round, d.members)
			if d.round == last {
				done++
			}
		}
		if fuse == 0 {
			alive := slices.DeleteFunc(slices.Clone(all), func(p *partyProcess) bool { return p.died != 0 })
			victim := alive[r.IntN(len(alive))]
			victim.died = time.Now().UnixNano()
			check.Must(t, victim.cmd.Process.Kill())
			killed++
			all = append(all, startParty(t, ens.Addrs(), told))
		}
		fuse = max(fuse-1, -1)
	}
	t.Logf("%d rounds in %v, %d killed, %d sessions lost otherwise", len(lists), time.Since(begun), killed, lost)
	check.True(t, killed == *kills && len(lists) >= last, "%d killed, %d rounds", killed, len(lists))
	judge(t, all, lists)
}

func (p *partyProcess) note(d deed) {
	at := p.deeds[d.round]
	switch d.what {
	case "calls":
		p.calls = d.at
		return
	case "enters":
		at.calls, at.enters = p.calls, d.at
	case "leaves":
		at.leaves = d.at
	case "left":
		at.left = d.at
	case "lost":
		at.lost = d.at
	}
	p.deeds[d.round] = at
}

// inside returns until when a party is in a round, at least. A party whose session was over before
// it left does not know until when: its process was stopped meanwhile.
func (p *partyProcess) inside(round int) int64 {
	switch at := p.deeds[round]; {
	case at.lost != 0:
		return 0
	case at.leaves != 0:
		return at.leaves
	}
	return p.died
}

// judge looks at what all have done: nobody was in before all members had called Enter, and nobody
// was out, or in the next round, while a member was inside.
func judge(t *testing.T, all []*partyProcess, lists map[int][]string) {
	t.Helper()
	by := make(map[string]*partyProcess)
	for _, p := range all {
		by[p.name] = p
	}
	for round, list := range lists {
		for _, name := range list {
			member := by[name]
			if member == nil {
				t.Errorf("round %d lists %q", round, name)
				continue
			}
			for _, p := range all {
				at, next := p.deeds[round], p.deeds[round+1]
				switch {
				case at.enters != 0 && member.deeds[round].calls > at.enters:
					t.Errorf("%s enters round %d before %s calls", p.name, round, name)
				case at.left != 0 && at.left < member.inside(round):
					t.Errorf("%s has left round %d, and %s is inside", p.name, round, name)
				case next.enters != 0 && next.enters < member.inside(round):
					t.Errorf("%s is in round %d, and %s in round %d", p.name, round+1, name, round)
				}
			}
		}
	}
}
