package crew

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Plain opens sessions of go-zookeeper's own client.
func Plain(o Options) Opener {
	return func(report func(Kind, int64)) (Member, error) {
		p := &plain{report: report, opened: make(chan struct{}), ready: make(chan struct{}), lost: make(chan struct{}, 1), closing: make(chan struct{})}
		var err error
		p.conn, _, err = zk.Connect(o.Servers, o.Timeout, zk.WithLogger(silent{}), zk.WithLogInfo(false),
			zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				return o.Dial(ctx, network, address)
			}),
			zk.WithEventCallback(p.hear))
		if err != nil {
			return nil, err
		}
		close(p.opened)
		timeout := time.NewTimer(openTimeout)
		defer timeout.Stop()
		select {
		case <-p.ready:
		case <-timeout.C:
			p.conn.Close()
			return nil, errors.New("no session")
		}
		return p, nil
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// plain is a session of go-zookeeper. The holder of a zk.Lock, and the owner of an ephemeral node,
// learn of a loss only by the expiry of the session.
type plain struct {
	conn    *zk.Conn
	report  func(Kind, int64)
	opened  chan struct{} // closed when conn is set
	ready   chan struct{} // closed when the first session exists
	lost    chan struct{} // has a value after a session has expired
	closing chan struct{}
	tasks   sync.WaitGroup

	id    atomic.Int64 // of the current session; 0 before the first
	holds atomic.Bool
}

func (p *plain) hear(ev zk.Event) {
	if ev.Type != zk.EventSession {
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		<-p.opened
		id := p.conn.SessionID()
		if first := p.id.Load() == 0; !first && id == p.id.Load() {
			p.report(Resumed, id)
			return
		} else if first {
			defer close(p.ready)
		}
		p.id.Store(id)
		p.report(Connected, id)
	case zk.StateDisconnected:
		p.report(Suspended, p.id.Load())
	case zk.StateExpired:
		id := p.id.Load()
		p.report(Expired, id)
		if p.holds.Swap(false) {
			p.report(Deprived, id)
		}
		select {
		case p.lost <- struct{}{}:
		default:
		}
	}
}

// Play implements Member. go-zookeeper has neither elections nor queues: a candidate is a lock, and
// a consumer follows the list of items.
func (p *plain) Play(role, path string) error {
	switch role {
	case Own:
		return p.begin(func() bool { return p.lock(path) })
	case Enroll:
		return p.begin(func() bool { return p.enroll(path) })
	case Line, Lead:
		p.tasks.Go(func() { p.keep(func() bool { return p.lock(path) }, true) })
		return nil
	case Config:
		return p.follow(func() (<-chan zk.Event, error) {
			_, _, changed, err := p.conn.GetW(path)
			return changed, err
		})
	case Consume:
		if _, err := p.conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		return p.follow(func() (<-chan zk.Event, error) {
			_, _, changed, err := p.conn.ChildrenW(path)
			return changed, err
		})
	}
	return fmt.Errorf("there is no role %q", role)
}

// lock acquires a lock, and tries again after an error. It returns false if the session is closed
// first.
func (p *plain) lock(path string) bool {
	for zk.NewLock(p.conn, path, zk.WorldACL(zk.PermAll)).Lock() != nil {
		if !p.pause() {
			return false
		}
	}
	p.granted()
	return true
}

func (p *plain) granted() {
	p.holds.Store(true)
	p.report(Granted, p.id.Load())
}

// enroll creates an ephemeral node, and tries again after an error. It returns false if the session
// is closed first. Until an earlier session has ended, its node is in the way.
func (p *plain) enroll(path string) bool {
	for {
		_, err := p.conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) { // by a request without an answer, perhaps
			if is, stat, existsErr := p.conn.Exists(path); existsErr == nil && is && stat.EphemeralOwner == p.conn.SessionID() {
				err = nil
			}
		}
		if err == nil {
			p.granted()
			return true
		}
		if !p.pause() {
			return false
		}
	}
}

// begin acquires a lock, or enrolls, and keeps it.
func (p *plain) begin(acquire func() bool) error {
	if !acquire() {
		return zk.ErrClosing
	}
	p.tasks.Go(func() { p.keep(acquire, false) })
	return nil
}

// keep acquires at once or after the session has expired, and again after every expiry.
func (p *plain) keep(acquire func() bool, now bool) {
	for {
		if now && !acquire() {
			return
		}
		select {
		case <-p.lost:
			now = !p.holds.Load() // the session may have expired before it acquired this lock
		case <-p.closing:
			return
		}
	}
}

// pause waits a moment, and reports whether the session is still open.
func (p *plain) pause() bool {
	moment := time.NewTimer(100 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-moment.C:
		return true
	case <-p.closing:
		return false
	}
}

// follow calls read, and calls it again after each change.
func (p *plain) follow(read func() (<-chan zk.Event, error)) error {
	changed, err := read()
	if err != nil {
		return err
	}
	p.tasks.Go(func() {
		for {
			select {
			case <-changed:
			case <-p.closing:
				return
			}
			for changed, err = read(); err != nil; changed, err = read() {
				if !p.pause() {
					return
				}
			}
		}
	})
	return nil
}

// Close implements Member.
func (p *plain) Close() error {
	close(p.closing)
	p.conn.Close()
	p.tasks.Wait()
	return nil
}
