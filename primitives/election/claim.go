package election

import (
	"errors"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file has the claims of leadership in the standard layout, as pure rules for package claim.
// Two candidates never lead at once, because of the following. heir.go has a claim that follows the
// election.
//
//   - The leader's node is created only if there is none, in one transaction with a check of the
//     candidate's own node. The transaction also writes to the leader's node, which returns the
//     zxid.
//   - Only the successor that the leader's node names replaces it. The transaction deletes the node
//     and the guard of the candidate that has handed over. Both have unique names and can be
//     deleted only once, so a candidate that acts on an older view changes nothing.
//   - A candidate that gives up deletes its own node and its guard. It deletes the leader's node
//     only if that names the candidate.
//
// An operator may delete the leader's node. So each leader also has a guard: a node with a unique
// name, which makes all other claims fail.
//
//   - The guard of the first in line is its own node: no other candidate is first while that
//     stands.
//   - A successor may stand anywhere in line. It creates its guard under "successors", in the
//     transaction of its claim. The claim of the first in line deletes that directory, which has to
//     be empty. If there is no directory, the claim creates and deletes it, so that no read is
//     needed before (docs/adr/0037). A candidate that may not delete it trusts its newest list.

// A bid is one candidate's claim of leadership. It is comparable.
type bid struct {
	dir        string // the directory of the candidates
	leader     string // the path of the leader's node
	successors string // the path of the directory of the guards
	record     record // the candidate's record, to be written

	stands   incumbent // the node at the leader's path, by the newest look
	from     string    // the guard of the leader that hands over, if yielded; else ""
	version  int32     // of the leader's node
	directed bool      // there is a directory of successors, by the newest look
	trusting bool      // set when the directory may not be deleted

	// Set when it was handed over to the candidate, which may not be the first in line.
	promoted bool
}

// errUndirected means that a successor's claim was refused because there is no directory for its
// guard.
var errUndirected = errors.New("there is no directory of successors")

// An incumbent is the kind of node at the leader's path that a claim replaces.
type incumbent int8

const (
	nothing   incumbent = iota
	yielded             // the node of a leader that hands over to the candidate
	ownerless           // a node that no session owns
)

// succeeding returns the claim of a leader's successor. The leader's node has the record and the
// version.
func (b bid) succeeding(leader record, version int32) bid {
	b.stands, b.from, b.version, b.promoted = yielded, b.guardOf(leader), version, true
	b.record.Succeeds = true
	return b
}

// guard returns the path that the candidate's guard has when it leads.
func (b bid) guard() string { return b.guardOf(b.record) }

func (b bid) guardOf(leader record) string {
	if leader.Succeeds {
		return znode.Join(b.successors, leader.Node)
	}
	return znode.Join(b.dir, leader.Node)
}

// Take implements [claim.Spec]. The check comes first: without our node there is no claim. The
// write comes last: its Stat has the zxid, which is the term.
func (b bid) Take() []session.Op {
	ops := []session.Op{session.CheckOp(znode.Join(b.dir, b.record.Node), session.AnyVersion)}
	if b.stands == yielded {
		ops = append(ops, session.DeleteOp(b.from, session.AnyVersion))
		if _, node := znode.Split(b.from); b.from != znode.Join(b.dir, node) {
			ops = append(ops, session.DeleteOp(znode.Join(b.dir, node), session.AnyVersion))
		}
	}
	if b.stands != nothing {
		ops = append(ops, session.DeleteOp(b.leader, b.version))
	}
	data := b.record.Bytes()
	ops = append(ops, session.CreateOp(b.leader, data, session.Ephemeral))
	switch {
	case b.record.Succeeds:
		ops = append(ops, session.CreateOp(b.guard(), nil, session.Ephemeral))
	case b.trusting:
	case b.directed:
		ops = append(ops, session.DeleteOp(b.successors, session.AnyVersion))
	default:
		ops = append(ops, session.CreateOp(b.successors, nil, session.Persistent), session.DeleteOp(b.successors, session.AnyVersion))
	}
	return append(ops, session.SetOp(b.leader, data, 0))
}

// Refused implements [claim.Spec]. If a leader's node is in the way, it is read, because the reply
// to an earlier claim of ours may have been lost. A node with children belongs to another recipe.
// The successors are listed with the line.
func (b bid) Refused(op int, err error) (bid, claim.Verdict) {
	path := ""
	if op >= 0 {
		path = b.Take()[op].Path()
	}
	switch {
	case path == b.successors && errors.Is(err, session.ErrNotEmpty):
		return b, claim.Verdict{Err: err}
	case path == b.successors && errors.Is(err, session.ErrNoAuth):
		b.trusting = true
		return b, claim.Verdict{Next: claim.Take}
	case path == b.successors && errors.Is(err, session.ErrNodeExists), path == b.successors && isNoNode(err):
		b.directed = !b.directed
		return b, claim.Verdict{Next: claim.Take}
	case b.record.Succeeds && path == b.guard() && isNoNode(err):
		return b, claim.Verdict{Err: errUndirected}
	case errors.Is(err, session.ErrNotEmpty):
		return b, claim.Verdict{Err: ErrNotElection}
	case errors.Is(err, session.ErrNodeExists):
		return b, claim.Verdict{Next: claim.Look}
	case !errors.Is(err, session.ErrBadVersion) && (op <= 0 || !isNoNode(err)):
		return b, claim.Verdict{Err: err}
	// another candidate was faster, or the leader that hands over is gone with its nodes
	case b.stands == yielded:
		return b, claim.Verdict{Taken: true}
	case b.stands == nothing && isNoNode(err):
		return b, claim.Verdict{Err: err}
	}
	return b, claim.Verdict{Next: claim.Look}
}

// Evidence implements [claim.Spec]: the leader's node names the leader.
func (b bid) Evidence() []string { return []string{b.leader} }

// Judge implements [claim.Spec]. A record that names us is our claim. A record that names us as the
// successor is replaced, and so is a node without an owner. Any other record belongs to a leader.
func (b bid) Judge(found []claim.Found) (bid, claim.Verdict) {
	f := found[0]
	b.stands, b.from, b.version, b.record.Succeeds = nothing, "", 0, false
	switch {
	// the record of the leader that has handed over is gone, so the line decides
	case b.promoted && (isNoNode(f.Err) || f.Err == nil && f.Stat.EphemeralOwner == 0):
		return b, claim.Verdict{Taken: true}
	case isNoNode(f.Err):
		return b, claim.Verdict{Next: claim.Take}
	// the read is repeated
	case errors.Is(f.Err, session.ErrDisconnected):
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
		b.record.Succeeds = r.Succeeds
		return b, claim.Verdict{Zxid: f.Stat.Czxid, Version: f.Stat.Version}
	case r.Successor == b.record.Node:
		return b.succeeding(r, f.Stat.Version), claim.Verdict{Next: claim.Take}
	}
	return b, claim.Verdict{Taken: true}
}

// Resign implements [claim.Spec]. The leader's node is deleted at the version of our last write, so
// another leader's node is not deleted. If it has the same version by chance, the next deletion
// fails. It comes first, so that the heir hears of it first.
func (b bid) Resign(c claim.Claim) []session.Op {
	ops := []session.Op{session.DeleteOp(b.leader, c.Version), session.DeleteOp(znode.Join(b.dir, c.Node), session.AnyVersion)}
	if b.record.Succeeds {
		ops = append(ops, session.DeleteOp(b.guard(), session.AnyVersion))
	}
	return ops
}

// Remove implements [claim.Spec].
func (b bid) Remove(node, prefix string, c claim.Claim, claimed bool) session.Removal {
	in := func(dir string, then *session.Removal) session.Removal {
		if node == "" {
			return session.Removal{Path: dir, Prefix: prefix, Then: then}
		}
		return session.Removal{Path: znode.Join(dir, node), Then: then}
	}
	if !claimed {
		return in(b.dir, nil)
	}
	guard := in(b.successors, &session.Removal{
		Path: b.leader,
		Is:   func(stat *session.Stat) bool { return isClaim(c, stat) },
		Says: func(data []byte) bool { return saysClaim(c, node, prefix, data) },
	})
	return in(b.dir, &guard)
}

// isClaim and saysClaim report whether the leader's node belongs to the claim that is given up. If
// the czxid of the claim is known, it decides, whatever the data is; otherwise the data decides.
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
