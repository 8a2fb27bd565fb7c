package zktest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

// patience bounds every wait of these tests. It is far longer than anything
// takes, so that a loaded machine does not fail them.
const patience = check.Patience

// eventually repeats try until it succeeds.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still after %v: %v", patience, err)
		}
	}
}

func TestEnsembleServes(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3, zktest.NoSync())
	leader := e.Leader()
	if got := e.Followers(); len(got) != 2 || slices.Contains(got, leader) {
		t.Fatalf("followers %v of leader %d", got, leader)
	}
	for i := range e.Size() {
		conn := dial(t, patience, e.Addr(i))
		check.Have(conn.Create(fmt.Sprintf("/node-%d", i), nil, 0, zk.WorldACL(zk.PermAll)))(t)
	}
	check.Equal(t, e.Mntr(leader)["zk_synced_followers"], "2", "followers of the leader")

	killed := e.Leader()
	conn := dial(t, patience, e.Addrs()...)
	e.Kill(killed)
	check.True(t, e.Pid(killed) == 0, "a killed server has a process")
	next := e.Leader()
	check.True(t, next != killed, "server %d leads, but is dead", next)
	eventually(t, func() error {
		_, err := conn.Set("/node-0", []byte("after"), -1)
		return err
	})
	e.Restart(killed)
	check.Equal(t, e.Leader(), next, "the leader after a restart of server", killed)
	again := dial(t, patience, e.Addr(killed))
	eventually(t, func() error {
		data, _, err := again.Get("/node-0")
		if err == nil && string(data) != "after" {
			err = fmt.Errorf("a restarted server says %q", data)
		}
		return err
	})
}

// TestEnsembleWhoseLeaderServesNobody: such a leader is known by the others, and its successor too.
func TestEnsembleWhoseLeaderServesNobody(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	e := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.Setting("leaderServes", "no"))
	for range 2 {
		leader := e.Leader()
		text, err := e.FourLetterWord(leader, "srvr")
		check.True(t, err == nil && !strings.Contains(text, "Mode:"), "the leader serves: %s, %v", text, err)
		for _, follower := range e.Followers() {
			conn := dial(t, patience, e.Addr(follower))
			check.Have(conn.Create(fmt.Sprint("/of-", follower, "-", leader), nil, 0, zk.WorldACL(zk.PermAll)))(t)
		}
		e.Kill(leader)
		next := e.Leader()
		check.True(t, next != leader, "server %d leads, but is dead", leader)
		e.Restart(leader)
		check.Equal(t, e.Leader(), next)
	}
}

func TestEnsemblePause(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	e := zktest.StartEnsemble(t, 3, zktest.NoSync())
	paused := e.Leader()
	e.Pause(paused)
	if text, err := e.FourLetterWord(paused, "ruok"); err == nil {
		t.Errorf("a paused server answers %q", text)
	}
	eventually(t, func() error { // the others need SyncLimit to notice
		if leader := e.Leader(); leader == paused {
			return fmt.Errorf("server %d still leads", leader)
		}
		return nil
	})
	e.Resume(paused)
	eventually(t, func() error {
		text, err := e.FourLetterWord(paused, "srvr")
		if err == nil && !strings.Contains(text, "Mode: follower") {
			err = errors.New(text)
		}
		return err
	})
}

// A follower that is cut off from the leader answers its clients for a while,
// during which the leader may give their nodes away. This is why a session must
// not count answers that did not come through the leader.
func TestEnsembleIsolatedFollowerAnswers(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	e := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(100))
	leader, follower := e.Leader(), e.Followers()[0]
	holder := dial(t, 10*time.Second, e.Addr(follower))
	other := dial(t, patience, e.Addr(leader))
	const node = "/held"
	check.Have(holder.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))(t)
	exists, _, gone, err := other.ExistsW(node)
	check.Require(t, exists && err == nil, "%v %v", exists, err)

	e.Isolate(follower)
	cut := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var reads int
	for held := true; held; {
		select {
		case ev := <-gone:
			check.Require(t, ev.Type == zk.EventNodeDeleted, "%v", ev)
			held = false
		case <-tick.C:
			if _, _, err := holder.Exists(node); err != nil {
				t.Fatalf("the follower stopped to answer %v after the cut, before the node was gone: %v", time.Since(cut), err)
			}
			reads++
		}
	}
	vanished := time.Since(cut)
	exists, _, err = holder.Exists(node)
	check.Require(t, err == nil && exists, "after the node was gone, the follower says %v, %v", exists, err)
	for err == nil {
		<-tick.C
		_, _, err = holder.Exists(node)
	}
	t.Logf("T=10s: node gone after %v, the follower answered until %v, %d reads before", vanished, time.Since(cut), reads)

	e.Heal()
	again := dial(t, patience, e.Addr(follower))
	exists, _, err = again.Exists(node)
	check.True(t, err == nil && !exists, "the follower is back and says %v, %v", exists, err)
	check.Equal(t, e.Leader(), leader, "the leader")
}

func TestEnsembleLinks(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	e := zktest.StartEnsemble(t, 3, zktest.NoSync())
	first := e.Leader()
	// The others can reach each other and elect one of them.
	e.Isolate(first)
	eventually(t, func() error {
		if leader := e.Leader(); leader == first {
			return fmt.Errorf("server %d still leads", leader)
		}
		return nil
	})
	e.Heal()
	serving := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i := range e.Size() {
			check.Must(t, e.AwaitServing(ctx, i))
		}
	}
	serving()

	// A connection that is reset is made again.
	leader, follower := e.Leader(), e.Followers()[0]
	e.ResetLink(leader, follower)
	eventually(t, func() error {
		text, err := e.FourLetterWord(follower, "srvr")
		if err == nil && strings.Contains(text, "Mode:") {
			err = errors.New("still serves")
		} else {
			err = nil
		}
		return err
	})
	e.HealLink(leader, follower)
	serving()

	// One way is enough to be cut off.
	leader, follower = e.Leader(), e.Followers()[0]
	e.CutOneWay(leader, follower)
	eventually(t, func() error {
		text, err := e.FourLetterWord(follower, "srvr")
		if err != nil || strings.Contains(text, "Mode:") {
			return fmt.Errorf("still serves: %w", err)
		}
		return nil
	})
	e.Heal()
	serving()

	// All at once, as after a power cut.
	for i := range e.Size() {
		e.Kill(i)
	}
	e.Restart(0, 1, 2)
	serving()
}

func TestEnsembleRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []zktest.EnsembleConfig{{Servers: -1}, {TickTime: 1}, {SyncLimit: -1}, {StartTimeout: -1}} {
		if e, err := zktest.NewEnsemble(c); err == nil {
			e.Close()
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestEnsembleSaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	skipWithoutServers(t)
	_, err := zktest.NewEnsemble(zktest.EnsembleConfig{Settings: map[string]string{"tickTime": "never"}})
	check.True(t, err != nil && strings.Contains(err.Error(), "NumberFormatException"), "got %v, want the end of the log", err)
}

// childVariable is set in a child of this test, to the directory that it is to
// use.
const childVariable = "ZKTEST_CHILD"

// startAndHang starts a server, says where it is, and waits to be killed.
func startAndHang() {
	e, err := zktest.NewEnsemble(zktest.EnsembleConfig{Dir: os.Getenv(childVariable), NoSync: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(e.Addr(0))
	os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // nothing comes
}

func TestEnsembleEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	skipWithoutServers(t)
	self := check.Have(os.Executable())(t)
	child := exec.Command(self)
	child.Env = append(os.Environ(), childVariable+"="+t.TempDir())
	child.Stderr = os.Stderr
	stdin := check.Have(child.StdinPipe())(t)
	defer stdin.Close() //nolint:errcheck // it was not used
	stdout := check.Have(child.StdoutPipe())(t)
	check.Must(t, child.Start())
	line := check.Have(bufio.NewReader(stdout).ReadString('\n'))(t)
	addr := strings.TrimSpace(line)
	conn := check.Have(net.Dial("tcp", addr))(t)
	defer conn.Close() //nolint:errcheck // it was not used

	check.Must(t, child.Process.Kill())
	child.Wait() //nolint:errcheck // it was killed
	// The kernel closes the connection when the server is gone.
	check.Must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server lives on")
	}
	eventually(t, func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil //nolint:nilerr // nobody is there any more
		}
		conn.Close() //nolint:errcheck // it was not used
		return errors.New("the server lives on")
	})
}

func skipWithoutServers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("zktest: real servers are not started with -short")
	}
	if err := zktest.Installed(); err != nil {
		t.Skip(err)
	}
}
