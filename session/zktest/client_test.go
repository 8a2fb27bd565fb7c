package zktest_test

import (
	"errors"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
)

// silence is a logger.
type silence struct{}

func (silence) Printf(string, ...any) {}

// connect returns go-zookeeper's client once it has a session and rests.
func connect(t *testing.T, timeout time.Duration, dialer zk.Dialer, addrs ...string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	// The client's own channel has room for six, and loses the rest.
	states := make(chan zk.Event, 1000)
	var callback zk.EventCallback = func(ev zk.Event) { states <- ev }
	var (
		conn    *zk.Conn
		err     error
		creator string // the number of a goroutine that starts no other client
		done    = make(chan struct{})
	)
	go func() {
		defer close(done)
		header := make([]byte, 64)
		creator, _, _ = strings.Cut(string(header[:runtime.Stack(header, false)]), " [")
		conn, _, err = zk.Connect(addrs, timeout, zk.WithDialer(dialer), zk.WithLogger(silence{}), zk.WithEventCallback(callback))
	}()
	<-done
	check.Must(t, err)
	t.Cleanup(conn.Close)
	awaitState(t, states, zk.StateHasSession)
	awaitRest(t, creator)
	return conn, states
}

// dial connects a client, and waits until it has a session.
func dial(t *testing.T, timeout time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	conn, _ := connect(t, timeout, net.DialTimeout, addrs...)
	return conn
}

var waits = regexp.MustCompile(`^goroutine \d+ \[sync\.WaitGroup\.Wait`)

// awaitRest waits until the client that the goroutine has started has looked at its
// watches. It does so a moment after it has told of its session, and then reads the newest
// zxid without a lock: a watch that is set within that moment is a data race of its own,
// and nothing but its stack says when it is over.
func awaitRest(t *testing.T, creator string) {
	t.Helper()
	buf := make([]byte, 4<<20)
	eventually(t, func() error {
		err := errors.New("it does not run")
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack+"\n", "created by github.com/go-zookeeper/zk.Connect in "+creator+"\n") {
				if waits.MatchString(stack) {
					return nil
				}
				err = errors.New(stack)
			}
		}
		return err
	})
}

func awaitState(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case ev, ok := <-events:
			check.Require(t, ok, "events ended before %v", state)
			if ev.State == state {
				return
			}
		case <-deadline:
			t.Fatalf("no %v within %v", state, patience)
		}
	}
}
