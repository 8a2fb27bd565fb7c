package session

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// GetACL returns the ACL of a node, and its Stat, in which Aversion is the version of the ACL.
// A missing node is [ErrNoNode].
func (s *Session) GetACL(ctx context.Context, path string) ([]ACL, *Stat, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	r, err := again(ctx, s.anyEpoch(), func() (aclResult, error) {
		return await(ctx, s, "get ACL", path, func(answer func(aclResult, error)) *call {
			return onNode(s.anyEpoch(), "get ACL", path, &wire.Request{Op: wire.OpGetACL}, aclIn, answer)
		})
	})
	return r.acl, r.stat, err
}

// SetACL sets the ACL of a node whose ACL has the version, or any with [AnyVersion], and returns
// its new Stat. It fails with [ErrUnknownOutcome] if the reply was lost.
func (s *Session) SetACL(ctx context.Context, path string, acl []ACL, version int32) (*Stat, error) {
	if err := validateACL(acl, true); err != nil {
		return nil, &OpError{Op: "set ACL", Path: path, Err: err}
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	w := &wire.Request{Op: wire.OpSetACL, ACL: wireACL(acl), Version: version}
	return await(ctx, s, "set ACL", path, func(answer func(*Stat, error)) *call {
		return onNode(s.anyEpoch(), "set ACL", path, w, statIn, answer)
	})
}

type aclResult struct {
	acl  []ACL
	stat *Stat
}

func aclIn(_ *call, r *wire.Reply) (aclResult, error) {
	acl := make([]ACL, len(r.ACL))
	for i, a := range r.ACL {
		acl[i] = ACL{Perms: Perms(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return aclResult{acl, statOf(&r.Stat)}, nil
}

// validateACL refuses an ACL that no server accepts.
func validateACL(acl []ACL, required bool) error {
	if len(acl) == 0 && required {
		return fmt.Errorf("%w: acl: it is empty", ErrInvalidArgument)
	}
	for i, a := range acl {
		if a.Perms < 0 || a.Perms > PermAll || a.Scheme == "" {
			return fmt.Errorf("%w: acl[%d]: the scheme is empty, or a permission is unknown", ErrInvalidArgument, i)
		}
	}
	return nil
}

// aclOf returns the ACL of a node as it goes out: that of the session if acl is nil.
func (s *Session) aclOf(acl []ACL) []wire.ACL {
	if acl == nil {
		return s.acl
	}
	return wireACL(acl)
}

func wireACL(acl []ACL) []wire.ACL {
	all := make([]wire.ACL, len(acl))
	for i, a := range acl {
		all[i] = wire.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return all
}
