package session

import (
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// Perms are the operations that an [ACL] allows.
type Perms int32

// The permissions.
const (
	PermRead Perms = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin

	PermAll = PermRead | PermWrite | PermCreate | PermDelete | PermAdmin
)

// An ACL grants permissions on a node to the clients that Scheme and ID name.
type ACL struct {
	Perms  Perms
	Scheme string
	ID     string
}

// WorldAll allows every client everything.
func WorldAll() []ACL { return []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}} }

// CreatorAll allows everything to sessions that present the same [Auth] as the creator, and
// nothing to others.
func CreatorAll() []ACL { return []ACL{{Perms: PermAll, Scheme: "auth", ID: ""}} }

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

func wireACL(acl []ACL) []wire.ACL {
	all := make([]wire.ACL, len(acl))
	for i, a := range acl {
		all[i] = wire.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return all
}
