package session

import (
	"fmt"
	"math"
	"slices"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// A Stat describes a node: all that ZooKeeper records of it beside its data. The names are
// ZooKeeper's.
type Stat struct {
	Czxid          int64 // of the transaction that created the node
	Mzxid          int64 // of the transaction that changed its data last
	Pzxid          int64 // of the transaction that changed its children last
	Ctime          int64 // when it was created, in ms since 1970, by the server's clock
	Mtime          int64 // when its data was changed last
	Version        int32 // counts changes of its data
	Cversion       int32 // counts changes of its children
	Aversion       int32 // counts changes of its ACL
	EphemeralOwner int64 // the session that owns an ephemeral node; 0 for other nodes
	DataLength     int32
	NumChildren    int32
}

func statOf(s *wire.Stat) *Stat {
	stat := Stat(*s)
	if stat.EphemeralOwner == math.MinInt64 {
		stat.EphemeralOwner = 0 // a container: ClickHouse Keeper shows an owner that ZooKeeper hides
	}
	return &stat
}

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
// nothing to others. If the creator has no credentials, creation fails with [ErrInvalidACL].
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

// anonymous reports whether an ACL, or the session's if it is nil, is that of the creator, and the
// session has no credentials.
func (o *Options) anonymous(acl []ACL) bool {
	if acl == nil {
		acl = o.ACL
	}
	certified := o.TLS != nil && (len(o.TLS.Certificates) > 0 || o.TLS.GetClientCertificate != nil)
	return len(o.Auth) == 0 && o.SASL == nil && !certified &&
		slices.ContainsFunc(acl, func(a ACL) bool { return a.Scheme == "auth" })
}

// explaining returns a function that answers with an explained error if the ACL is anonymous.
func explaining[T any](s *Session, acl []ACL, answer func(T, error)) func(T, error) {
	if !s.opts.anonymous(acl) {
		return answer
	}
	return func(result T, err error) { answer(result, explained(err)) }
}

// explained adds to the refusal of an anonymous ACL what the server does not say.
func explained(err error) error {
	if !isAny(err, ErrInvalidACL) {
		return err
	}
	return because(err, "the scheme auth stands for the credentials of the session, and it has none (Options.Auth)")
}

func wireACL(acl []ACL) []wire.ACL {
	all := make([]wire.ACL, len(acl))
	for i, a := range acl {
		all[i] = wire.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return all
}
