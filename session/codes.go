package session

import "github.com/zkactors/zkactors/session/internal/wire"

// codeTooLarge is not ZooKeeper's: the reply is over the limit.
const codeTooLarge wire.Code = -9002

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
	case wire.CodeSessionMoved:
		return ErrDisconnected
	case codeTooLarge:
		return ErrTooLarge
	}
	return &ServerError{Code: int32(code)}
}
