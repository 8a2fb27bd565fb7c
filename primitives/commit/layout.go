package commit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// A record is the content of a transaction's node. It is not modified.
type record = nodes.Transaction[Mode, Outcome]

// overdue returns the time after which a coordinator must have decided. Its summands may be as long
// as a [time.Duration] can be.
func overdue(r *record) time.Duration {
	return r.Deadline + min(r.TakeoverAfter, math.MaxInt64-r.Deadline)
}

func decode(id string, data []byte) (*record, error) {
	r, err := nodes.ParseTransaction[Mode, Outcome](id, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", nodes.ForeignData(data), err)
	}
	return r, nil
}

// A ballot is the state of a site, as the name of its node says.
type ballot struct {
	vote Vote
	data bool // the node has the vote's data
}

// name returns the name of the node for the site.
func (b ballot) name(site string) string {
	switch b {
	case ballot{Yes, false}:
		return nodes.VotedYes + site
	case ballot{Yes, true}:
		return nodes.VotedYesWithData + site
	case ballot{No, false}:
		return nodes.VotedNo + site
	case ballot{No, true}:
		return nodes.VotedNoWithData + site
	}
	return nodes.Unvoted + site
}

// ballots are the contents of a list of a transaction's ballots.
type ballots struct {
	of           map[string]ballot // by site; a site that is not in it has finished
	coordinators int
}

func parse(names []string) ballots {
	b := ballots{of: make(map[string]ballot, len(names))}
	for _, name := range names {
		switch kind, site := nodes.ParseBallot(name); kind {
		case nodes.Unvoted:
			b.of[site] = ballot{}
		case nodes.VotedYes, nodes.VotedYesWithData:
			b.of[site] = ballot{Yes, kind == nodes.VotedYesWithData}
		case nodes.VotedNo, nodes.VotedNoWithData:
			b.of[site] = ballot{No, kind == nodes.VotedNoWithData}
		case nodes.CoordinatorPrefix:
			b.coordinators++
		}
	}
	return b
}

// has reports whether a site has a ballot, which it deletes when it finishes.
func (b ballots) has(site string) bool { _, there := b.of[site]; return there }

// transactions returns the ids among the names below the parent, in order.
func transactions(names []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "_") })
	slices.Sort(names)
	return names
}

// A place has the paths of the nodes of one transaction.
type place struct{ parent, id, guid string }

func (p place) record() string            { return znode.Join(p.parent, p.id) }
func (p place) dir() string               { return znode.Join(p.record(), p.guid) }
func (p place) ballot(name string) string { return znode.Join(p.dir(), name) }

// presenceNode returns the node that shows the presence of a site.
func presenceNode(parent, site string) string {
	return znode.Join(znode.Join(parent, nodes.Sites), site)
}

// beginOps returns the ZooKeeper transaction that begins a transaction, with the coordinator's
// ballot.
func (p place) beginOps(r *record, coordinator string) []session.Op {
	ops := []session.Op{
		session.CreateOp(p.record(), r.Bytes(), session.Persistent),
		session.CreateOp(p.dir(), nil, session.Persistent),
		session.CreateOp(p.ballot(coordinator), nil, session.Ephemeral),
	}
	for _, site := range r.Sites {
		ops = append(ops, session.CreateOp(p.ballot(nodes.Unvoted+site), nil, session.Persistent))
	}
	return ops
}

// voteOps returns the transaction that replaces the site's ballot by its vote.
func (p place) voteOps(site string, b ballot, data []byte) []session.Op {
	return []session.Op{
		session.DeleteOp(p.ballot(nodes.Unvoted+site), 0),
		session.CreateOp(p.ballot(b.name(site)), data, session.Persistent),
	}
}

// decideOps returns the transaction that records the outcome, once. The operations after the first
// decidingOps fail it unless the votes on which the verdict rests are there.
func (p place) decideOps(r *record, v verdict) []session.Op {
	ops := []session.Op{
		session.CheckOp(p.dir(), session.AnyVersion),
		session.SetOp(p.record(), r.With(v.Outcome).Bytes(), 0),
	}
	if v.votes != "" {
		for name := range strings.SplitSeq(v.votes, "/") {
			ops = append(ops, session.CheckOp(p.ballot(name), session.AnyVersion))
		}
	}
	return ops
}

const decidingOps = 2

// finishOps returns the transaction that deletes a ballot. The result of its last operation has the
// number of ballots that are left. A site's transaction begins with decidedOp.
func (p place) finishOps(name string) []session.Op {
	return []session.Op{
		session.DeleteOp(p.ballot(name), session.AnyVersion),
		session.SetOp(p.dir(), nil, session.AnyVersion),
	}
}

// decidedOp fails the transaction unless the record has the version at which an outcome was read:
// servers may have come back with older data.
func (p place) decidedOp(version int32) session.Op { return session.CheckOp(p.record(), version) }

// removeOps returns the transaction that removes the rest, unless there is a ballot. The record is
// kept if kept is not nil.
func (p place) removeOps(kept *record) []session.Op {
	ops := []session.Op{
		session.DeleteOp(p.dir(), session.AnyVersion),
		session.DeleteOp(p.record(), session.AnyVersion),
	}
	if kept != nil {
		node := znode.Join(znode.Join(p.parent, nodes.TransactionRecords), p.id+"-"+p.guid)
		ops = append(ops, session.CreateOp(node, kept.Bytes(), session.Persistent))
	}
	return ops
}
