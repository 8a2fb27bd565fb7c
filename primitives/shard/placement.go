package shard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/session"
)

// A Peer is a member, as a [Placement] sees it.
type Peer struct {
	ID     string `json:"id"`
	Weight int    `json:"weight"`
	Zone   string `json:"zone,omitempty"`

	// Most is how many shards the peer can have: what its session has room for, if that is less
	// than all; 0 if there is no limit.
	Most int `json:"most,omitempty"`
}

// A Cluster is what a [Placement] places the shards by.
type Cluster struct {
	// Peers are those that are present, and have a weight, in the order of their IDs. There is at
	// least one.
	Peers []Peer

	// Owners has, by shard, the index of the peer that owns it, or is to own it, by the last
	// placement; -1 if there is none, or it is gone, or leaving.
	Owners []int

	// Former has, by shard, the index of the peer that had the shard when it went away, and is
	// back; -1 if there is none.
	Former []int
}

// A Placement returns, by shard, the index of the peer that is to own it; -1 for none. It must be a
// pure function, and the same in all members: each change is placed by a single one of them, any
// one. What it returns as it was stays where it is. If it panics, or calls [runtime.Goexit], or
// what it returns is no placement, another member may place the shards, and this one tries again;
// one that has had no place yet leaves with the error. While it does not return, all else goes on:
// the member gives its shards, after a minute also those of a [Member.Leave], and closes.
type Placement func(Cluster) []int

// Balanced is the default placement. Each peer gets a share of the shards in proportion to its
// weight, rounded up or down. As few shards move as that allows. A peer that is back gets the
// shards that it had before, among those that move to it, and a shard without an owner goes to the
// peer that lacks most. What is more than a peer can have goes to the others, and to none if they
// cannot have it either.
func Balanced(c Cluster) []int {
	owners := slices.Clone(c.Owners)
	held, own := make([]int, len(c.Peers)), make([]int, len(c.Peers)) // own: without those of a former owner
	for shard, o := range owners {
		if o < 0 {
			continue
		}
		held[o]++
		if f := c.Former[shard]; f < 0 || f == o {
			own[o]++
		}
	}
	share := capped(c.Peers, held, own, len(owners))

	// lacks is how many shards a peer is to get yet.
	lacks := make([]int, len(c.Peers))
	for i := range lacks {
		lacks[i] = share[i] - held[i]
	}
	move := func(shard, to int) {
		if from := owners[shard]; from >= 0 {
			lacks[from]++
		}
		owners[shard] = to
		if to >= 0 {
			lacks[to]--
		}
	}
	movable := func(shard int) bool { return owners[shard] < 0 || lacks[owners[shard]] < 0 }

	// First those that return to a former owner, then all others that have to move.
	for shard, former := range c.Former {
		if former >= 0 && former != owners[shard] && lacks[former] > 0 && movable(shard) {
			move(shard, former)
		}
	}
	needy := &needs{lacks: lacks, peers: c.Peers}
	for shard := range slices.Backward(owners) {
		if movable(shard) {
			move(shard, needy.next())
		}
	}
	return owners
}

// capped returns how many of n shards each peer is to have, of which some have a limit. A peer is
// full if its exact share is more than its limit. What is more goes to the others, of which some
// are full then, too. So it does not depend on the owners which peers are full, and the shares of
// the others are rounded once.
func capped(peers []Peer, held, own []int, n int) []int {
	rest := slices.Clone(peers)
	full := make([]int, len(peers))
	for over := true; over; {
		over = false
		all, total := int64(n), weightOf(rest)
		for i, p := range rest {
			if p.Most > 0 && all*int64(p.Weight) > int64(p.Most)*total {
				over, full[i], rest[i].Weight = true, p.Most, 0
				n -= p.Most
			}
		}
	}
	share := shares(rest, held, own, n)
	for i := range share {
		share[i] += full[i]
	}
	return share
}

func weightOf(peers []Peer) (total int64) {
	for _, p := range peers {
		total += int64(p.Weight)
	}
	return total
}

// shares returns how many of n shards each peer is to have. Of the peers whose shares are rounded,
// those that hold more are rounded up; of these first those that hold more of their own.
func shares(peers []Peer, held, own []int, n int) []int {
	share := make([]int, len(peers))
	total := weightOf(peers)
	if total == 0 {
		return share
	}
	remainder := make([]int64, len(peers))
	rest := n
	var rounded []int
	for i, p := range peers {
		all := int64(n) * int64(p.Weight)
		share[i], remainder[i] = int(all/total), all%total
		rest -= share[i]
		if remainder[i] > 0 {
			rounded = append(rounded, i)
		}
	}
	exceeds := func(have []int, i int) int { return max(0, min(1, have[i]-share[i])) }
	slices.SortStableFunc(rounded, func(a, b int) int {
		return cmp.Or(exceeds(held, b)-exceeds(held, a), exceeds(own, b)-exceeds(own, a), cmp.Compare(remainder[b], remainder[a]))
	})
	for _, i := range rounded[:rest] {
		share[i]++
	}
	return share
}

// needs finds the peer that lacks most, in relation to its weight.
type needs struct {
	lacks []int
	peers []Peer
	last  int // the peer that was found last: it gets all that it lacks, so that its shards adjoin
}

// next returns the peer that lacks most; -1 if none lacks any.
func (n *needs) next() int {
	if len(n.lacks) > 0 && n.lacks[n.last] > 0 {
		return n.last
	}
	most := -1
	for i, lack := range n.lacks {
		if lack > 0 && (most < 0 || int64(lack)*int64(n.peers[most].Weight) > int64(n.lacks[most])*int64(n.peers[i].Weight)) {
			most = i
		}
	}
	n.last = max(0, most)
	return most
}

// placed returns the placement, or an error if it is none. A peer without a weight gets no shards.
func (place Placement) placed(c Cluster) ([]int, error) {
	var in Cluster
	var index []int // in c, by index in in
	weighty := make([]int, len(c.Peers))
	for i, p := range c.Peers {
		if weighty[i] = -1; p.Weight > 0 {
			weighty[i] = len(index)
			index, in.Peers = append(index, i), append(in.Peers, p)
		}
	}
	only := func(all []int) []int {
		some := slices.Clone(all)
		for shard, i := range all {
			if i >= 0 {
				some[shard] = weighty[i]
			}
		}
		return some
	}
	if len(index) == 0 {
		return slices.Repeat([]int{-1}, len(c.Owners)), nil
	}
	in.Owners, in.Former = only(c.Owners), only(c.Former)
	owners := slices.Clone(place(in))
	if len(owners) != len(c.Owners) {
		return nil, fmt.Errorf("%w: Options.Placement: it has %d shards, not %d", session.ErrInvalidArgument, len(owners), len(c.Owners))
	}
	for shard, o := range owners {
		switch {
		case o < -1 || o >= len(index):
			return nil, fmt.Errorf("%w: Options.Placement: it has shard %d at peer %d of %d", session.ErrInvalidArgument, shard, o, len(index))
		case o >= 0:
			owners[shard] = index[o]
		}
	}
	return owners, nil
}
