package zktest

import (
	"bufio"
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
)

// A wire is a client that says just what it is told to, and hears all.
type wire struct {
	net.Conn

	in       *bufio.Reader
	session  int64
	password []byte
	timeout  int32
	xid      int32
	events   []wireEvent
}

type wireEvent struct {
	kind  eventType
	state int32
	path  string
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

const wirePatience = 20 * time.Second

// dialWire connects to a server, without a handshake.
func dialWire(tb testing.TB, addr string) *wire {
	tb.Helper()
	c, err := net.DialTimeout("tcp", addr, wirePatience)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return &wire{Conn: c}
}

// openWire opens a session.
func openWire(tb testing.TB, addr string) *wire {
	tb.Helper()
	w := dialWire(tb, addr)
	if !w.shake(handshake{timeout: 30000}) || w.session == 0 {
		tb.Fatal("no session")
	}
	return w
}

// shake sends a handshake, and returns false if it was not answered.
func (w *wire) shake(h handshake) bool {
	w.put(func(b []byte) []byte {
		b = appendInt32(b, 0)
		b = appendInt64(b, h.zxid)
		b = appendInt32(b, h.timeout)
		b = appendInt64(b, h.session)
		b = appendBuffer(b, h.password)
		return appendBool(b, false)
	})
	frame, err := w.frame()
	if err != nil {
		return false
	}
	d := decoder{rest: frame}
	d.int32()
	w.timeout, w.session, w.password = d.int32(), d.int64(), slices.Clone(d.buffer())
	return !d.failed && !d.bool() && len(d.rest) == 0
}

func (w *wire) put(build func([]byte) []byte) {
	_ = w.SetWriteDeadline(time.Now().Add(wirePatience))
	_, _ = w.Write(framed(nil, build)) // what went wrong shows in the answer
}

func (w *wire) frame() ([]byte, error) {
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
func (w *wire) send(op Op, arg body) int32 {
	w.xid++
	w.sendAs(w.xid, op, arg)
	return w.xid
}

func (w *wire) sendAs(xid int32, op Op, arg body) {
	w.put(func(b []byte) []byte {
		b = appendInt32(appendInt32(b, xid), int32(op))
		if arg != nil {
			b = arg(b)
		}
		return b
	})
}

// receive returns the next answer, and keeps the events before it.
func (w *wire) receive() (answer, error) {
	for {
		frame, err := w.frame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return answer{}, err
			}
			return answer{gone: true}, nil
		}
		d := decoder{rest: frame}
		a := answer{xid: d.int32(), zxid: d.int64(), err: code(d.int32())}
		if d.failed {
			return a, fmt.Errorf("short frame %x", frame)
		}
		if a.xid == xidNotification {
			e := wireEvent{kind: eventType(d.int32()), state: d.int32(), path: d.path()}
			if d.failed || len(d.rest) > 0 || a.zxid != -1 || a.err != codeOK {
				return a, fmt.Errorf("bad notification %x", frame)
			}
			w.events = append(w.events, e)
			continue
		}
		a.rest = d.rest
		return a, nil
	}
}

// call sends a request and returns its answer.
func (w *wire) call(op Op, arg body) (answer, error) {
	w.send(op, arg)
	return w.receive()
}

// quit closes the session, and waits until that is done.
func (w *wire) quit() {
	w.send(OpCloseSession, nil)
	for {
		if a, err := w.receive(); err != nil || a.gone {
			break
		}
	}
	_ = w.Close()
}

// settle waits until all events that were on their way are here.
func (w *wire) settle() error {
	w.sendAs(xidPing, OpPing, nil)
	a, err := w.receive()
	if err == nil && !a.gone && a.xid != xidPing {
		err = fmt.Errorf("an answer nobody waits for: %+v", a)
	}
	return err
}

// The arguments of requests.

func argPath(path string) body { return func(b []byte) []byte { return appendBuffer(b, []byte(path)) } }

func argWatch(path string, watch bool) body {
	return func(b []byte) []byte { return appendBool(appendBuffer(b, []byte(path)), watch) }
}

func argVersion(path string, version int32) body {
	return func(b []byte) []byte { return appendInt32(appendBuffer(b, []byte(path)), version) }
}

func argCreate(path string, data []byte, flags int32, list ...acl) body {
	if list == nil {
		list = openACL()
	}
	return func(b []byte) []byte {
		return appendInt32(appendACLs(appendBuffer(appendBuffer(b, []byte(path)), data), list), flags)
	}
}

func argTTL(path string, flags int32, ttl int64) body {
	return func(b []byte) []byte { return appendInt64(argCreate(path, nil, flags)(b), ttl) }
}

func argSet(path string, data []byte, version int32) body {
	return func(b []byte) []byte { return appendInt32(appendBuffer(appendBuffer(b, []byte(path)), data), version) }
}

func argACL(path string, version int32, list ...acl) body {
	return func(b []byte) []byte { return appendInt32(appendACLs(appendBuffer(b, []byte(path)), list), version) }
}

func argAuth(scheme, secret string) body {
	return func(b []byte) []byte {
		return appendBuffer(appendString(appendInt32(b, 0), scheme), []byte(secret))
	}
}

func argSetWatches(zxid int64, lists ...[]string) body {
	return func(b []byte) []byte {
		b = appendInt64(b, zxid)
		for _, l := range lists {
			b = appendStrings(b, l)
		}
		return b
	}
}

type part struct {
	op  Op
	arg body
}

func argMulti(parts ...part) body {
	return func(b []byte) []byte {
		for _, p := range parts {
			b = p.arg(appendMultiHeader(b, p.op, false, -1))
		}
		return appendMultiHeader(b, -1, true, -1)
	}
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
		if op == opError {
			out = append(out, head+fmt.Sprint(d.int32()))
		} else {
			out = append(out, head+s.body(op, d))
		}
	}
	return fmt.Sprint(out, "cut short")
}

func (s *scribe) body(op Op, d *decoder) string {
	switch op { //nolint:exhaustive // the others have no body
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
	return out
}

func (s *scribe) events(events []wireEvent, sorted bool) string {
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf("%d@%s", e.kind, e.path))
	}
	if sorted {
		slices.Sort(all)
	}
	return strings.Join(all, " ")
}
