package zktest_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/session/zktest"
)

// patience bounds every wait of these tests. It is far longer than anything
// takes, so that a loaded machine does not fail them.
const patience = 30 * time.Second

// dial connects a client, and waits until it has a session.
func dial(t *testing.T, timeout time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, timeout, zk.WithLogger(silence{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	awaitState(t, events, zk.StateHasSession)
	return conn
}

// silence is a logger.
type silence struct{}

func (silence) Printf(string, ...any) {}

func awaitState(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				t.Fatalf("events ended before %v", state)
			}
			if ev.State == state {
				return
			}
		case <-deadline:
			t.Fatalf("no %v within %v", state, patience)
		}
	}
}

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
		conn := dial(t, time.Second, e.Addr(i))
		if _, err := conn.Create(fmt.Sprintf("/node-%d", i), nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.Mntr(leader)["zk_synced_followers"]; got != "2" {
		t.Errorf("the leader has %q followers", got)
	}

	killed := e.Leader()
	conn := dial(t, 5*time.Second, e.Addrs()...)
	e.Kill(killed)
	if e.Pid(killed) != 0 {
		t.Error("a killed server has a process")
	}
	next := e.Leader()
	if next == killed {
		t.Errorf("server %d leads, but is dead", next)
	}
	eventually(t, func() error {
		_, err := conn.Set("/node-0", []byte("after"), -1)
		return err
	})
	e.Restart(killed)
	if got := e.Leader(); got != next {
		t.Errorf("server %d leads after a restart of server %d, was %d", got, killed, next)
	}
	again := dial(t, time.Second, e.Addr(killed))
	eventually(t, func() error {
		data, _, err := again.Get("/node-0")
		if err == nil && string(data) != "after" {
			err = fmt.Errorf("a restarted server says %q", data)
		}
		return err
	})
}

const childVariable = "ZKTEST_CHILD"

func startAndHang() { os.Exit(1) }
