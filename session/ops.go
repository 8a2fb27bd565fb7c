package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// AnyVersion matches every version of a node.
const AnyVersion int32 = -1

// A CreateMode is the kind of a node to create. [TTL] and [SequentialTTL] return further modes.
type CreateMode int64

// The modes. The server appends a number to the name of a sequential node. [Session.Create] also
// inserts a GUID before the name; [CreateOp] and [Async.Create] do not. The server deletes a
// container some time after the last child of the container.
const (
	Persistent           CreateMode = 0
	Ephemeral            CreateMode = 1
	PersistentSequential CreateMode = 2
	EphemeralSequential  CreateMode = 3
	Container            CreateMode = 4

	modeTTL           CreateMode = 5
	modeSequentialTTL CreateMode = 6

	// A mode with a TTL has the TTL between this bit and the bits of the kind.
	hasTTL   = 1 << 62
	modeBits = 3
)

// TTL is the mode of a persistent node that the server deletes when it has had no
// children and no change for that long. The server must have extendedTypesEnabled.
func TTL(ttl time.Duration) CreateMode {
	return hasTTL | CreateMode(ttl.Milliseconds())<<modeBits | modeTTL
}

// SequentialTTL is the mode of a sequential node with a [TTL].
func SequentialTTL(ttl time.Duration) CreateMode {
	return hasTTL | CreateMode(ttl.Milliseconds())<<modeBits | modeSequentialTTL
}

// IsSequential reports whether the server appends a number to the name.
func (m CreateMode) IsSequential() bool {
	k := m.kind()
	return k == PersistentSequential || k == EphemeralSequential || k == modeSequentialTTL
}

// IsEphemeral reports whether the node is deleted when its session ends.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// kind returns a mode without its TTL.
func (m CreateMode) kind() CreateMode {
	if m&hasTTL == 0 {
		return m
	}
	return m & (1<<modeBits - 1)
}

func (m CreateMode) ttl() time.Duration {
	return time.Duration(m&^hasTTL>>modeBits) * time.Millisecond
}

func (m CreateMode) validate() error {
	const longest = 1<<40 - 1 // ms, ZooKeeper's limit
	switch m.kind() {
	case Persistent, Ephemeral, PersistentSequential, EphemeralSequential, Container:
		if m&hasTTL == 0 {
			return nil
		}
	case modeTTL, modeSequentialTTL:
		if ms := m &^ hasTTL >> modeBits; m&hasTTL != 0 && ms > 0 && ms <= longest {
			return nil
		}
		return fmt.Errorf("%w: mode: a TTL must be positive, and at most 34 years", ErrInvalidArgument)
	}
	return fmt.Errorf("%w: mode %d", ErrInvalidArgument, m)
}

// sequenceLength is the length of the number that the server appends to a sequential name.
const sequenceLength = 11

// An Op is one operation of a [Session.Multi].
type Op struct {
	kind    opKind
	path    string
	data    []byte
	mode    CreateMode
	version int32
	acl     []ACL // of a created node; nil for the session's
	guards  error // the error of a guard that fails, see GuardOp; nil for other operations
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

// CreateOp creates a node of any mode.
func CreateOp(path string, data []byte, mode CreateMode) Op {
	return Op{kind: opKindCreate, path: path, data: data, mode: mode}
}

// WithACL returns a [CreateOp] whose node gets this ACL, not that of the session.
func (o Op) WithACL(acl []ACL) Op {
	o.acl = slices.Clone(acl)
	if o.acl == nil {
		o.acl = []ACL{} // which is refused
	}
	return o
}

// SetOp sets the data of a node that has the version.
func SetOp(path string, data []byte, version int32) Op {
	return Op{kind: opKindSet, path: path, data: data, version: version}
}

// DeleteOp deletes a node that has the version.
func DeleteOp(path string, version int32) Op {
	return Op{kind: opKindDelete, path: path, version: version}
}

// GuardOp fails a transaction unless there is a node at the path. If there is none, the error of
// the transaction wraps why, beside [ErrNoNode]: so a caller can tell a guard that refuses from a
// missing node.
func GuardOp(path string, why error) Op {
	o := CheckOp(path, AnyVersion)
	o.guards = why
	return o
}

// Path returns the path of the operation.
func (o Op) Path() string { return o.path }

func (o Op) validate() error {
	if err := validateCreated(o.path, o.mode); err != nil {
		return err
	}
	switch {
	case o.kind == opKindCreate:
		if err := o.mode.validate(); err != nil {
			return err
		}
		return validateACL(o.acl, o.acl != nil)
	case o.acl != nil:
		return fmt.Errorf("%w: acl: only a CreateOp has one", ErrInvalidArgument)
	case o.kind != 0:
		return nil
	}
	return fmt.Errorf("%w: the zero Op", ErrInvalidArgument)
}

// firstPath stands for a transaction in its errors.
func firstPath(ops []Op) string {
	if len(ops) == 0 {
		return "/"
	}
	return ops[0].path
}

// validateCreated allows the name of a sequential node to be only its number.
func validateCreated(path string, mode CreateMode) error {
	if mode.IsSequential() && (path == "" || strings.IndexByte("/.", path[len(path)-1]) >= 0) {
		path += "0" // for other modes that makes no difference
	}
	return ValidatePath(path)
}

// opcode returns the type of the operation, as its result has it.
func (o Op) opcode() wire.Op {
	switch o.kind {
	case opKindCheck:
		return wire.OpCheck
	case opKindSet:
		return wire.OpSetData
	case opKindDelete:
		return wire.OpDelete
	case opKindCreate:
	}
	return createOpcode(o.mode)
}

// createOpcode returns the type of the request that creates a node. The mode is valid. It is never
// create2: in a transaction only some versions answer create2 with a Stat, and ClickHouse Keeper
// does not know it (docs/adr/0058).
func createOpcode(mode CreateMode) wire.Op {
	switch mode.kind() {
	case Container:
		return wire.OpCreateContainer
	case modeTTL, modeSequentialTTL:
		return wire.OpCreateTTL
	case Persistent, Ephemeral, PersistentSequential, EphemeralSequential:
	}
	return wire.OpCreate
}

// refused returns the error of an operation that failed its transaction.
func (o Op) refused(err error) error {
	if o.guards == nil || !errors.Is(err, ErrNoNode) {
		return err
	}
	return fmt.Errorf("%w: %w", o.guards, err)
}

// An OpResult is the outcome of one operation.
type OpResult struct {
	Path string // of a created node
	Stat *Stat  // after a set, and on ZooKeeper after the creation of a container or a node with a TTL
	Err  error  // why the operation failed; nil if another's failure undid it

	company int32 // how many callers have shared the transaction
}
