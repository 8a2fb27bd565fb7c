package zktest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A rawClient sends only the requests that its test makes, and receives everything.
type rawClient struct {
	net.Conn

	in       *bufio.Reader
	session  int64
	password []byte
	timeout  int32
	xid      int32
	events   []heard
}

// A heard event is a notification with the zxid in its header, which is -1 before ZooKeeper 3.9.
type heard struct {
	wire.Event

	zxid int64
}

// An answer is a reply as it came; gone means that none came and the
// connection has ended.
type answer struct {
	xid  int32
	zxid int64
	err  code
	rest []byte
	gone bool
}

const wirePatience = check.Patience

// dialWire connects to a server, without a handshake.
func dialWire(tb testing.TB, addr string) *rawClient {
	tb.Helper()
	c := check.Have(net.DialTimeout("tcp", addr, wirePatience))(tb)
	tb.Cleanup(func() { _ = c.Close() })
	return &rawClient{Conn: c}
}

// openWire opens a session.
func openWire(tb testing.TB, addr string) *rawClient {
	tb.Helper()
	w := dialWire(tb, addr)
	check.Require(tb, w.shake(wire.ConnectRequest{Timeout: 30000}) && w.session != 0, "no session")
	return w
}

// shake sends a handshake, and returns false if it was not answered.
func (w *rawClient) shake(h wire.ConnectRequest) bool {
	w.write(wire.AppendConnectRequest(nil, &h))
	frame, err := w.frame()
	if err != nil {
		return false
	}
	r, err := wire.ParseConnectResponse(frame)
	w.timeout, w.session, w.password = r.Timeout, r.Session, slices.Clone(r.Password)
	return err == nil && !r.ReadOnly && r.Old == h.Old
}

func (w *rawClient) write(frame []byte) {
	_ = w.SetWriteDeadline(time.Now().Add(wirePatience))
	_, _ = w.Write(frame) // what went wrong shows in the answer
}

func (w *rawClient) frame() ([]byte, error) {
	if w.in == nil {
		w.in = bufio.NewReader(w)
	}
	if w.in.Buffered() == 0 {
		_ = w.SetReadDeadline(time.Now().Add(wirePatience))
	}
	head, err := w.in.Peek(4)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(head))
	_, err = io.ReadFull(w.in, frame)
	return frame[4:], err
}

// send sends a request and returns its xid.
func (w *rawClient) send(op Op, arg body) int32 {
	w.xid++
	w.sendAs(w.xid, op, arg)
	return w.xid
}

func (w *rawClient) sendAs(xid int32, op Op, arg body) { w.write(appendRequest(nil, xid, op, arg)) }

// receive returns the next answer, and keeps the events before it.
func (w *rawClient) receive() (answer, error) {
	for {
		frame, err := w.frame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return answer{}, err
			}
			return answer{gone: true}, nil
		}
		h, rest, err := wire.ParseHeader(frame)
		if err != nil {
			return answer{}, fmt.Errorf("short frame %x", frame)
		}
		if h.Xid == xidNotification {
			e, err := wire.ParseEvent(rest)
			if err != nil || h.Code != codeOK {
				return answer{}, fmt.Errorf("bad notification %x", frame)
			}
			w.events = append(w.events, heard{e, h.Zxid})
			continue
		}
		return answer{xid: h.Xid, zxid: h.Zxid, err: h.Code, rest: rest}, nil
	}
}

// call sends a request and returns its answer.
func (w *rawClient) call(op Op, arg body) (answer, error) {
	w.send(op, arg)
	return w.receive()
}

// quit closes the session, and waits until that is done.
func (w *rawClient) quit() {
	w.send(OpCloseSession, nil)
	for {
		if a, err := w.receive(); err != nil || a.gone {
			break
		}
	}
	_ = w.Close()
}

// settle waits until all events that were on their way are here.
func (w *rawClient) settle() error {
	w.sendAs(xidPing, OpPing, nil)
	a, err := w.receive()
	if err == nil && !a.gone && a.xid != xidPing {
		err = fmt.Errorf("an answer nobody waits for: %+v", a)
	}
	return err
}

// A body appends what follows the header of a request.
type body func([]byte) []byte

// appendRequest appends a frame with any body.
func appendRequest(b []byte, xid int32, op Op, arg body) []byte {
	at := len(b)
	b = appendInt32(appendInt32(appendInt32(b, 0), xid), int32(op))
	if arg != nil {
		b = arg(b)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// argOf returns the body of a request.
func argOf(r wire.Request) body {
	const header = 4 + 4 + 4
	frame := wire.AppendRequest(nil, 0, &r)
	return func(b []byte) []byte { return append(b, frame[header:]...) }
}

func argPath(path string) body { return argOf(wire.Request{Op: OpSync, Path: path}) }

func argWatch(path string, watch bool) body {
	return argOf(wire.Request{Op: OpExists, Path: path, Watch: watch})
}

func argVersion(path string, version int32) body {
	return argOf(wire.Request{Op: OpDelete, Path: path, Version: version})
}

func argCreate(path string, data []byte, flags int32, list ...acl) body {
	if list == nil {
		list = openACL()
	}
	return argOf(wire.Request{Op: OpCreate, Path: path, Data: data, ACL: wireACL(list), Flags: flags})
}

func argTTL(path string, flags int32, ttl int64) body {
	return argOf(wire.Request{Op: OpCreateTTL, Path: path, ACL: wireACL(openACL()), Flags: flags, TTL: ttl})
}

func argSet(path string, data []byte, version int32) body {
	return argOf(wire.Request{Op: OpSetData, Path: path, Data: data, Version: version})
}

func argACL(path string, version int32, list ...acl) body {
	return argOf(wire.Request{Op: OpSetACL, Path: path, ACL: wireACL(list), Version: version})
}

func argAuth(scheme, secret string) body {
	return argOf(wire.Request{Op: OpAuth, Scheme: scheme, Data: []byte(secret)})
}

// argSetWatches has any number of lists.
func argSetWatches(zxid int64, lists ...[]string) body {
	return func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(b, uint64(zxid))
		for _, l := range lists {
			b = appendInt32(b, int32(len(l)))
			for _, path := range l {
				b = argPath(path)(b)
			}
		}
		return b
	}
}

type part struct {
	op  Op
	arg body
}

// argMulti has operations of any kind, also those that belong to no multi.
func argMulti(parts ...part) body {
	header := func(b []byte, op Op, done bool) []byte {
		const noError = -1
		b = binary.BigEndian.AppendUint32(b, uint32(op))
		if done {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		return appendInt32(b, noError)
	}
	return func(b []byte) []byte {
		for _, p := range parts {
			b = p.arg(header(b, p.op, false))
		}
		return header(b, wire.OpError, true)
	}
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// A decoder reads what the codec of the server may have got wrong.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) int32() int32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (d *decoder) int64() int64 { return int64(d.int32())<<32 | int64(uint32(d.int32())) }

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

// A scribe writes answers down so that those of two servers can be compared:
// with zxids relative to where it began, and sessions by name.
type scribe struct {
	base     int64
	sessions map[int64]string
}

func (s *scribe) zxid(z int64) string {
	if z <= 0 {
		return fmt.Sprint(z)
	}
	return fmt.Sprintf("z%+d", z-s.base)
}

func (s *scribe) stat(d *decoder) string {
	czxid, mzxid := d.int64(), d.int64()
	ctime, mtime := d.int64(), d.int64()
	version, cversion, aversion := d.int32(), d.int32(), d.int32()
	owner, size, children, pzxid := d.int64(), d.int32(), d.int32(), d.int64()
	when := "never"
	if ctime != 0 || mtime != 0 {
		when = "sometime"
	}
	if mtime < ctime || ctime != 0 && ctime < 1e12 {
		when = fmt.Sprintf("ctime %d mtime %d", ctime, mtime)
	}
	name := fmt.Sprint(owner)
	if n, ok := s.sessions[owner]; ok {
		name = n
	}
	return fmt.Sprintf("{c=%s m=%s p=%s %s v=%d cv=%d av=%d owner=%s size=%d children=%d}",
		s.zxid(czxid), s.zxid(mzxid), s.zxid(pzxid), when, version, cversion, aversion, name, size, children)
}

func (s *scribe) buffer(d *decoder) string {
	b := d.buffer()
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func (s *scribe) list(d *decoder) string {
	n := d.int32()
	if n < 0 {
		return "null"
	}
	var all []string
	for range n {
		all = append(all, s.buffer(d))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func (s *scribe) results(d *decoder) string {
	var out []string
	for !d.failed {
		op, done, err := Op(d.int32()), d.bool(), d.int32()
		head := fmt.Sprintf("%d/%d:", op, err)
		if done {
			return fmt.Sprint(append(out, head+"done"))
		}
		if op == wire.OpError {
			out = append(out, head+fmt.Sprint(d.int32()))
		} else {
			out = append(out, head+s.body(op, d))
		}
	}
	return fmt.Sprint(out, "cut short")
}

func (s *scribe) body(op Op, d *decoder) string {
	switch op { // the others have no body
	case OpCreate, OpSync:
		return s.buffer(d)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return s.buffer(d) + s.stat(d)
	case OpExists, OpSetData, OpSetACL:
		return s.stat(d)
	case OpGetData:
		return s.buffer(d) + s.stat(d)
	case OpGetChildren, OpGetEphemerals:
		return s.list(d)
	case OpGetChildren2:
		return s.list(d) + s.stat(d)
	case OpGetACL:
		var list []string
		for range d.int32() {
			list = append(list, fmt.Sprintf("%d:%s:%s", d.int32(), s.buffer(d), s.buffer(d)))
		}
		slices.Sort(list) // what "auth" stands for has no order
		return fmt.Sprint(list) + s.stat(d)
	case OpMulti, OpMultiRead:
		return s.results(d)
	case OpGetAllChildren, OpAddWatch:
		return fmt.Sprint(d.int32())
	case OpWhoAmI:
		var list []string
		for range d.int32() {
			list = append(list, s.buffer(d)+":"+s.buffer(d))
		}
		slices.Sort(list)
		return fmt.Sprint(list)
	}
	return ""
}

func (s *scribe) answer(op Op, sent int32, a answer) string {
	if a.gone {
		return "connection closed"
	}
	out := fmt.Sprintf("err=%d at %s", a.err, s.zxid(a.zxid))
	if a.xid != sent {
		out = fmt.Sprintf("xid=%d ", a.xid) + out
	}
	d := &decoder{rest: a.rest}
	if a.err == codeOK || len(a.rest) > 0 {
		out += " " + s.body(op, d)
	}
	if d.failed || len(d.rest) > 0 {
		out += fmt.Sprintf(" malformed: %d bytes left", len(d.rest))
	}
	// The codec reads and writes what all servers say.
	var r wire.Reply
	if a.err == codeOK {
		err := wire.ParseReply(op, nil, a.rest, &r)
		again := wire.AppendReply(nil, wire.Header{}, op, &r)
		if err != nil || !bytes.Equal(again[4+4+8+4:], a.rest) {
			out += fmt.Sprintf(" becomes %x", again)
		}
	}
	return out
}

func (s *scribe) events(events []heard, sorted bool) string {
	var all []string
	for _, e := range events {
		say := fmt.Sprintf("%d@%s", e.Kind, e.Path)
		if e.zxid != -1 {
			say += "@" + s.zxid(e.zxid)
		}
		all = append(all, say)
	}
	if sorted {
		slices.Sort(all)
	}
	return strings.Join(all, " ")
}
