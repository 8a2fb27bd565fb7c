package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Async makes requests without waiting for them: what recipes are built on. A
// request returns at once and is answered by exactly one call of answer.
//
// All answers, all watch events, and all that [Async.Subscribe] tells come one after
// another, on one goroutine of the session, in the order of the wire; they must not
// block. Requests go out in the order in which one caller makes them. While the
// session is suspended they wait; if it expires they are answered with [ErrExpired].
// A read whose reply was lost is answered with [ErrDisconnected], a write with
// [ErrUnknownOutcome].
type Async struct {
	session *Session
	epoch   int
}

// Async returns the asynchronous requests of one epoch, which [Connected] names. In
// any other epoch they are answered with [ErrExpired]. Epoch 0 stands for whichever
// is present.
func (s *Session) Async(epoch int) Async { return Async{session: s, epoch: epoch} }

// Subscribe has every event of the session told, beginning with the present state,
// until the subscription is cancelled. If tell returns a channel, the session waits
// before it ends itself on the server until that is closed, at most for
// [Options.CloseTimeout].
func (s *Session) Subscribe(tell func(Event) (settled <-chan struct{})) (cancel func()) {
	sub := &subscriber{tell: tell}
	s.do(func() { s.subscribe(sub) })
	return func() { s.order.put(func() { s.unsubscribe(sub) }) } // the caller may hold locks
}

// Age returns for how long there has been this Session, on the monotonic clock: for
// recipes that tell the [Observer] how long something took.
func (s *Session) Age() time.Duration { return time.Since(s.born) }

// Observer returns that of the session's options.
func (s *Session) Observer() Observer { return s.opts.Observer }

// Warm reports whether the session has seen that the node at path exists and
// carries no data: a hint for recipes, whose parents do neither come nor go often.
func (s *Session) Warm(path string) bool { return s.warmth.has(path) }

// SetWarm keeps, or takes back, such a hint.
func (s *Session) SetWarm(path string, warm bool) { s.warmth.set(path, warm) }

// request starts one request of the client below.
func request[T any](a Async, c *call, do func(*zk.Conn) (T, error), answer func(T, error)) *call {
	var result T
	c.number = a.epoch
	c.began = time.Now()
	c.do = func(conn *zk.Conn) (err error) {
		result, err = do(conn)
		return err
	}
	c.answer = func(err error) { answer(result, err) }
	a.session.submit(c)
	return c
}

// refuse answers, in its turn, a request that cannot be made.
func refuse[T any](a Async, op, path string, why error, answer func(T, error)) *call {
	var none T
	c := &call{op: op, path: path}
	a.session.order.put(func() {
		if c.state.Load() != callAbandoned {
			answer(none, &OpError{Op: op, Path: path, Err: why})
		}
	})
	return c
}

// Fits reports why a transaction of these operations cannot be sent.
func (s *Session) Fits(ops ...Op) error {
	bytes := 0
	for _, op := range ops {
		bytes += frameOverhead + len(s.opts.Chroot) + len(op.path) + len(op.data)
		if op.kind == opKindCreate {
			bytes += s.aclBytes()
		}
	}
	return s.fits(bytes)
}

func (s *Session) aclBytes() (bytes int) {
	for _, a := range s.opts.ACL {
		bytes += 12 + len(a.Scheme) + len(a.ID)
	}
	return bytes
}

// fits reports why a request with so many bytes of the user's cannot be sent.
func (s *Session) fits(bytes int) error {
	if limit := s.opts.MaxRequest - frameOverhead; bytes > limit {
		return fmt.Errorf("data: %w: %d bytes with paths and ACLs, the limit is %d (Options.MaxRequest)", ErrTooLarge, bytes, limit)
	}
	return nil
}

// target returns the path on the server of a node, or why there cannot be such a node.
func (s *Session) target(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	full := s.absolute(path)
	if err := s.fits(len(full)); err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	return full, nil
}

func (s *Session) acl() []zk.ACL {
	acl := make([]zk.ACL, len(s.opts.ACL))
	for i, a := range s.opts.ACL {
		acl[i] = zk.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return acl
}

// Create creates a node with the ACL of the session, and answers with its path,
// to which the server has appended a number if it is sequential.
func (a Async) Create(path string, data []byte, mode CreateMode, answer func(node string, err error)) {
	a.create(path, data, mode, answer)
}

func (a Async) create(path string, data []byte, mode CreateMode, answer func(string, error)) *call {
	s := a.session
	err := validateCreated(path, mode)
	if err == nil {
		err = mode.validate()
	}
	full := s.absoluteNew(path, mode)
	if err == nil {
		err = s.fits(len(full) + len(data) + s.aclBytes())
	}
	if err != nil {
		return refuse(a, "create", path, err, answer)
	}
	c := &call{op: "create", path: path, write: true}
	if mode.IsEphemeral() {
		c.ephemeral = len(full) + sequenceLength
	}
	flags := int32(mode.kind())
	return request(a, c, func(conn *zk.Conn) (string, error) {
		switch mode.kind() {
		case Container:
			return conn.CreateContainer(full, data, zk.FlagContainer, s.acl())
		case modeTTL:
			return conn.CreateTTL(full, data, zk.FlagTTL, s.acl(), mode.ttl())
		case modeSequentialTTL:
			return conn.CreateTTL(full, data, zk.FlagPersistentSequentialWithTTL, s.acl(), mode.ttl())
		case Persistent, Ephemeral, PersistentSequential, EphemeralSequential:
		}
		return conn.Create(full, data, flags, s.acl())
	}, func(node string, err error) {
		if err != nil {
			answer("", err)
			return
		}
		if c.ephemeral > 0 {
			c.epoch.ephemerals.release(c.ephemeral)
			c.owns(node)
		}
		answer(s.relative(node), nil)
	})
}

// Delete deletes the node if it has the version, or any with [AnyVersion].
func (a Async) Delete(path string, version int32, answer func(error)) {
	a.delete(path, version, func(_ struct{}, err error) { answer(err) })
}

func (a Async) delete(path string, version int32, answer func(struct{}, error)) *call {
	full, err := a.session.target(path)
	if err != nil {
		return refuse(a, "delete", path, err, answer)
	}
	c := &call{op: "delete", path: path, write: true}
	return request(a, c, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(full, version)
	}, func(_ struct{}, err error) {
		if err == nil || isNoNode(err) {
			c.epoch.ephemerals.disown(full)
		}
		answer(struct{}{}, err)
	})
}

// Get reads the data of a node.
func (a Async) Get(path string, answer func(data []byte, stat *Stat, err error)) {
	a.get(path, func(r dataResult, err error) { answer(r.data, r.stat, err) })
}

type dataResult struct {
	data []byte
	stat *Stat
}

func (a Async) get(path string, answer func(dataResult, error)) *call {
	return read(a, "get", path, func(conn *zk.Conn, full string) (dataResult, error) {
		data, stat, err := conn.Get(full)
		return dataResult{data, statOf(stat)}, err
	}, answer)
}

// read starts a request that changes nothing.
func read[T any](a Async, op, path string, do func(*zk.Conn, string) (T, error), answer func(T, error)) *call {
	full, err := a.session.target(path)
	if err != nil {
		return refuse(a, op, path, err, answer)
	}
	c := &call{op: op, path: path}
	return request(a, c, func(conn *zk.Conn) (T, error) { return do(conn, full) },
		func(result T, err error) {
			if isNoNode(err) {
				c.epoch.ephemerals.disown(full)
			}
			if err != nil {
				var none T
				result = none
			}
			answer(result, err)
		})
}

// Set sets the data of a node that has the version, or any with [AnyVersion].
func (a Async) Set(path string, data []byte, version int32, answer func(*Stat, error)) {
	a.set(path, data, version, answer)
}

func (a Async) set(path string, data []byte, version int32, answer func(*Stat, error)) *call {
	full, err := a.session.target(path)
	if err == nil {
		err = a.session.fits(len(full) + len(data))
	}
	if err != nil {
		return refuse(a, "set", path, err, answer)
	}
	return request(a, &call{op: "set", path: path, write: true}, func(conn *zk.Conn) (*Stat, error) {
		stat, err := conn.Set(full, data, version)
		return statOf(stat), err
	}, answer)
}

// Exists reads the Stat of a node, nil if there is none.
func (a Async) Exists(path string, answer func(*Stat, error)) { a.exists(path, answer) }

func (a Async) exists(path string, answer func(*Stat, error)) *call {
	return read(a, "exists", path, func(conn *zk.Conn, full string) (*Stat, error) {
		found, stat, err := conn.Exists(full)
		if !found {
			return nil, err
		}
		return statOf(stat), err
	}, func(stat *Stat, err error) {
		if isNoNode(err) {
			stat, err = nil, nil
		}
		answer(stat, err)
	})
}

// Children reads the names of a node's children, in no order.
func (a Async) Children(path string, answer func(names []string, stat *Stat, err error)) {
	a.children(path, func(r childrenResult, err error) { answer(r.names, r.stat, err) })
}

type childrenResult struct {
	names []string
	stat  *Stat
}

func (a Async) children(path string, answer func(childrenResult, error)) *call {
	return read(a, "children", path, func(conn *zk.Conn, full string) (childrenResult, error) {
		names, stat, err := conn.Children(full)
		return childrenResult{names, statOf(stat)}, err
	}, answer)
}

// Sync brings the server that the session is connected to up to what the leader has
// committed.
func (a Async) Sync(path string, answer func(error)) {
	a.sync(path, func(_ struct{}, err error) { answer(err) })
}

func (a Async) sync(path string, answer func(struct{}, error)) *call {
	return read(a, "sync", path, func(conn *zk.Conn, full string) (struct{}, error) {
		_, err := conn.Sync(full)
		return struct{}{}, err
	}, answer)
}

// Multi does all the operations, or none. Its error is that of the operation that
// could not be done.
func (a Async) Multi(ops []Op, answer func([]OpResult, error)) { a.multi(ops, answer) }

func (a Async) multi(ops []Op, answer func([]OpResult, error)) *call {
	s := a.session
	path := firstPath(ops)
	err := error(nil)
	if len(ops) == 0 {
		err = fmt.Errorf("%w: ops: there are none", ErrInvalidArgument)
	}
	c := &call{op: "multi", path: path, write: true}
	for i, op := range ops {
		if invalid := op.validate(); err == nil && invalid != nil {
			err = fmt.Errorf("ops[%d]: %w", i, invalid)
		}
		if op.kind == opKindCreate && op.mode.IsEphemeral() {
			c.ephemeral += len(s.absoluteNew(op.path, op.mode)) + sequenceLength
		}
	}
	if err == nil {
		err = s.Fits(ops...)
	}
	if err != nil {
		return refuse(a, "multi", path, err, answer)
	}
	type replies struct {
		all []zk.MultiResponse
		err error
	}
	return request(a, c, func(conn *zk.Conn) (replies, error) {
		requests := make([]any, len(ops))
		for i, op := range ops {
			requests[i] = op.request(s)
		}
		all, err := conn.Multi(requests...)
		if len(all) == len(ops) {
			return replies{all, err}, nil // what failed stands in the reply
		}
		return replies{}, err
	}, func(r replies, err error) {
		if err != nil {
			answer(nil, err)
			return
		}
		results, err := resultsOf(s, ops, r.all, nil)
		c.epoch.ephemerals.release(c.ephemeral)
		for i, op := range ops {
			switch {
			case err != nil:
			case op.kind == opKindCreate && op.mode.IsEphemeral():
				c.owns(s.absolute(results[i].Path))
			case op.kind == opKindDelete:
				c.epoch.ephemerals.disown(s.absolute(op.path))
			}
		}
		answer(results, err)
	})
}

// EnsurePath makes sure that there is a node at path, and makes it and what is missing
// above it as containers, or as persistent nodes where the server has no containers.
// The answer tells whether the node was made now, and is empty.
func (a Async) EnsurePath(path string, answer func(made bool, err error)) {
	full, err := a.session.target(path)
	if err != nil {
		refuse(a, "ensure", path, err, answer)
		return
	}
	a.ensure(full, Container, answer)
}

// ensure works on absolute paths: the chroot itself may be missing. Doing it twice does
// no harm, so a lost reply is no reason to fail.
func (a Async) ensure(full string, mode CreateMode, answer func(bool, error)) {
	c := &call{op: "ensure", path: a.session.relative(full), write: true}
	request(a, c, func(conn *zk.Conn) (struct{}, error) {
		if mode == Container {
			_, err := conn.CreateContainer(full, nil, zk.FlagContainer, a.session.acl())
			return struct{}{}, err
		}
		_, err := conn.Create(full, nil, int32(mode.kind()), a.session.acl())
		return struct{}{}, err
	}, func(_ struct{}, err error) {
		switch {
		case err == nil:
			answer(true, nil)
		case isAny(err, ErrNodeExists):
			answer(false, nil)
		case mode == Container && isAny(err, ErrUnimplemented, ErrInvalidArgument):
			a.ensure(full, Persistent, answer)
		case isNoNode(err) && full != "/":
			dir, _ := Split(full)
			a.ensure(dir, mode, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				a.ensure(full, mode, answer)
			})
		case isAny(err, ErrDisconnected):
			a.ensure(full, mode, answer)
		case isAny(err, ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node.
			a.Exists(a.session.relative(full), func(stat *Stat, existsErr error) {
				if existsErr == nil && stat != nil {
					err = nil
				}
				answer(false, err)
			})
		default:
			answer(false, err)
		}
	})
}

// hasGUID reports whether name is that of a node created with the GUID.
func hasGUID(name, guid string) bool { return strings.HasPrefix(name, GUIDName(guid, "")) }

// GUIDName returns the name for a node that can be found again by its GUID, in the
// form that Curator introduced.
func GUIDName(guid, name string) string { return "_c_" + guid + "-" + name }
