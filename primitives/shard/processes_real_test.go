//go:build unix

package shard_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/peers/process"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has members as processes, each of which takes the lock of a file for each shard that it
// owns. Members are killed, stopped and started again, and a server is killed.

var kills = flag.Int("shard.kills", 4, "how many things happen to the members of TestProcesses; 60 are a campaign")

const (
	asMember  = "SHARD_TEST_AS_MEMBER" // the variable that has TestMember be a member: servers, ID, n and the folder of the files, with spaces between
	lease     = 6 * time.Second
	giveEarly = 5 * time.Second
)

// TestMember is the program of a member.
func TestMember(t *testing.T) {
	words := strings.Fields(os.Getenv(asMember))
	if len(words) == 0 {
		t.Skip("the program of TestProcesses")
	}
	var n int
	_, err := fmt.Sscan(words[2], &n)
	check.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	s := check.Open(session.Open(ctx, strings.Split(words[0], ","), &session.Options{Timeout: lease, ServerTick: 100 * time.Millisecond}))(t)
	m := check.Open(shard.Join(s, orders, n, &shard.Options{ID: words[1], GiveWithin: giveEarly}))(t)
	files := make(map[int]*os.File)
	drop := func(i int) {
		check.OK(t, files[i].Close()) // which gives up the lock
		delete(files, i)
		fmt.Println("drops", i)
	}
	for {
		select {
		case ev, ok := <-m.Events():
			if !ok {
				fmt.Println("left", m.Err())
				return
			}
			switch ev := ev.(type) {
			case shard.Assigned:
				f := check.Have(os.OpenFile(filepath.Join(words[3], fmt.Sprint(ev.Shard)), os.O_CREATE|os.O_RDWR, 0o600))(t)
				if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
					fmt.Println("violation", ev.Shard, err)
				}
				files[ev.Shard] = f
				fmt.Println("owns", ev.Shard, ev.Token)
			case shard.Revoke:
				drop(ev.Shard)
				m.Give(ev.Shard)
			case shard.Lost:
				if files[ev.Shard] != nil {
					drop(ev.Shard)
				}
			case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
			}
		case <-ctx.Done():
			return // the rest is left to the end of the process
		}
	}
}

// A fleet is the members of TestProcesses, and what they have said.
type fleet struct {
	*testing.T
	addrs   []string
	dir     string
	shards  int
	lines   chan said
	all     map[string]*process.Process // by ID
	owners  map[int]string
	since   map[int]time.Time // when a shard was dropped; by shard
	longest time.Duration     // without an owner
	tokens  map[int]int64
	moves   int
}

// said is a line of a member.
type said struct {
	id, line string
	of       *process.Process
}

func (f *fleet) start(id string) {
	f.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMember$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %s", asMember, strings.Join(f.addrs, ","), id, f.shards, f.dir), "GORACE=atexit_sleep_ms=0")
	p := check.Have(process.Start(cmd))(f)
	f.all[id] = p
	f.Cleanup(p.End)
	go func() {
		for line := range p.Lines() {
			f.lines <- said{id, line, p}
		}
	}()
}

// even reports whether every shard has an owner, and every member its share.
func (f *fleet) even() bool {
	if len(f.owners) < f.shards {
		return false
	}
	counts := make(map[string]int)
	for _, by := range f.owners {
		counts[by]++
	}
	for id := range f.all {
		if least := f.shards / len(f.all); counts[id] < least || counts[id] > least+1 {
			return false
		}
	}
	return true
}

// hear follows what members say until every shard has an owner, and every member its share.
func (f *fleet) hear(what string) {
	f.Helper()
	began := time.Now()
	limit := time.NewTimer(check.Patience)
	defer limit.Stop()
	for !f.even() {
		select {
		case s := <-f.lines:
			f.follow(s)
		case <-limit.C:
			f.Fatalf("%s: %d of %d shards are owned: %v", what, len(f.owners), f.shards, f.owners)
		}
	}
	f.Logf("%s: after %v all are owned evenly, %d moves so far", what, time.Since(began).Round(10*time.Millisecond), f.moves)
}

func (f *fleet) follow(s said) {
	f.Helper()
	var verb string
	var i int
	var token int64
	_, _ = fmt.Sscan(s.line, &verb, &i, &token)
	switch verb {
	case "owns":
		if since := f.since[i]; !since.IsZero() {
			f.longest = max(f.longest, time.Since(since))
		}
		check.True(f, token > f.tokens[i], "shard %d: token %d after %d", i, token, f.tokens[i])
		delete(f.since, i)
		f.owners[i], f.tokens[i] = s.id, token
		f.moves++
	case "drops":
		if f.owners[i] == s.id {
			f.orphan(i)
		}
	case "violation":
		f.Errorf("%s: %s", s.id, s.line)
	}
}

func (f *fleet) orphan(i int) {
	delete(f.owners, i)
	f.since[i] = time.Now()
}

// kill kills a member. Its shards are without an owner from now on.
func (f *fleet) kill(id string) {
	f.all[id].End()
	delete(f.all, id)
	for i, by := range f.owners {
		if by == id {
			f.orphan(i)
		}
	}
}

// TestRealProcesses: a thousand shards over twenty processes on three servers. No shard is owned by
// two, and none is without an owner for longer than the documented bound.
func TestRealProcesses(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	members, shards := hasten.Sized(20, 6), hasten.Sized(1000, 120)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	f := &fleet{
		T: t, addrs: ens.Addrs(), dir: t.TempDir(), shards: shards, lines: make(chan said, 1000), all: map[string]*process.Process{},
		owners: map[int]string{}, since: map[int]time.Time{}, tokens: map[int]int64{},
	}
	id := func(i int) string { return fmt.Sprintf("m%02d", i) }
	for i := range members {
		f.start(id(i))
	}
	f.hear("begun")
	r := rand.New(rand.NewPCG(uint64(*kills), 1))
	for n := range *kills {
		i := r.IntN(members)
		switch n % 4 {
		case 0:
			f.kill(id(i))
			f.hear("killed " + id(i))
			f.start(id(i))
			f.hear("started " + id(i))
		case 1: // for less than its lease
			check.OK(t, syscall.Kill(f.all[id(i)].Pid(), syscall.SIGSTOP))
			f.kill(id((i + 1) % members))
			pause := time.After(lease / 3)
			for stopped := true; stopped; {
				select {
				case s := <-f.lines:
					f.follow(s)
				case <-pause:
					check.OK(t, syscall.Kill(f.all[id(i)].Pid(), syscall.SIGCONT))
					stopped = false
				}
			}
			f.hear("stopped " + id(i) + ", and killed its neighbour")
			f.start(id((i + 1) % members))
			f.hear("started " + id((i+1)%members))
		case 2:
			leader := ens.Leader()
			ens.Kill(leader)
			f.hear("killed the leader of the servers")
			ens.Restart(leader)
		case 3:
			for j := range members / 3 {
				f.kill(id((i + j) % members))
			}
			f.hear("killed a third")
			for j := range members / 3 {
				f.start(id((i + j) % members))
			}
			f.hear("started a third")
		}
	}
	t.Logf("%d moves; the longest time without an owner: %v", f.moves, f.longest.Round(10*time.Millisecond))
	bound := 2*lease + 2*giveEarly
	check.AtMost(t, f.longest, bound, "without an owner")
}
