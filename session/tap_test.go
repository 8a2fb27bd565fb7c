package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A tap sits on every connection between a session and a server in memory, and sees every
// frame. It strikes at requests about [target], all of the operation of the first.
type tap struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu      sync.Mutex
	newest  *tapped
	dialled int
	strike  strike
	op      int32 // of the requests that are struck at; 0 until there was one
	reached int   // how many of them have reached the server
}

// A strike replaces a request, or a reply, by other bytes. An error ends the connection.
type strike struct {
	request  func(frame []byte) ([]byte, error)
	reply    func(c *tapped, frame []byte) ([]byte, error)
	greeting func(frame []byte) []byte // instead of the server's handshake; nil to hang up
	auth     int32                     // the error with which credentials are answered
	own      int32                     // the operation of the session's own requests that are struck at, not those about the target
	always   bool                      // not only once
}

const (
	target   = "/target"
	patience = 5 * time.Minute // with a request, by the clock of the bubble
)

// Operations and transaction ids of the protocol.
const (
	opExists, opSync, opPing, opMulti, opRemoveWatches = 3, 9, 11, 14, 18
	opAuth, opSetWatches, opClose                      = 100, 101, -11
	xidNotification, xidAuth                           = -1, -4
	replyHeader                                        = 16
)

var errCut = errors.New("cut by the tap")

func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }

// tapping runs f beside a server in memory, with a tap on the session's connections.
func tapping(t *testing.T, f func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options)) {
	t.Helper()
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		tp := &tap{dial: srv.DialContext}
		opts.Dialer = tp.dialContext
		opts.CloseTimeout = time.Second // there is no heartbeat until then
		f(t, srv, tp, opts)
	})
}

func (tp *tap) dialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := tp.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.dialled++
	tp.newest = &tapped{Conn: conn, tap: tp, struck: make(map[int32]bool), closed: make(chan struct{})}
	return tp.newest, nil
}

// strikeWith says what to do to the requests about the target from now on.
func (tp *tap) strikeWith(s strike) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.strike, tp.op, tp.reached = s, 0, 0
}

// arrived returns how many requests that are struck at have reached the server.
func (tp *tap) arrived() int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.reached
}

// connections returns how many connections there were.
func (tp *tap) connections() int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.dialled
}

// inject has the client receive bytes that it did not ask for, before whatever comes next.
func (tp *tap) inject(b []byte) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.newest.unasked = append(tp.newest.unasked, b...)
}

// A tapped is one connection.
type tapped struct {
	net.Conn
	tap    *tap
	once   sync.Once
	closed chan struct{}

	out     []byte // of a request that is not complete
	in      []byte // of a reply that is not complete
	ready   []byte // for the client
	asked   bool   // the connect request has gone out
	greeted bool   // and was answered

	// These belong to the lock of the tap.
	struck  map[int32]bool // xids of requests whose replies are
	unasked []byte
}

func (c *tapped) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// next takes a frame, without its length, off the front.
func next(b *[]byte) []byte {
	if len(*b) < 4 || len(*b)-4 < int(int32At(*b, 0)) {
		return nil
	}
	n := int(int32At(*b, 0))
	frame := (*b)[4 : 4+n : 4+n]
	*b = (*b)[4+n:]
	return frame
}

func framed(frame []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

func (c *tapped) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	for {
		frame := next(&c.out)
		if frame == nil {
			return len(p), nil
		}
		frame, err := c.request(frame)
		if err == nil {
			_, err = c.Conn.Write(framed(frame))
		}
		if err != nil {
			_ = c.Close() // a pipe does not fail to
			return 0, err
		}
	}
}

func (c *tapped) request(frame []byte) ([]byte, error) {
	if !c.asked {
		c.asked = true
		return frame, nil
	}
	xid, op := int32At(frame, 0), int32At(frame, 4)
	tp := c.tap
	tp.mu.Lock()
	defer tp.mu.Unlock()
	if !tp.aims(frame, op) {
		return frame, nil
	}
	if first := tp.op == 0; first || tp.strike.always {
		tp.op = op
		c.struck[xid] = true
		if tp.strike.request != nil {
			var err error
			if frame, err = tp.strike.request(frame); err != nil {
				return nil, err
			}
		}
	}
	tp.reached++
	return frame, nil
}

// aims reports whether a request is one to strike at. The tap is locked.
func (tp *tap) aims(frame []byte, op int32) bool {
	switch op {
	case tp.strike.own:
		return true
	case opPing, opAuth, opSetWatches, opRemoveWatches, opClose:
		return false
	}
	return tp.strike.own == 0 && bytes.Contains(frame, []byte(target)) && (tp.op == 0 || tp.op == op)
}

func (c *tapped) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		n, err := c.Conn.Read(p)
		if err != nil {
			return 0, err
		}
		c.in = append(c.in, p[:n]...)
		for frame := next(&c.in); frame != nil; frame = next(&c.in) {
			if err := c.reply(frame); err != nil {
				_ = c.Close() // a pipe does not fail to
				return 0, err
			}
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// reply makes ready for the client what becomes of a frame.
func (c *tapped) reply(frame []byte) error {
	tp := c.tap
	tp.mu.Lock()
	struck := len(frame) >= replyHeader && c.greeted && c.struck[int32At(frame, 0)]
	strike := tp.strike
	c.ready, c.unasked = append(c.ready, c.unasked...), nil
	tp.mu.Unlock()
	if !c.greeted {
		c.greeted = true
		if strike.greeting != nil {
			if frame = strike.greeting(frame); frame == nil {
				return io.EOF
			}
		}
	} else if struck && strike.reply != nil {
		var err error
		if frame, err = strike.reply(c, frame); err != nil {
			return err
		}
	} else if len(frame) >= replyHeader && int32At(frame, 0) == xidAuth {
		frame = withInt32(frame, 12, strike.auth)
	}
	c.ready = append(c.ready, framed(frame)...)
	return nil
}

// hold keeps a reply, and all behind it, back for so long, or until the connection ends.
func hold(d time.Duration) func(*tapped, []byte) ([]byte, error) {
	return func(c *tapped, frame []byte) ([]byte, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return frame, nil
		case <-c.closed:
			return nil, errCut
		}
	}
}

// forge replaces replies.
func forge(reply func(frame []byte) []byte) strike {
	return strike{reply: func(_ *tapped, frame []byte) ([]byte, error) { return reply(slices.Clone(frame)), nil }}
}

func withInt32(frame []byte, at int, v int32) []byte {
	binary.BigEndian.PutUint32(frame[at:], uint32(v))
	return frame
}

// harmless is a request that is answered, and changes nothing, in place of another.
func harmless(frame []byte) ([]byte, error) {
	b := append([]byte(nil), frame[:4]...)
	b = binary.BigEndian.AppendUint32(b, opExists)
	return append(b, 0, 0, 0, 1, '/', 0), nil
}

// A verb is a request about the target that is made again and again.
type verb struct {
	name  string
	class string // of verbs with the same outcomes: a row of [outcomes]
	start func(ctx context.Context, s *session.Session, answer func(error))
}

// writes reports whether repeating the request could act twice.
func (v verb) writes() bool { return strings.HasPrefix(v.class, "write") }

func (v verb) isCreate() bool { return strings.Contains(v.name, "Create") }

// blocking makes a request that waits on a goroutine of its own.
func blocking(do func(ctx context.Context, s *session.Session) error) func(context.Context, *session.Session, func(error)) {
	return func(ctx context.Context, s *session.Session, answer func(error)) { go func() { answer(do(ctx, s)) }() }
}

func async(do func(a session.Async, answer func(error))) func(context.Context, *session.Session, func(error)) {
	return func(_ context.Context, s *session.Session, answer func(error)) { do(s.Async(1), answer) }
}

// verbs are all requests that there are. The target has a child.
func verbs() []verb {
	const node, fresh = target + "/child", target + "/new"
	ops := []session.Op{session.SetOp(node, nil, session.AnyVersion), session.CreateOp(fresh, nil, session.Persistent), session.CheckOp("/", session.AnyVersion)}
	modes := []session.Op{
		session.GuardOp(target, session.ErrClosed),
		session.CreateOp(fresh, nil, session.Ephemeral).WithACL(session.WorldAll()),
		session.CreateOp(fresh+"-", nil, session.PersistentSequential),
		session.CreateOp(fresh+"-", nil, session.EphemeralSequential),
		session.CreateOp(fresh+"-container", nil, session.Container),
		session.CreateOp(fresh+"-ttl", nil, session.TTL(time.Hour)),
		session.DeleteOp(node, session.AnyVersion),
	}
	all := []verb{
		{"Delete", "write", blocking(func(ctx context.Context, s *session.Session) error {
			return s.Delete(ctx, node, session.AnyVersion)
		})},
		{"Get", "read", blocking(func(ctx context.Context, s *session.Session) error {
			data, stat, err := s.Get(ctx, node)
			return consistent(err, stat != nil && string(data) == "data")
		})},
		{"Set", "write", blocking(func(ctx context.Context, s *session.Session) error {
			stat, err := s.Set(ctx, node, nil, session.AnyVersion)
			return consistent(err, stat != nil)
		})},
		{"Exists", "read", blocking(func(ctx context.Context, s *session.Session) error {
			stat, err := s.Exists(ctx, node)
			return consistent(err, stat != nil)
		})},
		{"Children", "read", blocking(func(ctx context.Context, s *session.Session) error {
			names, stat, err := s.Children(ctx, target)
			return consistent(err, stat != nil && fmt.Sprint(names) == "[child]")
		})},
		{"Sync", "read", blocking(func(ctx context.Context, s *session.Session) error { return s.Sync(ctx, target) })},
		{"Multi", "write", blocking(func(ctx context.Context, s *session.Session) error {
			results, err := s.Multi(ctx, ops...)
			return consistent(err, len(results) == len(ops))
		})},
		{"Multi/modes", "write", blocking(func(ctx context.Context, s *session.Session) error {
			results, err := s.Multi(ctx, modes...)
			return consistent(err, len(results) == len(modes))
		})},
		{"GetACL", "read", blocking(func(ctx context.Context, s *session.Session) error {
			acl, stat, err := s.GetACL(ctx, node)
			return consistent(err, stat != nil && len(acl) == 1)
		})},
		{"SetACL", "write", blocking(func(ctx context.Context, s *session.Session) error {
			stat, err := s.SetACL(ctx, node, session.WorldAll(), session.AnyVersion)
			return consistent(err, stat != nil)
		})},
		{"CreateWithACL", "write", blocking(func(ctx context.Context, s *session.Session) error {
			made, err := s.CreateWithACL(ctx, fresh, nil, session.Persistent, session.WorldAll())
			return consistent(err, made != "")
		})},
		{"EnsurePath", "ensure", blocking(func(ctx context.Context, s *session.Session) error { return s.EnsurePath(ctx, fresh) })},

		{"Async.Delete", "write, async", async(func(a session.Async, answer func(error)) { a.Delete(node, session.AnyVersion, answer) })},
		{"Async.Get", "read, async", async(func(a session.Async, answer func(error)) {
			a.Get(node, func(data []byte, stat *session.Stat, err error) {
				answer(consistent(err, stat != nil && string(data) == "data"))
			})
		})},
		{"Async.Set", "write, async", async(func(a session.Async, answer func(error)) {
			a.Set(node, nil, session.AnyVersion, func(stat *session.Stat, err error) { answer(consistent(err, stat != nil)) })
		})},
		{"Async.Exists", "read, async", async(func(a session.Async, answer func(error)) {
			a.Exists(node, func(stat *session.Stat, err error) { answer(consistent(err, stat != nil)) })
		})},
		{"Async.Children", "read, async", async(func(a session.Async, answer func(error)) {
			a.Children(target, func(names []string, stat *session.Stat, err error) {
				answer(consistent(err, stat != nil && fmt.Sprint(names) == "[child]"))
			})
		})},
		{"Async.Sync", "read, async", async(func(a session.Async, answer func(error)) { a.Sync(target, answer) })},
		{"Async.Multi", "write, async", async(func(a session.Async, answer func(error)) {
			a.Multi(ops, func(results []session.OpResult, err error) { answer(consistent(err, len(results) == len(ops))) })
		})},
		{"Async.EnsurePath", "ensure,async", async(func(a session.Async, answer func(error)) {
			a.EnsurePath(fresh, func(_ bool, err error) { answer(err) })
		})},
		{"Async.Multi/modes", "write, async", async(func(a session.Async, answer func(error)) {
			a.Multi(modes, func(results []session.OpResult, err error) { answer(consistent(err, len(results) == len(modes))) })
		})},
		{"Async.Withdraw", "withdraw", async(func(a session.Async, answer func(error)) { a.Withdraw(node, answer) })},
		{"Async.WithdrawAll", "withdraw all", async(func(a session.Async, answer func(error)) {
			session.Removal{Path: target, Prefix: "none"}.Begin(a, answer)
		})},
		{"Async.Watch", "watch", async(func(a session.Async, answer func(error)) {
			a.Watch(node, func(data []byte, stat *session.Stat, err error) {
				answer(consistent(err, stat != nil && string(data) == "data"))
			}, func([]byte, *session.Stat, error) {})
		})},
		{"Async.Follow/data", "watch", follow(node, session.AspectData)},
		{"Async.Follow/children", "watch", follow(target, session.AspectChildren)},
	}
	for _, m := range []struct {
		name, class string
		mode        session.CreateMode
	}{
		{"persistent", "write", session.Persistent},
		{"container", "write", session.Container},
		{"ttl", "write", session.TTL(time.Hour)},
		{"ephemeral", "create, e.", session.Ephemeral},
		{"sequential", "create, s.", session.PersistentSequential},
		{"sequential+ttl", "create, s.", session.SequentialTTL(time.Hour)},
		{"ephemeral+sequential", "create, e.s.", session.EphemeralSequential},
	} {
		all = append(all, verb{"Create/" + m.name, m.class, blocking(func(ctx context.Context, s *session.Session) error {
			made, err := s.Create(ctx, fresh, nil, m.mode)
			return consistent(err, made != "")
		})}, verb{"Async.Create/" + m.name, "write, async", async(func(a session.Async, answer func(error)) {
			a.Create(fresh, nil, m.mode, func(made string, err error) { answer(consistent(err, made != "")) })
		})})
	}
	return all
}

// follow answers with what is told first.
func follow(path string, aspect session.Aspect) func(context.Context, *session.Session, func(error)) {
	return async(func(a session.Async, answer func(error)) {
		answered := false
		a.Follow(path, aspect, false, func(r session.Reading, err error) {
			if !answered {
				answered = true
				answer(consistent(err, r.Stat != nil))
			}
		})
	})
}

var errInconsistent = errors.New("success without a result")

// consistent reports success only with a result.
func consistent(err error, complete bool) error {
	if err == nil && !complete {
		return errInconsistent
	}
	return err
}

// plant makes the target.
func plant(t *testing.T, srv *zktest.Server) {
	t.Helper()
	other := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
	check.Have(other.Multi(t.Context(), session.CreateOp(target, nil, session.Persistent), session.CreateOp(target+"/child", []byte("data"), session.Persistent)))(t)
}

// outcome says in a word what became of a request; with a question mark if that is unknown.
func outcome(err error) string {
	unknown := ""
	if errors.Is(err, session.ErrUnknownOutcome) {
		unknown = "?"
	}
	var op *session.OpError
	if err != nil && !errors.As(err, &op) {
		return fmt.Sprintf("not an OpError: %v", err)
	}
	for _, row := range []struct {
		is   error
		name string
	}{
		{nil, "ok"},
		{context.Canceled, "ended"},
		{session.ErrExpired, "expired"},
		{session.ErrClosed, "closed"},
		{session.ErrNoAuth, "refused"},
		{session.ErrReadOnly, "read-only"},
		{session.ErrDisconnected, "lost"},
	} {
		if errors.Is(err, row.is) {
			return unknown + row.name
		}
	}
	return err.Error()
}
