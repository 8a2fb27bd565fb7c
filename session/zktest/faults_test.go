package zktest_test

import (
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFaults shows that a server in memory and a proxy before one do the same
// to clients.
func TestFaults(t *testing.T) {
	for _, kind := range []struct {
		name  string
		faces func(t *testing.T, srv *zktest.Server) zktest.Faults
	}{
		{"server", func(_ *testing.T, srv *zktest.Server) zktest.Faults { return srv }},
		{"proxy", func(t *testing.T, srv *zktest.Server) zktest.Faults { return zktest.NewProxy(t, srv.Addrs()...) }},
	} {
		for _, test := range []struct {
			name string
			run  func(f faulty)
		}{
			{"counts", faultyCounts},
			{"lost request", func(f faulty) { faultyLoses(f, f.DropRequest, false) }},
			{"lost reply", func(f faulty) { faultyLoses(f, f.DropReply, true) }},
			{"lost handshake", faultyHandshake},
			{"lost sync", func(f faulty) { faultyUnnamed(f, zktest.OpSync, f.sync) }},
			{"lost check", func(f faulty) { faultyUnnamed(f, zktest.OpCheck, f.check) }},
			{"delay", faultyDelays},
			{"disconnect", faultyDisconnects},
			{"refuse", faultyRefuses},
			{"freeze both", func(f faulty) { faultyFreezes(f, zktest.Both) }},
			{"freeze to server", func(f faulty) { faultyFreezes(f, zktest.ToServer) }},
			{"freeze to client", func(f faulty) { faultyFreezes(f, zktest.ToClient) }},
			{"freeze replies", func(f faulty) { faultyFreezes(f, zktest.ToClientButEvents) }},
			{"expire", faultyExpires},
		} {
			t.Run(test.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				srv := zktest.Start(t)
				f := faulty{T: t, srv: srv, Faults: kind.faces(t, srv)}
				f.conn, f.events = connect(t, 10*time.Second, net.DialTimeout, append(f.Addrs(), f.Addrs()...)...)
				t.Cleanup(func() { f.Thaw(0) })
				test.run(f)
			})
		}
	}
}

// faulty is a server, what injects the faults, and their victim.
type faulty struct {
	*testing.T
	zktest.Faults

	srv    *zktest.Server
	conn   *zk.Conn
	events <-chan zk.Event
}

func (f faulty) create(path string) error {
	_, err := f.conn.Create(path, nil, 0, world)
	return err
}

// hasCreated waits until the server has the nodes, and no others.
func (f faulty) hasCreated(paths ...string) {
	f.Helper()
	eventually(f.T, func() error {
		if !slices.Equal(f.srv.Paths(), paths) {
			return errors.New("it has others")
		}
		return nil
	})
}

func (f faulty) hit() {
	f.Helper()
	check.Must(f, f.AwaitFault(patience))
}

func faultyCounts(f faulty) {
	for _, path := range []string{"/a", "/b"} {
		check.Must(f, f.create(path))
	}
	check.Have(f.conn.Sync("/"))(f)
	check.Have(f.conn.Multi(&zk.CheckVersionRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/b"}))(f)
	check.Must(f, f.check())
	want := zktest.Counts{zktest.OpCreate: 2, zktest.OpSync: 1, zktest.OpMulti: 1, zktest.OpCheck: 1}
	if got := f.Requests(); !maps.Equal(got, want) {
		f.Fatal(got, want)
	}
	f.ResetRequests()
	check.Equal(f, len(f.Requests()), 0)
}

func (f faulty) sync() error {
	_, err := f.conn.Sync("/")
	return err
}

// check sends a transaction of nothing but checks.
func (f faulty) check() error {
	_, err := f.conn.Multi(&zk.CheckVersionRequest{Path: "/zookeeper", Version: -1}, &zk.CheckVersionRequest{Path: "/", Version: -1})
	return err
}

func faultyLoses(f faulty, lose func(zktest.Match), applied bool) {
	id := f.conn.SessionID()
	lose(zktest.Match{Path: "/a/*", Skip: 1})
	if err := f.AwaitFault(time.Millisecond); err == nil {
		f.Fatal("it has hit nothing")
	}
	for _, path := range []string{"/a", "/a/b"} {
		check.Must(f, f.create(path))
	}
	_, err := f.conn.Multi(
		&zk.CreateRequest{Path: "/c", Acl: world},
		&zk.CreateRequest{Path: "/a/c", Acl: world},
	)
	check.Is(f, err, zk.ErrConnectionClosed)
	f.hit()
	if applied {
		f.hasCreated("/a", "/a/b", "/a/c", "/c")
	} else {
		f.hasCreated("/a", "/a/b")
	}
	awaitState(f.T, f.events, zk.StateHasSession)
	check.Require(f, f.conn.SessionID() == id, "another session")
}

func faultyHandshake(f faulty) {
	id := f.conn.SessionID()
	f.DropReply(zktest.Match{Op: zktest.OpCreateSession})
	f.Disconnect(id)
	f.hit()
	awaitState(f.T, f.events, zk.StateHasSession)
	check.Require(f, f.conn.SessionID() == id, "another session")
}

// faultyUnnamed: a Match selects the operation only if it names it.
func faultyUnnamed(f faulty, op zktest.Op, ask func() error) {
	f.DropRequest(zktest.Match{})
	check.Must(f, ask(), "hit by a match that does not name it")
	f.DropRequest(zktest.Match{Op: op, Path: "/"})
	check.Is(f, ask(), zk.ErrConnectionClosed)
	awaitState(f.T, f.events, zk.StateHasSession)
	check.Is(f, f.create("/a"), zk.ErrConnectionClosed)
	f.hit()
}

func faultyDelays(f faulty) {
	f.Delay(zktest.Match{Op: zktest.OpCreate}, 50*time.Millisecond)
	begin := time.Now()
	if err := f.create("/a"); err != nil || time.Since(begin) < 50*time.Millisecond {
		f.Fatal(err, time.Since(begin))
	}
	f.hit()
}

func faultyDisconnects(f faulty) {
	id := f.conn.SessionID()
	f.Disconnect(id + 1)
	check.Must(f, f.create("/a"))
	f.Disconnect(id)
	awaitState(f.T, f.events, zk.StateDisconnected)
	awaitState(f.T, f.events, zk.StateHasSession)
	f.Disconnect(0)
	awaitState(f.T, f.events, zk.StateDisconnected)
	awaitState(f.T, f.events, zk.StateHasSession)
	check.Require(f, f.conn.SessionID() == id, "another session")
}

func faultyRefuses(f faulty) {
	f.Refuse(true)
	f.Disconnect(0)
	awaitState(f.T, f.events, zk.StateDisconnected)
	if err := f.create("/a"); err == nil {
		f.Fatal("served")
	}
	f.Refuse(false)
	awaitState(f.T, f.events, zk.StateHasSession)
}

func faultyFreezes(f faulty, dir zktest.Direction) {
	check.Must(f, f.create("/a"))
	_, _, appears, err := f.conn.ExistsW("/by another")
	check.Must(f, err)
	other := dial(f.T, patience, f.srv.Addrs()...)
	f.Freeze(f.conn.SessionID(), dir)
	answered := make(chan error, 1)
	go func() { answered <- f.create("/b") }()
	if dir == zktest.ToClient || dir == zktest.ToClientButEvents {
		f.hasCreated("/a", "/b")
	}
	check.Have(other.Create("/by another", nil, 0, world))(f)
	if dir == zktest.ToClientButEvents || dir == zktest.ToServer {
		await(f.T, appears)
	} else {
		pending(f.T, appears)
	}
	pending(f.T, answered)
	f.Thaw(f.conn.SessionID())
	check.Must(f, await(f.T, answered))
	f.hasCreated("/a", "/b", "/by another")
}

func faultyExpires(f faulty) {
	id := f.conn.SessionID()
	check.Have(f.conn.Create("/e", nil, zk.FlagEphemeral, world))(f)
	f.Expire(id)
	f.hasCreated()
	awaitState(f.T, f.events, zk.StateExpired)
	awaitState(f.T, f.events, zk.StateHasSession)
	check.Require(f, f.conn.SessionID() != id, "the session lives")
}
