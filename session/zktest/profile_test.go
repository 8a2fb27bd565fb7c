package zktest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A profiled client speaks to a server of any profile.
type profiled struct {
	*rawClient
	t     *testing.T
	hello wire.ConnectResponse
	zxids []int64 // in the headers of notifications
}

func greet(t *testing.T, srv *Server, h wire.ConnectRequest) *profiled {
	t.Helper()
	p := &profiled{rawClient: dialWire(t, srv.Addrs()[0]), t: t}
	t.Cleanup(func() { _ = p.Close() })
	p.write(wire.AppendConnectRequest(nil, &h))
	p.hello = check.Have(wire.ParseConnectResponse(check.Have(p.frame())(t)))(t)
	return p
}

// reply returns the next reply to a request, and keeps the zxids of the notifications before it.
func (p *profiled) reply() (wire.Header, []byte, error) {
	for {
		frame, err := p.frame()
		if err != nil {
			return wire.Header{}, nil, err
		}
		h, rest, err := wire.ParseHeader(frame)
		if err != nil || h.Xid != xidNotification {
			return h, rest, err
		}
		p.zxids = append(p.zxids, h.Zxid)
	}
}

// ask returns the outcome of a request in a word.
func (p *profiled) ask(r wire.Request) string {
	p.t.Helper()
	p.send(r.Op, argOf(r))
	p.send(OpPing, nil) // a request without an answer shows in the answer to the next
	h, _, err := p.reply()
	switch {
	case err != nil:
		return "hangs up"
	case h.Xid == xidPing:
		return "silence"
	}
	if _, _, err := p.reply(); err != nil {
		return h.Code.String() + ", hangs up"
	}
	return h.Code.String()
}

// do makes a request that must succeed.
func (p *profiled) do(r wire.Request) (reply wire.Reply) {
	p.t.Helper()
	p.send(r.Op, argOf(r))
	h, rest, err := p.reply()
	check.Must(p.t, err)
	check.Equal(p.t, h.Code, codeOK, r.Op)
	check.Must(p.t, wire.ParseReply(r.Op, nil, rest, &reply))
	return reply
}

func (p *profiled) stat(path string) wire.Stat {
	p.t.Helper()
	return p.do(wire.Request{Op: OpExists, Path: path}).Stat
}

func open31() []wire.ACL { return wireACL(openACL()) }

// TestProfilesAnswer: which operations a server knows, and how it answers the others. The answers
// of 3.5, 3.8.6 and 3.9 are those of real servers, 3.5.10, 3.8.6 and 3.9.5.
func TestProfilesAnswer(t *testing.T) {
	const unknown, hangsUp = "Unimplemented, hangs up", "hangs up"
	for _, row := range []struct {
		say  string
		ask  wire.Request
		want [6]string // in the order of the constants: 3.8.0, 3.5, 3.8.2, 3.9, Keeper, Keeper267
	}{
		{"create", wire.Request{Op: OpCreate, Path: "/a", ACL: open31()}, [6]string{"OK", "OK", "OK", "OK", "OK", "OK"}},
		{"create2", wire.Request{Op: OpCreate2, Path: "/a", ACL: open31()}, [6]string{"OK", "OK", "OK", "OK", hangsUp, hangsUp}},
		{"createContainer", wire.Request{Op: OpCreateContainer, Path: "/a", ACL: open31(), Flags: flagContainer}, [6]string{"OK", "OK", "OK", "OK", hangsUp, "OK"}},
		{"create of a container", wire.Request{Op: OpCreate, Path: "/a", ACL: open31(), Flags: flagContainer}, [6]string{"OK", "OK", "OK", "OK", "BadArguments", "OK"}},
		{"createTTL", wire.Request{Op: OpCreateTTL, Path: "/a", ACL: open31(), Flags: flagTTL, TTL: 1000}, [6]string{"OK", "OK", "OK", "OK", hangsUp, hangsUp}},
		{"check", wire.Request{Op: OpCheck, Path: "/", Version: -1}, [6]string{"silence", "silence", unknown, unknown, "OK", "OK"}},
		{"multi of a check", wire.Request{Op: OpMulti, Ops: []wire.Request{{Op: OpCheck, Path: "/", Version: -1}}}, [6]string{"OK", "OK", "OK", "OK", "OK", "OK"}},
		{"multi of a create2", wire.Request{Op: OpMulti, Ops: []wire.Request{{Op: OpCreate2, Path: "/a", ACL: open31()}}}, [6]string{"OK", "OK", "OK", "OK", hangsUp, hangsUp}},
		{"multi of a createContainer", wire.Request{Op: OpMulti, Ops: []wire.Request{{Op: OpCreateContainer, Path: "/a", ACL: open31(), Flags: flagContainer}}}, [6]string{"OK", "OK", "OK", "OK", hangsUp, "OK"}},
		{"sync", wire.Request{Op: OpSync, Path: "/"}, [6]string{"OK", "OK", "OK", "OK", "OK", "OK"}},
		{"setWatches", wire.Request{Op: OpSetWatches, Watches: new([5][]string)}, [6]string{"OK", "OK", "OK", "OK", "OK", "OK"}},
		{"setWatches2", wire.Request{Op: OpSetWatches2, Watches: new([5][]string)}, [6]string{"OK", unknown, "OK", "OK", hangsUp, hangsUp}},
		{"addWatch", wire.Request{Op: OpAddWatch, Path: "/"}, [6]string{"OK", unknown, "OK", "OK", hangsUp, hangsUp}},
		{"removeWatches", wire.Request{Op: OpRemoveWatches, Path: "/", Kind: 3}, [6]string{"NoWatcher", "NoWatcher", "NoWatcher", "NoWatcher", hangsUp, hangsUp}},
		{"whoAmI", wire.Request{Op: OpWhoAmI}, [6]string{"OK", unknown, "OK", "OK", hangsUp, hangsUp}},
		{"getEphemerals", wire.Request{Op: OpGetEphemerals, Path: "/"}, [6]string{"OK", unknown, "OK", "OK", hangsUp, hangsUp}},
		{"getAllChildrenNumber", wire.Request{Op: OpGetAllChildren, Path: "/"}, [6]string{"OK", unknown, "OK", "OK", hangsUp, hangsUp}},
		{"multiRead", wire.Request{Op: OpMultiRead, Ops: []wire.Request{{Op: OpGetData, Path: "/"}}}, [6]string{"OK", unknown, "OK", "OK", "OK", "OK"}},
		{"an operation that no server knows", wire.Request{Op: 999}, [6]string{unknown, unknown, unknown, unknown, hangsUp, hangsUp}},
	} {
		for _, profile := range Profiles() {
			p := greet(t, Start(t, WithProfile(profile)), wire.ConnectRequest{Timeout: 10000})
			check.Equal(t, p.ask(row.ask), row.want[profile], profile, row.say)
		}
	}
}

// TestAncientServers: ZooKeeper 3.4 answers as 3.4.14 does.
func TestAncientServers(t *testing.T) {
	for _, row := range []struct {
		ask  wire.Request
		want string
	}{
		{wire.Request{Op: OpCreate2, Path: "/a", ACL: open31()}, "Unimplemented, hangs up"},
		{wire.Request{Op: OpCreateContainer, Path: "/a", ACL: open31(), Flags: flagContainer}, "Unimplemented, hangs up"},
		{wire.Request{Op: OpRemoveWatches, Path: "/", Kind: 3}, "Unimplemented, hangs up"},
		{wire.Request{Op: OpMulti, Ops: []wire.Request{{Op: OpCreateContainer, Path: "/a", ACL: open31(), Flags: flagContainer}}}, "MarshallingError"},
		{wire.Request{Op: OpMulti, Ops: []wire.Request{{Op: OpCreate2, Path: "/a", ACL: open31()}}}, "MarshallingError"},
		{wire.Request{Op: OpMulti, Ops: []wire.Request{{Op: OpCreate, Path: "/a", ACL: open31()}, {Op: OpCheck, Path: "/", Version: -1}}}, "OK"},
		{wire.Request{Op: OpCheck, Path: "/", Version: -1}, "silence"},
	} {
		p := greet(t, Start(t, WithProfile(ZooKeeper34)), wire.ConnectRequest{Timeout: 10000})
		check.Equal(t, p.ask(row.ask), row.want, row.ask.Op)
	}
}

// TestProfilesInTransactions: the result of a create2, the cversion and the pzxid of the parent,
// and the owner of a container.
func TestProfilesInTransactions(t *testing.T) {
	for _, profile := range Profiles() {
		p := greet(t, Start(t, WithProfile(profile)), wire.ConnectRequest{Timeout: 10000})
		p.do(wire.Request{Op: OpCreate, Path: "/a", ACL: open31()})
		op := OpCreate2
		if profile.IsKeeper() {
			op = OpCreate
		}
		results := p.do(wire.Request{Op: OpMulti, Ops: []wire.Request{
			{Op: op, Path: "/a/b", ACL: open31()}, {Op: OpSetData, Path: "/a", Version: -1},
		}}).Results
		check.Equal(t, results[0].HasStat, profile == ZooKeeper382 || profile == ZooKeeper39, profile, "a Stat of create2")
		check.Equal(t, results[1].Stat.NumChildren, 1, profile)
		created := p.stat("/a/b").Czxid
		check.Equal(t, results[1].Stat.Mzxid, created, profile, "the zxid of the transaction")

		p.do(wire.Request{Op: OpSetData, Path: "/a/b", Version: -1})
		sets := int32(0)
		if profile.IsKeeper() {
			sets = 1
		}
		check.Equal(t, p.stat("/a").Cversion, 1+sets, profile, "cversion after a write to a child")
		p.do(wire.Request{Op: OpMulti, Ops: []wire.Request{ // which changes nothing
			{Op: OpSetData, Path: "/a/b", Version: -1}, {Op: OpDelete, Path: "/none", Version: -1},
		}})
		check.Equal(t, p.stat("/a").Cversion, 1+sets, profile, "cversion after a transaction that failed")

		p.do(wire.Request{Op: OpDelete, Path: "/a/b", Version: -1})
		stat := p.stat("/a")
		check.Equal(t, stat.Pzxid == created, profile.IsKeeper(), profile, "the pzxid stays")
		check.Equal(t, stat.Cversion, 2+sets, profile, "cversion after a deletion")
		check.Equal(t, p.do(wire.Request{Op: OpCreate, Path: "/a/n-", Flags: flagSequential, ACL: open31()}).Path, "/a/n-0000000001", profile)

		if profile != Keeper {
			p.do(wire.Request{Op: OpCreateContainer, Path: "/c", ACL: open31(), Flags: flagContainer})
			check.Equal(t, p.stat("/c").EphemeralOwner == math.MinInt64, profile.IsKeeper(), profile, "the owner of a container")
		}
	}
}

// TestProfilesGreet: the answer to a handshake, timeouts, and whether a session is resumed.
func TestProfilesGreet(t *testing.T) {
	for _, profile := range Profiles() {
		srv := Start(t, WithProfile(profile))
		p := greet(t, srv, wire.ConnectRequest{Timeout: 6000})
		keeper := profile.IsKeeper()
		check.Equal(t, p.hello.Old, keeper, profile, "36 bytes")
		for _, of := range []struct{ asked, zookeeper, keeper int32 }{{6000, 6000, 10000}, {0, 1000, 30000}, {300000, 10000, 100000}} {
			want := of.zookeeper
			if keeper {
				want = of.keeper
			}
			check.Equal(t, greet(t, srv, wire.ConnectRequest{Timeout: of.asked}).hello.Timeout, want, profile, of.asked)
		}
		p.do(wire.Request{Op: OpCreate, Path: "/mine", Flags: flagEphemeral, ACL: open31()})
		again := greet(t, srv, wire.ConnectRequest{Timeout: 6000, Session: p.hello.Session, Password: slices.Clone(p.hello.Password)})
		check.Equal(t, again.hello.Session == p.hello.Session, !keeper, profile, "the session is resumed")
		check.Equal(t, again.stat("/mine").EphemeralOwner, p.hello.Session, profile, "the owner of the node")
	}
}

// TestKeeperGhosts: the nodes of a connection that was lost stay until its timeout, and no client
// learns of an expiry.
func TestKeeperGhosts(t *testing.T) {
	clock := new(ManualClock)
	srv := Start(t, WithProfile(Keeper), WithClock(clock))
	lost := greet(t, srv, wire.ConnectRequest{Timeout: 10000})
	lost.do(wire.Request{Op: OpCreate, Path: "/ghost", Flags: flagEphemeral, ACL: open31()})
	_ = lost.Close()
	clock.Advance(5 * time.Second)
	p := greet(t, srv, wire.ConnectRequest{Timeout: 10000, Session: lost.hello.Session, LastZxid: math.MaxInt64})
	check.True(t, p.hello.Session != 0 && p.hello.Session != lost.hello.Session, "a session of its own")
	check.EqualSlices(t, srv.Paths(), []string{"/ghost"})
	clock.Advance(5*time.Second + 500*time.Millisecond)
	check.Len(t, srv.Paths(), 0, "nodes are left")
	check.Equal(t, p.ask(wire.Request{Op: OpExists, Path: "/"}), "OK")
}

// TestProfilesNotify: the zxid of a change, and who is notified of it.
func TestProfilesNotify(t *testing.T) {
	for _, profile := range Profiles() {
		p := greet(t, Start(t, WithProfile(profile)), wire.ConnectRequest{Timeout: 10000})
		p.do(wire.Request{Op: OpCreate, Path: "/a", ACL: open31()})
		p.do(wire.Request{Op: OpGetData, Path: "/a", Watch: true})
		want := p.do(wire.Request{Op: OpSetData, Path: "/a", Version: -1}).Stat.Mzxid
		p.stat("/a")
		if profile != ZooKeeper39 {
			want = -1
		}
		check.EqualSlices(t, p.zxids, []int64{want}, profile)

		p.send(OpExists, argOf(wire.Request{Op: OpExists, Path: "/hidden", Watch: true}))
		_, _, err := p.reply()
		check.Must(t, err)
		p.do(wire.Request{Op: OpCreate, Path: "/hidden", ACL: []wire.ACL{{Perms: permWrite, Scheme: "digest", ID: "a:b"}}})
		p.stat("/a")
		check.Equal(t, len(p.zxids) == 2, profile == ZooKeeper35, profile, "notified of a node that it may not read")

		exists := "OK"
		if profile == ZooKeeper382 || profile == ZooKeeper39 {
			exists = "NoAuth"
		}
		check.Equal(t, p.ask(wire.Request{Op: OpExists, Path: "/hidden"}), exists, profile, "exists of a node that it may not read")
	}
}

// TestKeeperACLs: ClickHouse Keeper knows three schemes, and forgets the entry for all.
func TestKeeperACLs(t *testing.T) {
	p := greet(t, Start(t, WithProfile(Keeper)), wire.ConnectRequest{Timeout: 10000})
	create := func(path string, list ...wire.ACL) string {
		return p.ask(wire.Request{Op: OpCreate, Path: path, ACL: list})
	}
	all, some := open31()[0], wire.ACL{Perms: permWrite, Scheme: "digest", ID: "user:digest"}
	check.Equal(t, create("/open", all), "OK")
	check.Equal(t, create("/closed", all, some), "OK")
	check.Equal(t, create("/ip", wire.ACL{Perms: 31, Scheme: "ip", ID: "127.0.0.1"}), "InvalidACL")
	check.Equal(t, create("/auth", wire.ACL{Perms: 31, Scheme: "auth"}), "InvalidACL")
	check.Len(t, p.do(wire.Request{Op: OpGetACL, Path: "/open"}).ACL, 0, "entries")
	check.Equal(t, p.ask(wire.Request{Op: OpGetData, Path: "/closed"}), "NoAuth")
}

func TestProfilesHaveNames(t *testing.T) {
	check.Equal(t, fmt.Sprint(Profiles()), "[ZooKeeper 3.5 ZooKeeper 3.8.0 ZooKeeper 3.8.2+ ZooKeeper 3.9 ClickHouse Keeper before 26.7 ClickHouse Keeper 26.7+]")
	_, err := NewServer(Config{Profile: 99})
	check.True(t, err != nil, "a profile that does not exist is taken")
}
