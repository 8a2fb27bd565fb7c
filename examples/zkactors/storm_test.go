package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/examples/zkactors/internal/storm"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

var stormClients = flag.Int("zkactors.storm", 12, "how many clients storm the servers in TestStorm")

// A standing is a node of a line, as the servers have it.
type standing struct {
	name, data                     string
	number                         int // the sequence number
	session, czxid, created, mzxid int64
}

// raw reads the nodes in a directory from the servers, in the order of their numbers. It reports
// whether it could read all of them.
func raw(ctx context.Context, t *testing.T, s *session.Session, dir string) (nodes []standing, ok bool) {
	t.Helper()
	if s.Sync(ctx, dir) != nil {
		return nil, false // a server is down
	}
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, false
	}
	answers := make(chan standing, len(names))
	for _, name := range names {
		number, err := strconv.Atoi(name[strings.LastIndexAny(name, "-_")+1:])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Async(0).Get(znode.Join(dir, name), func(data []byte, stat *session.Stat, err error) {
			if err != nil {
				answers <- standing{}
				return
			}
			answers <- standing{name, string(data), number, stat.EphemeralOwner, stat.Czxid, stat.Ctime, stat.Mzxid}
		})
	}
	ok = true
	for range names {
		node := <-answers
		ok = ok && node.name != ""
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b standing) int { return a.number - b.number })
	return nodes, ok
}

// holders returns the number of contenders at the front of the line that hold.
func holders(path string, line []standing) int {
	switch path {
	case storm.Semaphore:
		return min(len(line), storm.Limit)
	case storm.Shared:
		switch first := slices.IndexFunc(line, func(n standing) bool { return !strings.Contains(n.name, "READ") }); {
		case first < 0: // the line has no writer
			return len(line)
		case first > 0:
			return first
		}
	}
	return min(len(line), 1)
}

// wantThing checks that a survey of a path has exactly the contenders that the servers have.
func wantThing(t *testing.T, path string, line []standing, survey inspect.Survey) {
	t.Helper()
	if len(survey.Things) != 1 {
		if len(line) > 0 {
			t.Errorf("%s: ls says %+v, and there are %+v", path, survey, line)
		}
		return
	}
	thing, n := survey.Things[0], holders(path, line)
	if thing.Queue != nil {
		if q := thing.Queue; q.Items != len(line) || len(line) > 0 && q.Oldest.UnixMilli() != line[0].created {
			t.Errorf("%s: ls says %+v, and there are %+v", path, q, line)
		}
		return
	}
	same := thing.Line == len(line) && len(thing.Contenders) == len(line)
	for i, c := range thing.Contenders {
		_, name := znode.Split(c.Node)
		same = same && c.Holds == (i < n) && name == line[i].name && c.Identity == line[i].data &&
			c.Session == fmt.Sprintf("%#x", line[i].session) && c.Czxid == line[i].czxid && c.Since.UnixMilli() == line[i].created
	}
	if !same {
		t.Errorf("%s: ls says %+v, and there are %+v, of which %d hold", path, thing, line, n)
	}
}

// A lister compares the output of ls with the nodes on the servers.
type lister struct {
	*testing.T

	s        *session.Session
	addrs    string
	statuses map[int]int // counts the exit statuses of ls
}

// check reads the nodes before ls and after ls. If both readings are the same it compares the
// output of ls with them. It reports whether it compared.
func (l *lister) check(path string) bool {
	l.Helper()
	dir := path
	if path == storm.Semaphore {
		dir += "/leases"
	}
	before, ok := raw(l.Context(), l.T, l.s, dir)
	if !ok {
		return false
	}
	r := runIn(l.T, "", false, "--servers", l.addrs, "ls", "--json", "--all", path)
	l.statuses[r.status]++
	if r.status != 0 && r.status != exitUnavailable && (r.status != exitNothing || len(before) > 0) {
		l.Errorf("ls %s: %+v", path, r)
	}
	after, ok := raw(l.Context(), l.T, l.s, dir)
	if !ok || r.status != 0 || !slices.Equal(before, after) {
		return false
	}
	var survey inspect.Survey
	if err := json.Unmarshal([]byte(r.stdout), &survey); err != nil {
		l.Error(err)
	}
	wantThing(l.T, path, before, survey)
	return true
}

// TestStorm: ls prints the state of the servers, while clients of three libraries hold and release,
// and while servers are killed and restarted. The test compares whenever nothing changes during ls.
// Surveys of watch have one holder for each exclusive line.
func TestStorm(t *testing.T) {
	t.Parallel()
	t.Run("debian", func(t *testing.T) { stormy(t) })
	t.Run("mixed", func(t *testing.T) { stormy(t, peers.Debian, peers.Newest) })
}

func stormy(t *testing.T, generations ...peers.Generation) {
	t.Helper()
	st := storm.Start(t, *stormClients, generations...)
	s := storm.Open(t, st.Ensemble.Addrs())
	l := &lister{t, s, strings.Join(st.Ensemble.Addrs(), ","), make(map[int]int)}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	watched := startWatch(ctx, t, l.addrs)

	paths := []string{storm.Mutex, storm.OtherMutex, storm.Shared, storm.Kazoo, storm.Leader, storm.Semaphore, storm.Queue, storm.OtherQueue}
	victim := st.Ensemble.Followers()[0]
	kill, restart := func() { st.Ensemble.Kill(victim) }, func() { st.Ensemble.Restart(victim) }
	leader := func() {
		victim = st.Ensemble.Leader()
		kill()
	}
	steps := []func(){func() {}, kill, restart, leader, restart}
	if *stormClients < 100 {
		steps = steps[:3]
	}
	for i, step := range steps {
		step()
		looks, quiet := 0, make(map[string]int)
		for sum := 0; sum < 2+*stormClients/2 || len(quiet) < min(*stormClients/3, len(paths)); looks++ {
			if ctx.Err() != nil {
				t.Fatalf("step %d: after %d looks, %v were compared", i, looks, quiet)
			}
			if path := paths[looks%len(paths)]; l.check(path) {
				quiet[path]++
				sum++
			}
		}
		t.Logf("step %d: of %d looks, those compared: %v", i, looks, quiet)
	}
	t.Logf("statuses of ls: %v; grants to this library, Curator and kazoo: %v; surveys of watch: %d", l.statuses, st.Grants(), watched())
}

// startWatch runs watch until stop is called. stop returns the number of surveys that watch
// printed.
func startWatch(ctx context.Context, t *testing.T, addrs string) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	var stderr bytes.Buffer
	p := &program{stdout: in, stderr: &stderr, terminal: func(any) bool { return false }}
	surveys, ended := 0, make(chan int, 1)
	go func() {
		defer func() { _ = in.Close() }()
		ended <- p.run(ctx, []string{"--servers", addrs, "watch", "--json", "--all", storm.Root})
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for ; lines.Scan(); surveys++ {
			var survey inspect.Survey
			if err := json.Unmarshal(lines.Bytes(), &survey); err != nil {
				t.Error(err)
			}
			for i := range survey.Things {
				thing := &survey.Things[i]
				if held := len(thing.Holders()); held > 1 && thing.Path != storm.Shared && (thing.Path != storm.Semaphore || held > storm.Limit) {
					t.Errorf("%s has %d holders: %+v", thing.Path, held, thing)
				}
			}
		}
	}()
	return func() int {
		cancel()
		if status := <-ended; status != exitSignal+2 {
			t.Errorf("status %d of watch: %s", status, stderr.String())
		}
		<-read
		return surveys
	}
}
