package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/life"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/session"
)

// An assignment is the first line that a worker reads: what its process is to do.
type assignment struct {
	System     workload.System
	Number, Of int
	Process    string        // the name of this life
	Servers    []string      // its own proxies
	Direct     []string      // the servers without proxies
	Dir        string        // for its journal
	Start      time.Duration // of the history, by the clock of the machine
	Seed       uint64
}

func (a assignment) journal() string { return filepath.Join(a.Dir, "journal-"+a.Process) }

// The words between the campaign and a worker. Each is a line.
const (
	ready = "ready" // from the worker: its work has begun
	other = "other" // from the worker, with the number of another process that belongs to it
	stop  = "stop"  // to the worker; it answers worked
	quiet = "quiet" // to the worker
	over  = "over"  // to the worker; it answers ended, and ends

	worked = "worked"
	ended  = "ended"
)

// Work is the main function of a worker: one life of a process.
func Work(in io.Reader, out io.Writer) (err error) {
	lines := bufio.NewScanner(in)
	var a assignment
	if !lines.Scan() {
		return errors.New("a worker is started by campaign real")
	}
	if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
		return err
	}
	file, err := os.OpenFile(a.journal(), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	record := history.NewJournal(file, since(a.Start))
	phases := map[string]chan struct{}{stop: make(chan struct{}), quiet: make(chan struct{}), over: make(chan struct{})}
	client := record.Client(a.Process)
	config := life.Config{
		System: a.System, Number: a.Number, Of: a.Of, Servers: a.Servers, Record: client, Dice: scenario.Dices(a.Process, a.Seed),
		Dial: new(net.Dialer).DialContext, Stop: phases[stop], Quiet: phases[quiet], Over: phases[over],
	}
	say := func(words ...any) { _, _ = fmt.Fprintln(out, words...) } // without a campaign the input ends, too
	if library, is := libraries[a.System]; is {
		// The session beside the peer has no nodes, and no faults.
		config.Servers = a.Direct
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		p, err := peers.Launch(ctx, library, a.Dir, a.Servers, &peers.Options{SessionTimeout: scenario.Timeout})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		say(other, p.Pid())
		config.Peer = locks{p, kinds[a.System]}
	}
	l, err := life.Start(config)
	if err != nil {
		return err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer l.Close()
	done := make(chan struct{})
	defer close(done)
	watching.Go(func() { stalls(record, a.Process, done) })
	say(ready)
	for lines.Scan() {
		phase := lines.Text()
		close(phases[phase])
		switch phase {
		case stop:
			watching.Go(func() {
				l.AwaitWork(patience)
				say(worked)
			})
		case over:
			l.AwaitStanding()
			l.Close()
			say(ended)
			return record.Err()
		}
	}
	return errors.New("the campaign has ended before its worker")
}

// That a process did not run is noted when it was longer than stalled: a session counts on less.
const (
	beat    = 20 * time.Millisecond
	stalled = 80 * time.Millisecond
)

// stalls records when the process did not run, because it was stopped or the machine was busy.
func stalls(record *history.Recorder, process string, done <-chan struct{}) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	last := record.Moment()
	for {
		select {
		case <-ticker.C:
		case <-done:
			return
		}
		next := record.Moment()
		if gap := next.At - last.At; gap > stalled {
			record.FaultAt(last, history.Fault{Kind: history.Stopped, Process: process, For: gap})
		}
		last = next
	}
}

// libraries and kinds of the controls that are programs.
var (
	libraries = map[workload.System]peers.Library{workload.Curator: peers.Curator, workload.Kazoo: peers.Kazoo}       //nolint:gochecknoglobals // a constant
	kinds     = map[workload.System]peers.Kind{workload.Curator: peers.CuratorMutex, workload.Kazoo: peers.KazooLock} //nolint:gochecknoglobals // a constant
)

// locks are those of a peer.
type locks struct {
	peer *peers.Peer
	kind peers.Kind
}

// Join implements [workload.Peer].
func (l locks) Join(path string) (workload.Claim, error) { return l.peer.Join(l.kind, path, 0) }

// operate opens the session of the operator, which goes to the servers without a proxy.
func operate(ctx context.Context, servers []string) (*session.Session, error) {
	return session.Open(ctx, servers, &session.Options{Timeout: 40 * time.Second})
}
