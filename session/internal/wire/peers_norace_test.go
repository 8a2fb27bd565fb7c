//go:build !race

// The client below races with itself when it sets its watches again.

package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/zktest"
)

// A server is where the stories of this file take place.
type server struct {
	name string
	addr string
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// servers returns the server in memory, and a real one where ZooKeeper is installed.
func servers(t *testing.T, story func(t *testing.T, s server)) {
	t.Run("memory", func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		story(t, server{"memory", srv.Addrs()[0], srv.DialContext})
	})
	t.Run("real", func(t *testing.T) {
		ens := zktest.StartEnsemble(t, 1, zktest.NoSync(), zktest.JVMFlags("-Dzookeeper.extendedTypesEnabled=true"))
		var d net.Dialer
		story(t, server{"real", ens.Addr(0), d.DialContext})
	})
}

// A recorder keeps what passes through a connection.
type recorder struct {
	net.Conn

	mu             sync.Mutex
	sent, received []byte
}

func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.Conn.Write(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, b[:n]...)
	return n, err
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, b[:n]...)
	return n, err
}

// frames cuts what has been recorded into frames, with their lengths.
func frames(b []byte) [][]byte {
	var all [][]byte
	for len(b) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(b))
		if n > len(b) {
			break
		}
		all, b = append(all, b[:n]), b[n:]
	}
	return all
}

// check reads everything that was recorded, and writes it again: no byte may differ.
// It counts operations, and events as those of OpError.
func (r *recorder) check(t *testing.T, seen map[wire.Op]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	same := func(what any, frame, again []byte, err error) {
		t.Helper()
		check.True(t, err == nil && bytes.Equal(frame, again), "%v\n   frame %q\nwritten %q, %v", what, frame, again, err)
	}
	sent, received := frames(r.sent), frames(r.received)
	if len(sent) == 0 || len(received) == 0 {
		return
	}
	q, err := wire.ParseConnectRequest(sent[0][4:])
	same(q, sent[0], wire.AppendConnectRequest(nil, &q), err)
	a, err := wire.ParseConnectResponse(received[0][4:])
	same(a, received[0], wire.AppendConnectResponse(nil, &a), err)
	requests := make(map[int32][]wire.Request)
	for _, frame := range sent[1:] {
		xid, q, err := wire.ParseRequest(frame[4:])
		same(q.Op, frame, wire.AppendRequest(nil, xid, &q), err)
		requests[xid] = append(requests[xid], q)
	}
	for _, frame := range received[1:] {
		h, rest, err := wire.ParseHeader(frame[4:])
		if err != nil {
			t.Errorf("%q: %v", frame, err)
			continue
		}
		if h.Xid == wire.XidNotification {
			e, err := wire.ParseEvent(rest)
			same(e, frame, wire.AppendEvent(nil, h.Zxid, e), err)
			seen[wire.OpError]++
			continue
		}
		if len(requests[h.Xid]) == 0 {
			t.Errorf("a reply to nothing: %q", frame)
			continue
		}
		q := requests[h.Xid][0]
		requests[h.Xid] = requests[h.Xid][1:]
		var reply wire.Reply
		if h.Code == wire.CodeOK {
			seen[q.Op]++
			err = wire.ParseReply(q.Op, opsOf(q.Ops), rest, &reply)
		}
		same(q.Op, frame, wire.AppendReply(nil, h, q.Op, &reply), err)
	}
}

// Every frame of go-zookeeper, and every answer to one.
func TestFramesOfGoZookeeper(t *testing.T) {
	servers(t, func(t *testing.T, s server) {
		var mu sync.Mutex
		var all []*recorder
		dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			c, err := s.dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, &recorder{Conn: c})
			return all[len(all)-1], nil
		}
		conn, events, err := zk.Connect([]string{s.addr}, 10*time.Second, zk.WithDialer(dial), zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
		check.Must(t, err)
		defer conn.Close()
		patient := time.After(check.Patience)
		await := func(state zk.State) {
			t.Helper()
			for {
				select {
				case e := <-events:
					if e.State == state {
						return
					}
				case <-patient:
					t.Fatalf("never in state %v", state)
				}
			}
		}
		await(zk.StateHasSession)

		open := zk.WorldACL(zk.PermAll)
		must := func(err error) {
			t.Helper()
			check.Must(t, err)
		}
		must(conn.AddAuth("digest", []byte("user:secret")))
		_, err = conn.Create("/a", nil, 0, open)
		must(err)
		_, _, changed, err := conn.GetW("/a")
		must(err)
		_, _, created, err := conn.ExistsW("/a/later")
		must(err)
		_, _, children, err := conn.ChildrenW("/a")
		must(err)
		mu.Lock()
		must(all[0].Close())
		mu.Unlock()
		await(zk.StateHasSession) // it sets its watches again

		_, err = conn.Set("/a", []byte("data"), -1)
		must(err)
		_, err = conn.Create("/a/later", []byte{}, zk.FlagEphemeral|zk.FlagSequence, zk.DigestACL(zk.PermAll, "user", "secret"))
		must(err)
		_, err = conn.Create("/a/later", []byte("é"), zk.FlagEphemeral, open)
		must(err)
		_, err = conn.CreateContainer("/a/container", nil, zk.FlagContainer, open)
		must(err)
		_, err = conn.CreateTTL("/a/ttl", nil, zk.FlagTTL, open, time.Hour)
		must(err)
		for _, ch := range []<-chan zk.Event{changed, created, children} {
			select {
			case <-ch:
			case <-patient:
				t.Fatal("an event is missing")
			}
		}
		_, _, err = conn.Get("/a")
		must(err)
		_, _, err = conn.Exists("/a")
		must(err)
		_, _, err = conn.Children("/a")
		must(err)
		_, _, err = conn.GetACL("/a")
		must(err)
		_, err = conn.SetACL("/a", zk.AuthACL(zk.PermAll), -1)
		must(err)
		_, err = conn.Sync("/a")
		must(err)
		_, err = conn.Multi(
			&zk.CreateRequest{Path: "/b", Data: []byte("x"), Acl: open},
			&zk.SetDataRequest{Path: "/b", Data: nil, Version: 0},
			&zk.CheckVersionRequest{Path: "/b", Version: 1},
			&zk.DeleteRequest{Path: "/b", Version: -1},
		)
		must(err)
		if _, err = conn.Multi(&zk.DeleteRequest{Path: "/a/later", Version: -1}, &zk.CheckVersionRequest{Path: "/none"}); err == nil {
			t.Error("a multi should have failed")
		}
		_, err = conn.IncrementalReconfig([]string{"server.9=127.0.0.1:1:2:participant;3"}, nil, -1)
		check.True(t, err != nil, "a reconfiguration should have failed")
		must(conn.Delete("/a/later", 0))
		conn.Close()

		mu.Lock()
		defer mu.Unlock()
		seen := make(map[wire.Op]int)
		for _, r := range all {
			r.check(t, seen)
		}
		for _, op := range []wire.Op{
			wire.OpError, wire.OpAuth, wire.OpCreate, wire.OpGetData, wire.OpExists, wire.OpGetChildren2, wire.OpSetData, wire.OpSetWatches,
			wire.OpCreateContainer, wire.OpCreateTTL, wire.OpGetACL, wire.OpSetACL, wire.OpSync, wire.OpMulti, wire.OpDelete,
		} {
			check.True(t, seen[op] != 0, "no frame of %v among %v", op, seen)
		}
	})
}
