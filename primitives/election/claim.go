package election

import (
	"errors"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file claims leadership and gives it up in the standard layout, as the
// pure rules of package claim. What keeps two candidates from leading at once:
//
//   - The leader's node is created only where there is none, in one transaction with a check
//     that the candidate's own node exists. There it is set as well, which returns the zxid.
//   - Only the successor that the leader's node names replaces it, in one transaction that deletes
//     the node of the candidate that has handed over. That node has a name of its own, and is
//     deleted once: a candidate that acts on an older view changes nothing.
//   - A candidate that gives up deletes its own node, and the leader's node only if that
//     says that it is the candidate's.

// A bid is one candidate's claim of leadership. It is comparable.
type bid struct {
	dir    string // of the candidates
	leader string // the path of the leader's node
	record record // to write: that of the candidate

	stands  incumbent // what stands at the leader's path, by the newest look
	from    string    // the candidate that hands over, if it is yielded; else ""
	version int32     // of the leader's node
}

// An incumbent is the node that may stand at the leader's path, and be replaced.
type incumbent int8

const (
	nothing   incumbent = iota
	yielded             // the node of a leader that hands over to the candidate
	ownerless           // a node that no session owns
)

// Take implements [claim.Spec]. The check is first: without our node there is no
// claim. The set is last: its Stat has the zxid, which is the term.
func (b bid) Take() []session.Op {
	ops := []session.Op{session.CheckOp(znode.Join(b.dir, b.record.Node), session.AnyVersion)}
	if b.stands == yielded {
		ops = append(ops, session.DeleteOp(znode.Join(b.dir, b.from), session.AnyVersion))
	}
	if b.stands != nothing {
		ops = append(ops, session.DeleteOp(b.leader, b.version))
	}
	data := b.record.Bytes()
	return append(ops, session.CreateOp(b.leader, data, session.Ephemeral), session.SetOp(b.leader, data, 0))
}

// Refused implements [claim.Spec]. A leader's node that stands in the way is looked at,
// because the reply to an earlier claim of ours may have been lost. A node with
// children belongs to another recipe.
func (b bid) Refused(op int, err error) (bid, claim.Verdict) {
	switch {
	case errors.Is(err, session.ErrNotEmpty):
		return b, claim.Verdict{Err: ErrNotElection}
	case errors.Is(err, session.ErrNodeExists):
		return b, claim.Verdict{Next: claim.Look}
	case !errors.Is(err, session.ErrBadVersion) && (op <= 0 || !isNoNode(err)):
		return b, claim.Verdict{Err: err}
	case b.stands == yielded: // another candidate was quicker, or the one that hands over is gone with all of it
		return b, claim.Verdict{Taken: true}
	case b.stands == nothing && isNoNode(err):
		return b, claim.Verdict{Err: err}
	}
	return b, claim.Verdict{Next: claim.Look}
}

// Evidence implements [claim.Spec]: the leader's node says whose it is.
func (b bid) Evidence() []string { return []string{b.leader} }

// Judge implements [claim.Spec]. A record that names us is ours. One that names us as
// the successor is replaced, and so is a node that no session owns. Any other belongs
// to a leader.
func (b bid) Judge(found []claim.Found) (bid, claim.Verdict) {
	f := found[0]
	b.stands, b.from, b.version = nothing, "", 0
	switch {
	case isNoNode(f.Err):
		return b, claim.Verdict{Next: claim.Take}
	case errors.Is(f.Err, session.ErrDisconnected): // a read that is repeated, though it may not be the first
		return b, claim.Verdict{Next: claim.Look}
	case f.Err != nil:
		return b, claim.Verdict{Err: f.Err}
	}
	r := nodes.ParseLeader(f.Data)
	switch {
	case f.Stat.EphemeralOwner == 0:
		b.stands, b.version = ownerless, f.Stat.Version
		return b, claim.Verdict{Next: claim.Take}
	case r.Node == b.record.Node:
		return b, claim.Verdict{Zxid: f.Stat.Czxid, Version: f.Stat.Version}
	case r.Successor == b.record.Node:
		b.stands, b.from, b.version = yielded, r.Node, f.Stat.Version
		return b, claim.Verdict{Next: claim.Take}
	}
	return b, claim.Verdict{Taken: true}
}

// Resign implements [claim.Spec]. The version of the record is that of our last write:
// no other node at the path is deleted by it, unless it was written to as often, and
// the first deletion fails then.
func (b bid) Resign(c claim.Claim) []session.Op {
	return []session.Op{session.DeleteOp(znode.Join(b.dir, c.Node), session.AnyVersion), session.DeleteOp(b.leader, c.Version)}
}

// Remove implements [claim.Spec].
func (b bid) Remove(node, prefix string, c claim.Claim, claimed bool) session.Removal {
	nodes := session.Removal{Path: znode.Join(b.dir, node)}
	if node == "" {
		nodes = session.Removal{Path: b.dir, Prefix: prefix}
	}
	if claimed {
		nodes.Then = &session.Removal{
			Path: b.leader,
			Is:   func(stat *session.Stat) bool { return isClaim(c, stat) },
			Says: func(data []byte) bool { return saysClaim(c, node, prefix, data) },
		}
	}
	return nodes
}

// The leader's node is that of the claim that is given up by its czxid where that is
// known, whatever the node says; otherwise by what it says.
func isClaim(c claim.Claim, stat *session.Stat) bool {
	return stat.EphemeralOwner != 0 && (c.Zxid == 0 || stat.Czxid == c.Zxid)
}

func saysClaim(c claim.Claim, node, prefix string, data []byte) bool {
	leader := nodes.ParseLeader(data).Node
	switch {
	case c.Zxid != 0:
		return true
	case node != "":
		return leader == node
	}
	return strings.HasPrefix(leader, prefix)
}
