package commit_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// This file has a coordinator and sites as processes, each of which is killed before or after one
// of its requests, starts again, and is killed again. What a process has to keep, it appends to a
// file, as a database would.

var crashTransactions = flag.Int("commit.crashes", hasten.Usually(10, 4), "transactions whose coordinator and sites are killed again and again; 300 are a campaign")

// The environment of a process that the test starts.
const (
	asParty     = "COMMIT_TEST_PARTY"   // coordinator, or the name of a site
	partyDir    = "COMMIT_TEST_DIR"     // where it keeps its file
	partyAddrs  = "COMMIT_TEST_SERVERS" // to connect to
	partyKilled = "COMMIT_TEST_KILL"    // the number of the request at which it is killed; 0 for none
	partyCount  = "COMMIT_TEST_COUNT"   // of transactions
	chief       = "coordinator"
)

// bereft is the exit status of a process whose session has expired, which happens on a busy
// machine. Another process takes its place, as if it had been killed.
const bereft = 3

var crashSites = []string{"a", "b", "c"}

// A ledger is the file of a process.
type ledger struct{ *os.File }

func openLedger(dir, name string) (ledger, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return ledger{f}, err
}

// write appends a line, which outlives the process.
func (l ledger) write(words ...string) {
	if _, err := l.WriteString(strings.Join(words, " ") + "\n"); err != nil {
		panic(err)
	}
}

// lines returns what was written by a name, word by word.
func lines(dir, name string) (all [][]string) {
	data, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // a file of the test
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	for line := range strings.Lines(string(data)) {
		all = append(all, strings.Fields(line))
	}
	return all
}

// live is the life of a process.
func live(role string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // the test kills what hangs
	defer cancel()
	l, err := openLedger(os.Getenv(partyDir), role)
	if err != nil {
		panic(err)
	}
	at, _ := strconv.Atoi(os.Getenv(partyKilled))
	var writes atomic.Int64
	s, err := session.Open(ctx, strings.Split(os.Getenv(partyAddrs), ","), &session.Options{
		Timeout: 3 * time.Second, ServerTick: 100 * time.Millisecond,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return mortal{conn, &writes, int64(at)}, err
		},
	})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	if role == chief {
		err = coordinateAll(ctx, s, l)
	} else {
		err = serveSite(ctx, s, l, role)
	}
	switch {
	case errors.Is(err, session.ErrExpired):
		return bereft
	case err != nil:
		fmt.Fprintln(os.Stderr, role, err)
		return 1
	}
	return 0
}

// A mortal connection kills its process before or after it has sent a request.
type mortal struct {
	net.Conn
	writes *atomic.Int64
	at     int64 // 2n to die before the request n, 2n+1 to die after it
}

func (c mortal) Write(b []byte) (int, error) {
	now := 2 * c.writes.Add(1)
	if now == c.at {
		die()
	}
	n, err := c.Conn.Write(b)
	if now+1 == c.at {
		die()
	}
	return n, err
}

func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // it is killed now
}

// planned returns the vote of a site, in all its lives.
func planned(tx, site string) commit.Vote {
	const one = 10 // in so many is No
	if crc32.ChecksumIEEE([]byte(tx+site))%one == 0 {
		return commit.No
	}
	return commit.Yes
}

// serveSite votes, and keeps every outcome before it finishes. It ends when it is killed.
func serveSite(ctx context.Context, s *session.Session, l ledger, name string) error {
	p, err := commit.Join(s, parent, name, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	for ev := range p.Events() {
		var err error
		switch ev := ev.(type) {
		case commit.Prepare:
			vote := planned(ev.Tx.ID, name)
			l.write(ev.Tx.ID, "votes", vote.String())
			err = p.Vote(ctx, ev.Tx, vote)
		case commit.Committed:
			l.write(ev.Tx.ID, "committed")
			err = p.Finish(ctx, ev.Tx)
		case commit.Aborted:
			l.write(ev.Tx.ID, "aborted")
			err = p.Finish(ctx, ev.Tx)
		case commit.Forgotten:
			l.write(ev.Tx.ID, "forgotten")
		case commit.Left:
			return ev.Err
		case commit.Voted:
		}
		if errors.Is(err, session.ErrExpired) {
			return err
		}
		if err != nil && !errors.Is(err, commit.ErrDecided) && !errors.Is(err, commit.ErrNoTransaction) {
			l.write(fmt.Sprintf("failed: %v", err))
		}
	}
	return nil
}

// coordinateAll resumes what an earlier life has begun, and begins the rest. It ends when nothing
// is left.
func coordinateAll(ctx context.Context, s *session.Session, l ledger) error {
	handles, err := commit.Resume(ctx, s, parent)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv(partyCount))
	if err != nil {
		return err
	}
	for n := begunIn(filepath.Dir(l.Name())); ; n++ {
		if len(handles) > 2 || n >= count {
			for _, tx := range handles {
				if err := awaitOutcome(ctx, l, tx); err != nil {
					return err
				}
			}
			handles = nil
		}
		if n >= count {
			break
		}
		id := fmt.Sprintf("tx-%04d", n)
		l.write(id, "begins")
		tx, err := commit.Begin(ctx, s, parent+"/"+id, &commit.Options{
			Sites: crashSites, Mode: commit.Mode(n % 2), Deadline: 3 * time.Second, TakeoverAfter: time.Second,
		})
		if errors.Is(err, session.ErrUnknownOutcome) {
			continue
		}
		if err != nil {
			return err
		}
		handles = append(handles, tx)
	}
	status, err := commit.List(ctx, s, parent)
	if err != nil {
		return err
	}
	for _, at := range status {
		if err := watch.UntilGone(ctx, s, parent+"/"+at.ID); err != nil {
			return fmt.Errorf("left: %v: %w", at, err)
		}
	}
	return nil
}

func awaitOutcome(ctx context.Context, l ledger, tx *commit.Transaction) error {
	defer tx.Close()
	outcome, err := tx.Wait(ctx)
	switch {
	case errors.Is(err, commit.ErrForgotten): // the sites were done before it was followed
	case err != nil:
		return err
	case outcome.Committed:
		l.write(tx.ID(), "committed")
	default:
		l.write(tx.ID(), "aborted")
	}
	return nil
}

// begunIn returns how many transactions were begun, or were to be.
func begunIn(dir string) (n int) {
	for _, words := range lines(dir, chief) {
		if len(words) == 2 && words[1] == "begins" {
			n++
		}
	}
	return n
}

// A life of a process has ended.
type death struct {
	role   string
	killed bool // or bereft
	err    error
	output string
}

// long is how many lives of a process come to one that is long. A transaction stays while the
// server has a ballot of a coordinator that was killed, which is for a session's timeout. With
// short lives alone there are soon so many that a coordinator is killed before it has resumed them
// all, and begins none.
const long = 25

// TestCrashes kills the coordinator and the sites at every point between two requests, on three
// real servers. There is one outcome of each transaction, it comes to every site, and nothing is
// left.
func TestCrashes(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3)
	self := check.Have(os.Executable())(t)
	dir, began := t.TempDir(), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deaths := make(chan death)
	lives, kills, points := map[string]int{}, 0, map[string]bool{}
	start := func(role string) {
		at := 0
		if begunIn(dir) < *crashTransactions {
			const most = 60 // requests of a life
			at = 2 + lives[role]*7%(2*most)
			if lives[role]%long == long-1 {
				at += 2 * most * 2
			}
			points[fmt.Sprint(role == chief, at)] = true
		}
		lives[role]++
		var output bytes.Buffer
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), asParty+"="+role, partyDir+"="+dir, partyAddrs+"="+strings.Join(ens.Addrs(), ","),
			partyKilled+"="+strconv.Itoa(at), partyCount+"="+strconv.Itoa(*crashTransactions))
		cmd.Stderr = &output
		check.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, or is to
		go func() {
			err := cmd.Wait()
			deaths <- death{role, slices.Contains([]int{-1, bereft}, cmd.ProcessState.ExitCode()), err, output.String()}
		}()
	}
	for _, role := range append([]string{chief}, crashSites...) {
		start(role)
	}
	for running := 1 + len(crashSites); running > 0; {
		switch end := <-deaths; {
		case end.role == chief && end.err == nil:
			cancel() // and with that, the sites
			running--
		case ctx.Err() != nil:
			running--
		case !end.killed:
			t.Errorf("%s: %v: %s", end.role, end.err, end.output)
			cancel()
			running--
		default:
			kills++
			start(end.role)
		}
	}
	committed := checkLedgers(t, dir)
	t.Logf("%d transactions, %d committed, %d kills at %d points, %v", *crashTransactions, committed, kills, len(points), time.Since(began))
}

// checkLedgers checks what the processes have kept, and returns how many transactions were
// committed.
func checkLedgers(t *testing.T, dir string) (committed int) {
	t.Helper()
	type learned struct {
		outcomes []string // that are different
		sites    map[string]bool
		asked    bool // some site was
		no       bool // some site voted so
	}
	all := map[string]*learned{}
	for _, role := range append([]string{chief}, crashSites...) {
		for _, words := range lines(dir, role) {
			at := all[words[0]]
			if at == nil {
				at = &learned{sites: map[string]bool{}}
				all[words[0]] = at
			}
			switch what := words[1]; what {
			case "begins":
			case "votes":
				at.asked, at.no = true, at.no || words[2] == "no"
			case "committed", "aborted":
				if at.sites[role] = true; !slices.Contains(at.outcomes, what) {
					at.outcomes = append(at.outcomes, what)
				}
			default:
				t.Errorf("%s: %q", role, words)
			}
		}
	}
	check.Equal(t, len(all), *crashTransactions, "transactions")
	for id, at := range all {
		delete(at.sites, chief)
		there := at.asked || len(at.outcomes) > 0 // else its beginning was not executed
		done := slices.Contains(at.outcomes, "committed")
		switch {
		case len(at.outcomes) > 1, there && len(at.sites) != len(crashSites), done && at.no:
			t.Errorf("%s: %q at %v; a no: %v", id, at.outcomes, at.sites, at.no)
		case done:
			committed++
		}
	}
	return committed
}
