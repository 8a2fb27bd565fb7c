package zktest

import (
	"bufio"
	"net"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// answering is a server that gives these answers, each to one question, and then the last again and
// again.
func answering(t *testing.T, answers ...string) *realServer {
	t.Helper()
	l := check.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		accept(l, func(c net.Conn) {
			_, _ = bufio.NewReader(c).Discard(len("srvr"))
			_, _ = c.Write([]byte(answers[0]))
			_ = c.Close()
			answers = answers[min(1, len(answers)-1):]
		})
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return &realServer{
		dir: "/servers/0", client: &port{addr: l.Addr().String()},
		process: &serverProcess{exited: make(chan struct{})},
	}
}

// TestServerThatElectsIsAwaited: a server that leaves its state between two questions, or refuses
// writes, is about to serve. Only an answer of another process ends the wait.
func TestServerThatElectsIsAwaited(t *testing.T) {
	t.Parallel()
	const (
		electing = "This ZooKeeper instance is not currently serving requests\n"
		readOnly = "Zxid: 0x0\nMode: read-only\n"
		follows  = "Zxid: 0x0\nMode: follower\n"
		own      = "clientPort=1\ndataDir=/servers/0/data/version-2\n"
		foreign  = "clientPort=1\ndataDir=/servers/1/data/version-2\n"
	)
	for name, test := range map[string]struct {
		answers []string
		served  bool
	}{
		"at once":               {[]string{follows, own}, true},
		"ends between":          {[]string{follows, electing, electing, follows, own}, true},
		"hangs up between":      {[]string{follows, "", follows, own}, true},
		"is read-only":          {[]string{readOnly, follows, own}, true},
		"another process":       {[]string{follows, foreign}, false},
		"another process later": {[]string{electing, follows, electing, follows, foreign}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := answering(t, test.answers...).awaitServing(check.Patient(t), func() int { return -1 })
			check.True(t, (err == nil) == test.served, "%v", err)
		})
	}
}

// TestLinkAwaitsLateLeader: a leader that runs and listens late keeps its followers. A follower
// that learns that it has lost the connection elects again, and the leader waits for it until
// InitLimit.
func TestLinkAwaitsLateLeader(t *testing.T) {
	t.Parallel()
	leader := check.Have(reservePort())(t)
	defer leader.release()
	ended := make(chan struct{})
	var l net.Listener
	listen := sync.OnceFunc(func() { // when the link has dialed in vain for as long as it grants to the dead
		l = check.Have(net.Listen("tcp", leader.addr))(t)
		go func() {
			defer close(ended)
			accept(l, func(c net.Conn) {
				_, _ = c.Write([]byte("leader"))
				_ = c.Close()
			})
		}()
	})
	link := check.Have(newLink(leader.addr, "127.0.0.1:1", func() bool {
		listen()
		return true
	}))(t)
	defer link.close()
	follower := check.Have(net.Dial("tcp", link.addrs()[0]))(t)
	defer follower.Close() //nolint:errcheck // nothing was written
	got := make([]byte, len("leader"))
	_, err := bufio.NewReader(follower).Read(got)
	check.True(t, err == nil && string(got) == "leader", "%q, %v", got, err)
	listen()
	_ = l.Close()
	<-ended
}
