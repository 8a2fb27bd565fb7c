package zktest

import "github.com/zkactors/zkactors/session/internal/wire"

// Short names for those of package wire.
type (
	code      = wire.Code
	eventType = wire.EventKind
)

const (
	codeOK                     = wire.CodeOK
	codeRuntimeInconsistency   = wire.CodeRuntimeInconsistency
	codeMarshalling            = wire.CodeMarshalling
	codeUnimplemented          = wire.CodeUnimplemented
	codeBadArguments           = wire.CodeBadArguments
	codeNoNode                 = wire.CodeNoNode
	codeNoAuth                 = wire.CodeNoAuth
	codeBadVersion             = wire.CodeBadVersion
	codeNoChildrenForEphemeral = wire.CodeNoChildrenForEphemerals
	codeNodeExists             = wire.CodeNodeExists
	codeNotEmpty               = wire.CodeNotEmpty
	codeInvalidACL             = wire.CodeInvalidACL
	codeAuthFailed             = wire.CodeAuthFailed
	codeNoWatcher              = wire.CodeNoWatcher
	codeReconfigDisabled       = wire.CodeReconfigDisabled

	eventCreated         = wire.EventCreated
	eventDeleted         = wire.EventDeleted
	eventDataChanged     = wire.EventDataChanged
	eventChildrenChanged = wire.EventChildrenChanged

	xidNotification = wire.XidNotification
	xidPing         = wire.XidPing
)

func aclOf(list []wire.ACL) []acl {
	var all []acl
	for _, a := range list {
		all = append(all, acl{a.Perms, identity{a.Scheme, a.ID}})
	}
	return all
}

func wireACL(list []acl) []wire.ACL {
	all := make([]wire.ACL, len(list))
	for i, a := range list {
		all[i] = wire.ACL{Perms: a.perms, Scheme: a.id.scheme, ID: a.id.id}
	}
	return all
}

// opOf returns the operation of a request, as it is counted and matched.
func opOf(frame []byte) Op {
	if wire.OnlyChecks(frame) {
		return OpCheck
	}
	_, op, _ := wire.ParseRequestHeader(frame) // a malformed one is counted as 0
	return op
}

// pathsOf returns the paths in a request.
func pathsOf(frame []byte) []string {
	_, q, _ := wire.ParseRequest(frame) // a malformed request has the paths before the malformed field
	switch q.Op {                       //nolint:exhaustive // the others have a path
	case OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpSASL, OpReconfig, OpDeleteContainer, OpWhoAmI, OpCreateSession, OpCloseSession:
		return nil
	case OpMulti, OpMultiRead:
		var paths []string
		for i := range q.Ops {
			paths = append(paths, q.Ops[i].Path)
		}
		return paths
	}
	return []string{q.Path}
}
