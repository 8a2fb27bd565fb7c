package zktest_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFaults: a server in memory, a proxy before one, and a proxy before a real server do the same
// to clients.
func TestFaults(t *testing.T) {
	inMemory := func(t *testing.T) faulty {
		srv := zktest.Start(t)
		return faulty{T: t, Faults: srv, direct: srv.Addrs(), paths: srv.Paths}
	}
	for kind, stage := range map[string]func(t *testing.T) faulty{
		"server": inMemory,
		"proxy": func(t *testing.T) faulty {
			f := inMemory(t)
			f.Faults = zktest.NewProxy(t, f.direct...)
			return f
		},
		"real": func(t *testing.T) faulty {
			ens := zktest.SharedEnsemble(t, 1)
			f := faulty{T: t, Faults: zktest.NewProxy(t, ens.Addrs()...), direct: ens.Addrs(), dir: "/" + strings.ReplaceAll(t.Name(), "/", "-")}
			operator := dial(t, patience, ens.Addrs()...)
			check.Have(operator.Create(f.dir, nil, 0, world))(t)
			f.paths = func() []string { return below(t, operator, f.dir, f.dir) }
			return f
		},
	} {
		for name, run := range map[string]func(f faulty){
			"counts":              faultyCounts,
			"lost request":        func(f faulty) { faultyLoses(f, f.DropRequest, false) },
			"lost reply":          func(f faulty) { faultyLoses(f, f.DropReply, true) },
			"lost handshake":      func(f faulty) { faultyHandshake(f, f.DropRequest) },
			"lost greeting":       func(f faulty) { faultyHandshake(f, f.DropReply) },
			"lost sync":           func(f faulty) { faultyUnnamed(f, zktest.OpSync, f.sync) },
			"lost check":          func(f faulty) { faultyUnnamed(f, zktest.OpCheck, f.check) },
			"delay":               faultyDelays,
			"disconnect":          faultyDisconnects,
			"refuse":              faultyRefuses,
			"freeze both":         func(f faulty) { faultyFreezes(f, zktest.Both) },
			"freeze to server":    func(f faulty) { faultyFreezes(f, zktest.ToServer) },
			"freeze to client":    func(f faulty) { faultyFreezes(f, zktest.ToClient) },
			"freeze replies":      func(f faulty) { faultyFreezes(f, zktest.ToClientButEvents) },
			"freeze what comes":   faultyFreezesHandshakes,
			"freeze everybody":    faultyFreezesEverybody,
			"expire":              faultyExpires,
			"expire what is cold": faultyExpiresFrozen,
			"expire everybody":    faultyExpiresEverybody,
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := stage(t)
				f.conn, f.events = connect(t, patience, net.DialTimeout, append(f.Addrs(), f.Addrs()...)...)
				t.Cleanup(func() { f.Thaw(0) })
				run(f)
			})
		}
	}
}

// below returns the paths of nodes, without the prefix, sorted.
func below(t *testing.T, conn *zk.Conn, dir, prefix string) (all []string) {
	t.Helper()
	names, _, err := conn.Children(dir)
	if !errors.Is(err, zk.ErrNoNode) {
		check.Must(t, err)
	}
	for _, name := range names {
		path := dir + "/" + name
		all = append(append(all, strings.TrimPrefix(path, prefix)), below(t, conn, path, prefix)...)
	}
	slices.Sort(all)
	return all
}

// faulty is a server, what injects the faults, and their victim.
type faulty struct {
	*testing.T
	zktest.Faults

	direct []string        // addresses of the server
	paths  func() []string // of the nodes of this test
	dir    string          // above these nodes
	conn   *zk.Conn
	events <-chan zk.Event
}

func (f faulty) create(path string) error {
	_, err := f.conn.Create(f.dir+path, nil, 0, world)
	return err
}

// hasCreated waits until the server has the nodes, and no others.
func (f faulty) hasCreated(paths ...string) {
	f.Helper()
	eventually(f.T, func() error {
		if got := f.paths(); !slices.Equal(got, paths) {
			return fmt.Errorf("there are %q, want %q", got, paths)
		}
		return nil
	})
}

// goesOn waits until the session is connected again.
func (f faulty) goesOn(id int64) {
	f.Helper()
	awaitState(f.T, f.events, zk.StateHasSession)
	check.Equal(f, f.conn.SessionID(), id, "the session")
}

func (f faulty) hit() {
	f.Helper()
	check.Must(f, f.AwaitFault(patience))
}

func faultyCounts(f faulty) {
	for _, path := range []string{"/a", "/b"} {
		check.Must(f, f.create(path))
	}
	check.Must(f, f.sync())
	check.Have(f.conn.Multi(&zk.CheckVersionRequest{Path: f.dir + "/a"}, &zk.DeleteRequest{Path: f.dir + "/b"}))(f)
	check.Must(f, f.check())
	want := zktest.Counts{zktest.OpCreate: 2, zktest.OpSync: 1, zktest.OpMulti: 1, zktest.OpCheck: 1}
	check.EqualMaps(f, f.Requests(), want)
	f.ResetRequests()
	check.Equal(f, len(f.Requests()), 0, "requests after a reset")
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
	lose(zktest.Match{Path: f.dir + "/a/*", Session: id, Skip: 1})
	check.True(f, f.AwaitFault(time.Millisecond) != nil, "a fault has hit nothing")
	for _, path := range []string{"/a", "/a/b"} {
		check.Must(f, f.create(path))
	}
	_, err := f.conn.Multi(
		&zk.CreateRequest{Path: f.dir + "/c", Data: []byte("data"), Acl: world},
		&zk.SetDataRequest{Path: f.dir + "/c", Data: []byte("other"), Version: -1},
		&zk.CheckVersionRequest{Path: f.dir + "/c", Version: 1},
		&zk.CreateRequest{Path: f.dir + "/d", Acl: world},
		&zk.DeleteRequest{Path: f.dir + "/d", Version: -1},
		&zk.CreateRequest{Path: f.dir + "/a/c", Acl: world},
	)
	check.Is(f, err, zk.ErrConnectionClosed)
	f.hit()
	if applied {
		f.hasCreated("/a", "/a/b", "/a/c", "/c")
	} else {
		f.hasCreated("/a", "/a/b")
	}
	f.goesOn(id)
}

func faultyHandshake(f faulty, lose func(zktest.Match)) {
	id := f.conn.SessionID()
	lose(zktest.Match{Op: zktest.OpCreateSession, Session: id})
	f.Disconnect(id)
	f.hit()
	f.goesOn(id)
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
	check.Must(f, f.create("/a"))
	check.AtLeast(f, time.Since(begin), 50*time.Millisecond)
	f.hit()
}

func faultyDisconnects(f faulty) {
	id := f.conn.SessionID()
	f.Disconnect(id + 1)
	check.Must(f, f.create("/a"))
	for _, of := range []int64{id, 0} {
		f.Disconnect(of)
		awaitState(f.T, f.events, zk.StateDisconnected)
		f.goesOn(id)
	}
}

func faultyRefuses(f faulty) {
	f.Refuse(true)
	check.Must(f, f.create("/a"), "what is connected stays")
	f.Disconnect(0)
	awaitState(f.T, f.events, zk.StateDisconnected)
	check.True(f, f.create("/b") != nil, "served")
	f.Refuse(false)
	awaitState(f.T, f.events, zk.StateHasSession)
}

func faultyFreezes(f faulty, dir zktest.Direction) {
	check.Must(f, f.create("/a"))
	_, _, appears, err := f.conn.ExistsW(f.dir + "/by another")
	check.Must(f, err)
	other := dial(f.T, patience, f.direct...)
	f.Freeze(f.conn.SessionID(), dir)
	answered := make(chan error, 1)
	go func() { answered <- f.create("/b") }()
	if dir == zktest.ToClient || dir == zktest.ToClientButEvents {
		f.hasCreated("/a", "/b")
	}
	check.Have(other.Create(f.dir+"/by another", nil, 0, world))(f)
	if dir == zktest.ToClientButEvents || dir == zktest.ToServer {
		await(f.T, appears)
	} else {
		pending(f.T, appears)
	}
	f.Thaw(f.conn.SessionID() + 1)
	pending(f.T, answered)
	f.Thaw(f.conn.SessionID())
	check.Must(f, await(f.T, answered))
	f.hasCreated("/a", "/b", "/by another")
}

// faultyFreezesHandshakes: those of the session too.
func faultyFreezesHandshakes(f faulty) {
	id := f.conn.SessionID()
	f.Freeze(id, zktest.Both)
	f.Disconnect(id)
	awaitState(f.T, f.events, zk.StateConnected)
	dial(f.T, patience, f.Addrs()...) // another client comes and goes meanwhile
	pending(f.T, f.events)
	f.Thaw(id)
	f.goesOn(id)
}

func faultyFreezesEverybody(f faulty) {
	f.Freeze(0, zktest.ToClient)
	conn, states, err := zk.Connect(f.Addrs(), patience, zk.WithLogger(silence{}))
	check.Must(f, err)
	defer conn.Close()
	awaitState(f.T, states, zk.StateConnected)
	answered := make(chan error, 1)
	go func() { answered <- f.create("/a") }()
	f.hasCreated("/a")
	pending(f.T, states)
	pending(f.T, answered)
	f.Thaw(0)
	awaitState(f.T, states, zk.StateHasSession)
	check.Must(f, await(f.T, answered))
}

func faultyExpires(f faulty) {
	id := f.conn.SessionID()
	check.Have(f.conn.Create(f.dir+"/e", nil, zk.FlagEphemeral, world))(f)
	f.ResetRequests()
	f.Expire(id)
	f.hasCreated()
	awaitState(f.T, f.events, zk.StateExpired)
	awaitState(f.T, f.events, zk.StateHasSession)
	check.True(f, f.conn.SessionID() != id, "the session lives")
	check.Equal(f, len(f.Requests()), 0, "requests")
}

func faultyExpiresFrozen(f faulty) {
	check.Have(f.conn.Create(f.dir+"/e", nil, zk.FlagEphemeral, world))(f)
	f.Freeze(f.conn.SessionID(), zktest.Both)
	f.Expire(f.conn.SessionID())
	f.hasCreated()
	pending(f.T, f.events)
	f.Thaw(0)
	awaitState(f.T, f.events, zk.StateExpired)
}

func faultyExpiresEverybody(f faulty) {
	other := dial(f.T, patience, f.Addrs()...)
	check.Have(other.Create(f.dir+"/e", nil, zk.FlagEphemeral, world))(f)
	f.Refuse(true)
	f.Expire(0)
	f.hasCreated()
	f.Refuse(false)
	awaitState(f.T, f.events, zk.StateExpired)
	eventually(f.T, func() error {
		_, _, err := other.Get("/")
		return err
	})
}
