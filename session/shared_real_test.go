package session_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/zktest"
)

// A plain client speaks the protocol, and sees the zxids of replies.
type plain struct {
	t    *testing.T
	conn net.Conn
	r    wire.Reader
	xid  int32
}

func dialPlain(t *testing.T, addr string) *plain {
	t.Helper()
	conn := check.Have(new(net.Dialer).DialContext(check.Patient(t), "tcp", addr))(t)
	t.Cleanup(func() { check.OK(t, conn.Close()) })
	check.Have(conn.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{Timeout: 90_000, Password: make([]byte, 16)})))(t)
	p := &plain{t: t, conn: conn, r: wire.Reader{Socket: conn, Limit: 1 << 20}}
	h := check.Have(wire.ParseConnectResponse(check.Have(p.r.Next())(t)))(t)
	check.Require(t, h.Session != 0, "no session")
	return p
}

func (p *plain) send(op wire.Op, path string) {
	p.t.Helper()
	p.xid++
	acl := []wire.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}
	check.Have(p.conn.Write(wire.AppendRequest(nil, p.xid, &wire.Request{Op: op, Path: path, ACL: acl})))(p.t)
}

// zxid returns that of the next reply.
func (p *plain) zxid() (int64, error) {
	frame, err := p.r.Next()
	if err != nil {
		return 0, err
	}
	h, _, err := wire.ParseHeader(frame)
	return h.Zxid, err
}

// grows reports whether a reply has a greater zxid, before the connection or the context ends.
func (p *plain) grows(ctx context.Context, than int64) bool {
	p.t.Helper()
	for ctx.Err() == nil {
		p.send(wire.OpExists, "/")
		zxid, err := p.zxid()
		if err != nil {
			return false
		}
		if zxid > than {
			return true
		}
		<-time.After(time.Millisecond)
	}
	return false
}

// reignOf returns the number of a server's reign, and whether the server leads.
func reignOf(e *zktest.Ensemble, i int) (number int64, leads bool) {
	text, err := e.FourLetterWord(i, "srvr")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
		case "Zxid":
			zxid, _ := strconv.ParseInt(value, 0, 64)
			number = zxid >> 32
		case "Mode":
			leads = value == "leader"
		}
	}
	return number, leads
}

// logged waits until a server has the text in its log of transactions.
func logged(t *testing.T, e *zktest.Ensemble, i int, text string) {
	t.Helper()
	logs := filepath.Join(filepath.Dir(e.Log(i)), "data", "version-2", "log.*")
	for ctx := check.Patient(t); ctx.Err() == nil; <-time.After(10 * time.Millisecond) {
		for _, log := range check.Have(filepath.Glob(logs))(t) {
			if data, err := os.ReadFile(log); err == nil && bytes.Contains(data, []byte(text)) {
				return
			}
		}
	}
	t.Fatalf("server %d does not log %s", i, text)
}

// startPatient starts servers that keep a leader whose followers are gone, and their sessions, for
// long.
func startPatient(t *testing.T, servers int) *zktest.Ensemble {
	t.Helper()
	return zktest.StartEnsemble(t, servers, zktest.NoSync(), startsSoon, zktest.TickTime(time.Second), zktest.SyncLimit(90),
		zktest.Setting("maxSessionTimeout", "90000"))
}

// startsSoon has servers that have elected different leaders elect again soon.
func startsSoon(c *zktest.EnsembleConfig) { c.InitLimit = 10 }

// twoReigns has the leader propose a node. The acknowledgements of the servers that leave are held
// up on their way. Then they elect another leader, and the old one does not know it.
func twoReigns(t *testing.T, e *zktest.Ensemble, old int, leave []int) {
	t.Helper()
	const node = "/proposed"
	writer := dialPlain(t, e.Addr(old))
	for _, f := range leave {
		e.HoldOneWay(f, old)
	}
	writer.send(wire.OpCreate, node)
	for _, f := range leave {
		logged(t, e, f, node)
	}
	for _, f := range leave {
		e.HoldOneWay(old, f)
	}
	for _, f := range leave {
		e.Kill(f)
	}
	e.Restart(leave...)
	reign, leads := reignOf(e, old)
	later := false
	for _, f := range leave {
		number, is := reignOf(e, f)
		later = later || is && number > reign
	}
	check.Require(t, later && leads, "there are no two leaders")
}

// ofServersAlone skips a test of what servers do, which no change of this library can break, unless
// tests are to be thorough or servers of a certain version are asked.
func ofServersAlone(t *testing.T) {
	t.Helper()
	if !hasten.Usually(true, os.Getenv(zktest.VersionVariable) != "") {
		t.Skip("what servers do is tested with ZKACTORS_THOROUGH=1")
	}
}

// TestZxidOfALeader: on a server that leads, a greater zxid than that of a sync's answer proves
// nothing. A later reign has begun before the sync is sent, and what was proposed earlier is
// committed after its answer. It is played with Debian's servers only: those of 3.5.10 have no
// second leader before the first one has given up.
func TestZxidOfALeader(t *testing.T) {
	t.Parallel()
	ofServersAlone(t)
	e := startPatient(t, 3)
	old, leave := e.Leader(), e.Followers()
	p := dialPlain(t, e.Addr(old))
	twoReigns(t, e, old, leave)
	p.send(wire.OpSync, "/")
	zxid := check.Have(p.zxid())(t)
	e.ReleaseOneWay(leave[0], old)
	check.True(t, p.grows(check.Patient(t), zxid), "the acknowledgement of a follower that had left commits nothing")
}

// TestRealZxidOfAFollower: a server that follows answers the sync behind what was proposed before.
// So no reply shows a greater zxid.
func TestRealZxidOfAFollower(t *testing.T) {
	t.Parallel()
	ofServersAlone(t)
	e := startPatient(t, 5)
	old, followers := e.Leader(), e.Followers()
	stays, leave := followers[3], followers[:3]
	p := dialPlain(t, e.Addr(stays))
	twoReigns(t, e, old, leave)
	if n, leads := reignOf(e, stays); leads {
		t.Fatalf("server %d leads reign %d", stays, n)
	}
	p.send(wire.OpSync, "/")
	check.Must(t, p.conn.SetReadDeadline(time.Now().Add(time.Second)))
	if zxid, err := p.zxid(); err == nil {
		t.Fatalf("the sync is answered with %#x, before the proposal is committed", zxid)
	}
	check.Must(t, p.conn.SetReadDeadline(time.Time{}))
	p.r = wire.Reader{Socket: p.conn, Limit: 1 << 20}
	e.ReleaseOneWay(leave[0], old)
	zxid, err := p.zxid()
	if err != nil {
		t.Logf("the connection ends: %v", err)
		return
	}
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	check.True(t, !p.grows(soon, zxid), "a greater zxid than %#x: of a proposal that was made when a later reign had begun", zxid)
}

// TestRealLeaseShared: the followers of a leader leave it but for one. A session on that, which has
// found out that it follows, lapses in time, though it writes no transactions while others write
// them.
func TestRealLeaseShared(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	const timeout, tick = 10 * time.Second, 500 * time.Millisecond
	e := zktest.StartEnsemble(t, 5, zktest.NoSync(), zktest.TickTime(tick), zktest.SyncLimit(60), startsSoon)
	for counted := 0; counted < *leaseRuns; { // as in TestRealLeaseDeposedLeader
		old, followers := e.Leader(), e.Followers()
		stays, leave := followers[3], followers[:3]
		var others []string
		for _, i := range leave {
			others = append(others, e.Addr(i))
		}
		witness := kit.Open(t, others, &session.Options{Timeout: 20 * time.Second})
		finds := listen("the server follows")
		opts := session.Options{Timeout: timeout, ServerTick: tick, Logger: slog.New(finds)}
		w := newWard(t, witness, []string{e.Addr(stays)}, &opts)
		opts.Lease = session.LeaseAnswered
		trusting := newWard(t, witness, []string{e.Addr(stays)}, &opts)
		ctx, cancel := context.WithCancel(check.Patient(t))
		zktest.Await(t, finds.heard, func(string) bool { return true })
		for begun := time.Now(); time.Since(begun) < timeout; { // what others write keeps the lease
			if _, err := witness.Multi(ctx, session.CheckOp("/", session.AnyVersion)); !session.InDoubt(err) {
				check.Must(t, err)
			}
		}
		check.True(t, w.believes(), "the session is lost, though others write")
		for _, i := range leave {
			e.ResetOneSide(i, old)
		}
		cut := time.Now()
		early := w.toldInTime(t)
		<-trusting.gone
		t.Logf("told %v before the node went, %v after the cut", early, time.Since(cut))
		if trusting.believes() {
			counted++
		}
		cancel()
		w.Close()
		trusting.Close()
		witness.Close()
		e.Heal()
		for i := range e.Size() {
			check.Must(t, e.AwaitServing(check.Patient(t), i))
		}
	}
}
