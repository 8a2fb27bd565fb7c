package zktest_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/session/zktest"
)

// connectTo opens a session of go-zookeeper's.
func connectTo(srv *zktest.Server) *zk.Conn {
	conn, events, err := zk.Connect(srv.Addrs(), 10*time.Second, zk.WithLogger(silence{}))
	if err != nil {
		panic(err)
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

func ExampleNewServer() {
	srv, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	conn := connectTo(srv)
	defer conn.Close()

	path, err := conn.Create("/hello", []byte("world"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err, srv.Paths())
	srv.Expire(conn.SessionID())
	fmt.Println(srv.Paths())
	// Output:
	// /hello <nil> [/hello]
	// []
}

// A reply that is lost leaves the client in doubt.
func ExampleServer_DropReply() {
	srv, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	conn := connectTo(srv)
	defer conn.Close()

	srv.DropReply(zktest.Match{Op: zktest.OpCreate, Path: "/jobs*"})
	_, err = conn.Create("/jobs", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(errors.Is(err, zk.ErrConnectionClosed), srv.Paths())
	// Output: true [/jobs]
}

// What a recipe costs is what the server counts.
func ExampleServer_Requests() {
	srv, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	conn := connectTo(srv)
	defer conn.Close()

	lock := zk.NewLock(conn, "/lock", zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil { // this one makes /lock as well
		fmt.Println(err)
	}
	if err := lock.Unlock(); err != nil {
		fmt.Println(err)
	}
	srv.ResetRequests()
	if err := lock.Lock(); err != nil {
		fmt.Println(err)
	}
	if err := lock.Unlock(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(srv.Requests(), srv.Proposals())
	// Output: map[create:1 delete:1 getChildren2:1] 2
}

func ExampleManualClock() {
	clock := new(zktest.ManualClock)
	srv, err := zktest.NewServer(zktest.Config{Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	conn := connectTo(srv)
	defer conn.Close()

	clock.Advance(9 * time.Second)
	fmt.Println(len(srv.Sessions()))
	clock.Advance(2 * time.Second)
	fmt.Println(len(srv.Sessions()))
	// Output:
	// 1
	// 0
}
