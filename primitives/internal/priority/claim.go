package priority

import (
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file has the claims of a lock with priorities, as pure rules for package claim:
//
//	none holds ────── a reader claims ───► readers hold ── the last one leaves ─┐
//	  │     ▲                                   │  ▲                            │
//	  │     └───────────────────────────────────┼──┼────────────────────────────┘
//	  │ a writer claims                         └──┘ another reader claims
//	  ▼
//	a writer holds ── it leaves, or turns into a reader ► none holds, or readers hold
//
// The node "holder" exists while a writer holds, and nodes below "readers" while readers hold. A
// claim fails in the states in which it is not drawn: a writer's deletes "readers", which has to be
// empty, and creates "holder"; a reader's creates "holder" and deletes it again.

// A bid is one contender's claim of the lock, a [claim.Spec]. It is comparable. The version of the
// path grows with every claim of a writer: while it is the version of a claim, no later writer
// holds.
type bid struct {
	path string
	node string // the name of the contender; "" for all with a prefix
	seen
}

// isReader reports whether the contender with the name is a reader. A writer that has become a
// reader has a reader's name.
func isReader(node string) bool {
	rank, _ := nodes.ParseRank(node)
	return rank.Kind == nodes.Read
}

func (b bid) own() string    { return znode.Join(b.path, b.node) }
func (b bid) holder() string { return znode.Join(b.path, holderNode) }
func (b bid) shared() string { return znode.Join(b.path, readersNode) }

// claimed returns the path of the contender's claim.
func (b bid) claimed() string {
	if isReader(b.node) {
		return znode.Join(b.shared(), b.node)
	}
	return b.holder()
}

// Take implements [claim.Spec]. A reader checks the version of the path, and a writer raises it: so
// no reader claims by a list that is older than a writer's claim. The reader's node is written to,
// because the answer to a write has the zxid.
func (b bid) Take() []session.Op {
	own := session.CheckOp(b.own(), session.AnyVersion)
	if isReader(b.node) {
		mine := b.claimed()
		return []session.Op{
			own, session.CheckOp(b.path, b.version),
			session.CreateOp(b.holder(), nil, session.Persistent), session.DeleteOp(b.holder(), session.AnyVersion),
			session.CreateOp(mine, nil, session.Ephemeral), session.SetOp(mine, nil, session.AnyVersion),
		}
	}
	ops := []session.Op{own, session.SetOp(b.path, []byte(marker+"\n"+b.node), b.version)}
	if !b.readers {
		ops = append(ops, session.CreateOp(b.shared(), nil, session.Persistent))
	}
	return append(ops, session.DeleteOp(b.shared(), session.AnyVersion), session.CreateOp(b.holder(), []byte(b.node), session.Ephemeral))
}

// Refused implements [claim.Spec]. The line is listed again.
func (b bid) Refused(_ int, err error) (bid, claim.Verdict) { return b, claim.Verdict{Err: err} }

// Evidence implements [claim.Spec].
func (b bid) Evidence() []string { return []string{b.path, b.claimed()} }

// Judge implements [claim.Spec]. It need not look for another contender's claim, which makes the
// transaction fail.
func (b bid) Judge(found []claim.Found) (bid, claim.Verdict) {
	path, mine := found[0], found[1]
	switch {
	case path.Err != nil:
		return b, claim.Verdict{Err: path.Err}
	case mine.Err == nil && (isReader(b.node) || string(mine.Data) == b.node):
		return b, claim.Verdict{Zxid: mine.Stat.Czxid, Version: path.Stat.Version}
	}
	if err := client.Without(mine.Err, session.ErrNoNode); err != nil {
		return b, claim.Verdict{Err: err}
	}
	return b, claim.Verdict{Next: claim.Take}
}

// Resign implements [claim.Spec]. All writers' claims have the same name. The version of the path
// proves that the claim is still ours, because it grows before another writer holds.
func (b bid) Resign(c claim.Claim) []session.Op {
	ops := []session.Op{session.DeleteOp(b.own(), session.AnyVersion), session.DeleteOp(b.claimed(), session.AnyVersion)}
	if isReader(b.node) {
		return ops
	}
	return append([]session.Op{session.CheckOp(b.path, c.Version)}, ops...)
}

// Remove implements [claim.Spec]. Contenders with a prefix may have claimed as reader or as writer,
// so both claims are removed.
func (b bid) Remove(node, prefix string, _ claim.Claim, claimed bool) session.Removal {
	r := session.Removal{Path: znode.Join(b.path, node)}
	if node == "" {
		r = session.Removal{Path: b.path, Prefix: prefix}
	}
	switch {
	case !claimed:
	case node == "":
		r.Then = &session.Removal{Path: b.shared(), Prefix: prefix, Then: b.unclaim(prefix)}
	default:
		r.Then = b.unclaim(node)
	}
	return r
}

// unclaim returns the removal of the claim of the contender whose name begins with node. The
// removal guards itself with the version of the path, which grows before another contender holds.
func (b bid) unclaim(node string) *session.Removal {
	if isReader(node) {
		return &session.Removal{Path: b.claimed()}
	}
	return &session.Removal{
		Path: b.holder(), Guard: b.path, Says: func(data []byte) bool { return strings.HasPrefix(string(data), node) },
	}
}
