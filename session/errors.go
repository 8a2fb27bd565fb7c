package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// The errors that callers can act on. Every error of a request wraps one of these, and an
// [OpError] that names the operation and the path.
var (
	// ErrNoNode means that there is no node at the path. If the node was to be created, its parent
	// is missing, which the error says.
	ErrNoNode = fault.ErrNoNode

	// ErrNodeExists means that there is a node at the path already.
	ErrNodeExists = errors.New("node exists")

	// ErrBadVersion means that the node's version is not the expected one.
	ErrBadVersion = fault.ErrBadVersion

	// ErrNotEmpty means that the node has children.
	ErrNotEmpty = errors.New("node has children")

	// ErrNoChildrenForEphemerals means that the parent is ephemeral.
	ErrNoChildrenForEphemerals = errors.New("ephemeral nodes cannot have children")

	// ErrNoAuth means that the node's ACL forbids the operation.
	ErrNoAuth = fault.ErrNoAuth

	// ErrInvalidACL means that the server refused an ACL. Its scheme is unknown, its ID is
	// malformed, or it has the scheme auth, as [CreatorAll], and the session has no credentials.
	ErrInvalidACL = errors.New("invalid ACL")

	// ErrQuotaExceeded means that a node at or above the path has a quota, which the write would
	// exceed: of bytes or of nodes, see ZooKeeper's setquota. Nothing was done. Only servers with
	// the Java property zookeeper.enforceQuota refuse such writes; others log a warning.
	ErrQuotaExceeded = errors.New("quota exceeded")

	// ErrAuthFailed means that every server has refused the session's credentials. The error names
	// the scheme of the refused one in [Options.Auth].
	ErrAuthFailed = fault.ErrAuthFailed

	// ErrUnimplemented means that the servers do not know the operation, and that nothing replaces
	// it. The error names the missing feature. Nothing was done.
	ErrUnimplemented = fault.ErrUnimplemented

	// ErrLapsed means that the session was without a proof of its life for so long that others may
	// have been granted what was held through it: see [Lapsed]. It wraps ErrDisconnected. A request
	// that fails with it was never sent.
	ErrLapsed = fault.ErrLapsed

	// ErrExpired means that the servers have ended the session, and with it every ephemeral node
	// that it owned.
	ErrExpired = fault.ErrExpired

	// ErrClosed means that the session has been closed.
	ErrClosed = fault.ErrClosed

	// ErrDisconnected means that the connection was lost before the request
	// was answered. A read did not happen; a write that fails with it also
	// wraps [ErrUnknownOutcome] unless it was never sent.
	ErrDisconnected = fault.ErrDisconnected

	// ErrReadOnly means that the session is connected to a server without a quorum, which does not
	// write: see [Options.ReadOnly]. Nothing was done.
	ErrReadOnly = fault.ErrReadOnly

	// ErrBusy means that the server could not do the request now, and may do it later. If the
	// request is a write, the server may have begun it.
	ErrBusy = fault.ErrBusy

	// ErrUnknownOutcome means that a write may or may not have been done.
	ErrUnknownOutcome = fault.ErrUnknownOutcome

	// ErrInvalidPath means that the path is not absolute, or malformed.
	ErrInvalidPath = errors.New("invalid path")

	// ErrInvalidArgument means that an argument cannot be sent at all.
	ErrInvalidArgument = errors.New("invalid argument")

	// ErrTooLarge means that a request, or the reply to it, is over the limits
	// in [Options].
	ErrTooLarge = fault.ErrTooLarge

	// ErrHistoryLost means that the servers have come back with older data than an earlier epoch
	// has seen: from a backup, or emptied. Recipes then refuse a grant, because its fencing token
	// is smaller than a token that may have been granted before. A [Session] that is opened anew
	// knows of no history.
	ErrHistoryLost = errors.New("the servers have lost history: restored from a backup, or emptied")

	// ErrSessionFull means that the session owns as many ephemeral nodes as
	// ZooKeeper can bear in one session; another session has room.
	ErrSessionFull = fault.ErrSessionFull
)

// checkContext refuses a nil context with [ErrInvalidArgument].
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return nil
}

var errNilContext = fmt.Errorf("%w: ctx: the context is nil", ErrInvalidArgument)

// An OpError records a failed operation and the node it was for.
type OpError struct {
	Op   string // "create", "delete", …
	Path string
	Err  error
}

// Error implements the error interface.
func (e *OpError) Error() string { return e.Op + " " + abbreviated(e.Path) + ": " + e.Err.Error() }

// Unwrap returns the underlying error, so that [errors.Is] sees the sentinel.
func (e *OpError) Unwrap() error { return e.Err }

// A ServerError is an error of the server that has no sentinel of its own.
type ServerError struct {
	Code int32 // as in ZooKeeper's KeeperException
}

// Error implements the error interface.
func (e *ServerError) Error() string { return fmt.Sprintf("server error %d", e.Code) }

// Is reports whether the target is [ErrBusy], and the error is of a kind that passes.
func (e *ServerError) Is(target error) bool {
	const operationTimeout, requestTimeout, throttled = -7, -122, -127
	return target == ErrBusy && (e.Code == operationTimeout || e.Code == requestTimeout || e.Code == throttled)
}

// Passing reports whether a request that failed may succeed if it is made again: the connection was
// lost, the server was busy, or the request belonged to no epoch and its session expired. If the
// error is [InDoubt], find out first whether the request was done.
func Passing(err error) bool {
	return isAny(err, ErrDisconnected, ErrUnknownOutcome, ErrBusy, ErrExpired) && !isAny(err, ErrClosed)
}

// InDoubt reports whether a write that failed may have been done all the same.
func InDoubt(err error) bool { return isAny(err, ErrUnknownOutcome, ErrBusy) }

func isAny(err error, targets ...error) bool { return fault.IsAny(err, targets...) }

func isNoNode(err error) bool { return errors.Is(err, ErrNoNode) }

// because adds a reason to the error of a request.
func because(err error, why string) error {
	of, is := errors.AsType[*OpError](err)
	if !is {
		return fmt.Errorf("%w: %s", err, why)
	}
	return &OpError{Op: of.Op, Path: of.Path, Err: fmt.Errorf("%w: %s", of.Err, why)}
}

// withoutParent adds to the error of the creation of a node that its parent is missing.
func withoutParent(err error, path string) error {
	dir, _ := znode.Split(path)
	return fmt.Errorf("%w: its parent %s is missing (EnsurePath creates it)", err, abbreviated(dir))
}

// abbreviated returns a path as errors show it.
func abbreviated(path string) string {
	const shown = 256
	if len(path) <= shown {
		return path
	}
	return strings.ToValidUTF8(path[:shown/2], "") + "…" + strings.ToValidUTF8(path[len(path)-shown/2:], "")
}

// errOf returns the sentinel for an error code.
func errOf(code wire.Code) error {
	switch code { //nolint:exhaustive // the others have no sentinel
	case wire.CodeOK:
		return nil
	case wire.CodeUnimplemented:
		return ErrUnimplemented
	case wire.CodeBadArguments:
		return ErrInvalidArgument
	case wire.CodeNoNode:
		return ErrNoNode
	case wire.CodeNoAuth:
		return ErrNoAuth
	case wire.CodeBadVersion:
		return ErrBadVersion
	case wire.CodeNoChildrenForEphemerals:
		return ErrNoChildrenForEphemerals
	case wire.CodeNodeExists:
		return ErrNodeExists
	case wire.CodeNotEmpty:
		return ErrNotEmpty
	case wire.CodeSessionExpired:
		return ErrExpired
	case wire.CodeInvalidACL:
		return ErrInvalidACL
	case wire.CodeAuthFailed, wire.CodeSessionClosedRequireSASLAuth:
		return ErrAuthFailed
	case wire.CodeNotReadOnly:
		return ErrReadOnly
	case wire.CodeQuotaExceeded:
		return ErrQuotaExceeded
	case wire.CodeSessionMoved:
		return ErrDisconnected
	case wire.CodeTooLarge:
		return ErrTooLarge
	}
	return &ServerError{Code: int32(code)}
}
