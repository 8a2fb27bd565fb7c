package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// AnyVersion matches whatever version a node has.
const AnyVersion int32 = -1

// A CreateMode says what kind of node to create. [TTL] and [SequentialTTL] make
// further ones.
type CreateMode int64

// The modes. Sequential nodes get a number appended to their name by the server.
// Containers are deleted by the server some time after their last child.
const (
	Persistent           CreateMode = 0
	Ephemeral            CreateMode = 1
	PersistentSequential CreateMode = 2
	EphemeralSequential  CreateMode = 3
	Container            CreateMode = 4

	modeTTL           CreateMode = 5
	modeSequentialTTL CreateMode = 6

	modeBits = 3
)

// TTL is the mode of a persistent node that the server deletes when it has had no
// children and no change for that long. The server must have extendedTypesEnabled.
func TTL(ttl time.Duration) CreateMode { return CreateMode(ttl.Milliseconds())<<modeBits | modeTTL }

// SequentialTTL is the mode of a sequential node with a [TTL].
func SequentialTTL(ttl time.Duration) CreateMode {
	return CreateMode(ttl.Milliseconds())<<modeBits | modeSequentialTTL
}

// IsSequential reports whether the server appends a number to the name.
func (m CreateMode) IsSequential() bool {
	k := m.kind()
	return k == PersistentSequential || k == EphemeralSequential || k == modeSequentialTTL
}

// IsEphemeral reports whether the node goes with its session.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

func (m CreateMode) kind() CreateMode   { return m & (1<<modeBits - 1) }
func (m CreateMode) ttl() time.Duration { return time.Duration(m>>modeBits) * time.Millisecond }

func (m CreateMode) validate() error {
	const longest = 1<<40 - 1 // ms, ZooKeeper's limit
	switch m.kind() {
	case Persistent, Ephemeral, PersistentSequential, EphemeralSequential, Container:
		if m>>modeBits == 0 {
			return nil
		}
	case modeTTL, modeSequentialTTL:
		if ms := m >> modeBits; ms > 0 && ms <= longest {
			return nil
		}
		return fmt.Errorf("%w: mode: a TTL must be positive, and at most 34 years", ErrInvalidArgument)
	}
	return fmt.Errorf("%w: mode %d", ErrInvalidArgument, m)
}

// sequenceLength is how much longer the server makes a sequential name.
const sequenceLength = 11

// An Op is one operation of a [Session.Multi].
type Op struct {
	kind    opKind
	path    string
	data    []byte
	mode    CreateMode
	version int32
	guards  error // why it fails, if it does: see GuardOp; nil of any other
}

type opKind int

const (
	opKindCheck opKind = iota + 1
	opKindCreate
	opKindSet
	opKindDelete
)

// CheckOp fails the transaction unless the node exists and has the version.
func CheckOp(path string, version int32) Op {
	return Op{kind: opKindCheck, path: path, version: version}
}

// CreateOp creates a node, which cannot be a container or have a TTL: ZooKeeper's
// replies to these cannot be read.
func CreateOp(path string, data []byte, mode CreateMode) Op {
	return Op{kind: opKindCreate, path: path, data: data, mode: mode}
}

// SetOp sets the data of a node that has the version.
func SetOp(path string, data []byte, version int32) Op {
	return Op{kind: opKindSet, path: path, data: data, version: version}
}

// DeleteOp deletes a node that has the version.
func DeleteOp(path string, version int32) Op {
	return Op{kind: opKindDelete, path: path, version: version}
}

// Path returns the path of the operation.
func (o Op) Path() string { return o.path }

func (o Op) validate() error {
	if err := validateCreated(o.path, o.mode); err != nil {
		return err
	}
	switch o.kind {
	case opKindCheck, opKindSet, opKindDelete:
		return nil
	case opKindCreate:
		if k := o.mode.kind(); k == Container || k == modeTTL || k == modeSequentialTTL {
			return fmt.Errorf("%w: mode: a transaction cannot create containers or nodes with a TTL", ErrInvalidArgument)
		}
		return o.mode.validate()
	}
	return fmt.Errorf("%w: the zero Op", ErrInvalidArgument)
}

// validateCreated allows the name of a sequential node to be only its number.
func validateCreated(path string, mode CreateMode) error {
	if mode.IsSequential() {
		path += "0"
	}
	return ValidatePath(path)
}

// request returns the operation as the client below wants it.
func (o Op) request(s *Session) any {
	path := s.absoluteNew(o.path, o.mode)
	switch o.kind {
	case opKindCheck:
		return &zk.CheckVersionRequest{Path: path, Version: o.version}
	case opKindCreate:
		return &zk.CreateRequest{Path: path, Data: o.data, Acl: s.acl(), Flags: int32(o.mode.kind())}
	case opKindSet:
		return &zk.SetDataRequest{Path: path, Data: o.data, Version: o.version}
	case opKindDelete:
		return &zk.DeleteRequest{Path: path, Version: o.version}
	}
	panic("session: the zero Op is refused before")
}

// An OpResult is what became of one operation.
type OpResult struct {
	Path string // of a created node
	Stat *Stat  // after a set
	Err  error  // why it failed; nil for those that another's failure undid
}

// errInconsistent is what the server says of operations behind one that failed.
const errInconsistent = "unknown error: -2"

// resultsOf translates what the client below returns. The error is that of the
// operation that failed the transaction.
func resultsOf(s *Session, ops []Op, replies []zk.MultiResponse, err error) ([]OpResult, error) {
	if len(replies) != len(ops) {
		return nil, err
	}
	results := make([]OpResult, len(ops))
	var failed error
	for i, r := range replies {
		switch {
		case r.Error == nil:
			results[i] = OpResult{Stat: statOf(r.Stat)}
			if r.String != "" {
				results[i].Path = s.relative(r.String)
			}
		case r.Error.Error() == errInconsistent:
		default:
			results[i].Err = ops[i].refused(translate(r.Error))
			if failed == nil {
				failed = &OpError{Op: "multi", Path: ops[i].path, Err: results[i].Err}
			}
		}
	}
	if failed != nil {
		return results, failed
	}
	return results, err
}

// translate returns the sentinel for an error of the client below, for errors that
// come within a reply.
func translate(err error) error {
	for _, t := range []struct{ theirs, ours error }{
		{zk.ErrNoNode, ErrNoNode},
		{zk.ErrNodeExists, ErrNodeExists},
		{zk.ErrBadVersion, ErrBadVersion},
		{zk.ErrNotEmpty, ErrNotEmpty},
		{zk.ErrNoAuth, ErrNoAuth},
		{zk.ErrInvalidACL, ErrInvalidACL},
		{zk.ErrNoChildrenForEphemerals, ErrNoChildrenForEphemerals},
		{zk.ErrBadArguments, ErrInvalidArgument},
		{zk.ErrSessionExpired, ErrExpired},
		{zk.ErrShortBuffer, ErrTooLarge},
		{zk.ErrInvalidPath, ErrInvalidPath},
	} {
		if errors.Is(err, t.theirs) {
			return t.ours
		}
	}
	return err
}
