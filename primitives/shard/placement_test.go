package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

// fewest returns by how few moves each peer can have its share, rounded up or down. Shards without
// an owner do not count: they have to go anyway.
func fewest(c Cluster) int {
	n, total := len(c.Owners), 0
	for _, p := range c.Peers {
		total += p.Weight
	}
	held := make([]int, len(c.Peers))
	for _, o := range c.Owners {
		if o >= 0 {
			held[o]++
		}
	}
	if total == 0 {
		return n - countOf(c.Owners, -1)
	}
	kept, spare, room := 0, 0, n
	for i, p := range c.Peers {
		least := n * p.Weight / total
		room -= least
		kept += min(held[i], least)
		if n*p.Weight%total > 0 && held[i] > least {
			spare++ // it keeps one more if it is rounded up
		}
	}
	return n - countOf(c.Owners, -1) - kept - min(spare, room)
}

func countOf(all []int, v int) (n int) {
	for _, x := range all {
		if x == v {
			n++
		}
	}
	return n
}

// TestBalanced: at random, the shares are even, and no placement that is even moves fewer shards.
func TestBalanced(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for range hasten.Sized(20_000, 3_000) {
		c := Cluster{}
		for i := range 1 + r.IntN(7) {
			c.Peers = append(c.Peers, Peer{ID: fmt.Sprint(i), Weight: r.IntN(4)})
		}
		for range 1 + r.IntN(40) {
			c.Owners = append(c.Owners, r.IntN(len(c.Peers)+1)-1)
			c.Former = append(c.Former, r.IntN(len(c.Peers)+1)-1)
		}
		got, err := Placement(Balanced).placed(c)
		check.Must(t, err)
		moves, n, total := 0, len(got), 0
		for shard, o := range got {
			if c.Owners[shard] >= 0 && c.Owners[shard] != o {
				moves++
			}
		}
		for _, p := range c.Peers {
			total += p.Weight
		}
		for i, p := range c.Peers {
			has := countOf(got, i)
			check.False(t, total > 0 && (has < n*p.Weight/total || has > (n*p.Weight+total-1)/total), "peer %d has %d of %d: %+v", i, has, n, c)
		}
		check.Equal(t, countOf(got, -1), map[bool]int{true: n}[total == 0])
		check.Equal(t, moves, fewest(c), fmt.Sprintf("moves of %+v: %v", c, got))
		again, err := Placement(Balanced).placed(Cluster{c.Peers, got, c.Former})
		check.Must(t, err)
		check.EqualSlices(t, again, got)
	}
}

// TestBalancedWithin: at random, with limits, no peer has more than it can have, a shard is without
// an owner only if all peers are full, and a placement that is placed again moves nothing.
func TestBalancedWithin(t *testing.T) {
	again := func(c Cluster) {
		got, err := Placement(Balanced).placed(c)
		check.Must(t, err)
		full := true
		for i, p := range c.Peers {
			has := countOf(got, i)
			check.False(t, p.Most > 0 && has > p.Most, "peer %d has %d: %+v", i, has, c)
			full = full && (p.Weight == 0 || p.Most > 0 && has == p.Most)
		}
		check.True(t, full || countOf(got, -1) == 0, "without an owner, while there is room: %v of %+v", got, c)
		next, err := Placement(Balanced).placed(Cluster{c.Peers, got, c.Former})
		check.Must(t, err)
		check.EqualSlices(t, next, got, fmt.Sprintf("%+v", c))
	}
	none := []int{-1, -1, -1, -1, -1, -1}
	again(Cluster{[]Peer{{Weight: 2}, {Weight: 2}, {Weight: 3, Most: 6}, {Weight: 5, Most: 2}}, []int{0, 3, 0, 3, 0, 3}, none})
	r := rand.New(rand.NewPCG(4, 2))
	for range hasten.Sized(300_000, 30_000) {
		c := Cluster{}
		for i := range 1 + r.IntN(6) {
			c.Peers = append(c.Peers, Peer{ID: fmt.Sprint(i), Weight: r.IntN(6), Most: max(0, r.IntN(12)-3)})
		}
		for range 1 + r.IntN(20) {
			c.Owners = append(c.Owners, r.IntN(len(c.Peers)+1)-1)
			c.Former = append(c.Former, r.IntN(len(c.Peers)+1)-1)
		}
		again(c)
	}
}

// TestBack: whichever member goes and comes back while the others stay, it gets its shards back.
func TestBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		peers := []Peer{}
		for i := range 2 + r.IntN(6) {
			peers = append(peers, Peer{ID: string(rune('a' + i)), Weight: 1 + r.IntN(3)})
		}
		p, err := newPlan(1+r.IntN(60)).with(peers, Balanced)
		check.Must(t, err)
		for range 3 {
			gone := r.IntN(len(peers))
			less, err := p.with(slices.Delete(slices.Clone(peers), gone, gone+1), Balanced)
			check.Must(t, err)
			back, err := less.with(peers, Balanced)
			check.Must(t, err)
			had, has, same := 0, 0, 0
			for shard := range p.shards {
				was, is := p.owners[shard] == gone, back.owners[shard] == gone
				if was {
					had++
				}
				if is {
					has++
				}
				if was && is {
					same++
				}
			}
			check.Equal(t, same, min(had, has), fmt.Sprintf("of %d shards it has %d back, and %d in all", had, same, has))
			p = back
		}
	}
}

// TestGhosts: who never comes back does not keep another, who has stood in since, from its shards.
func TestGhosts(t *testing.T) {
	all := func(ids string) (peers []Peer) {
		for _, id := range ids {
			peers = append(peers, Peer{ID: string(id), Weight: 1})
		}
		return peers
	}
	p := newPlan(12)
	own := func(ids string) (owned [][]int) {
		var err error
		p, err = p.with(all(ids), Balanced)
		check.Must(t, err)
		owned = make([][]int, len(p.peers))
		for shard, o := range p.owners {
			owned[o] = append(owned[o], shard)
		}
		return owned
	}
	own("ab")
	own("b") // a has left for ever
	before := own("bc")
	own("c")
	check.Equal(t, fmt.Sprint(own("bc")), fmt.Sprint(before))
	own("c")
	own("d") // c has stood in for b
	own("c")
	check.Equal(t, fmt.Sprint(own("bc")), fmt.Sprint(before))
	for range 20 { // the memory is bounded
		own("b")
		own("x")
		own("y")
		own("z")
	}
	for shard := range p.shards {
		check.True(t, len(p.former[shard]) <= mostFormer, "%v", p.former[shard])
	}
}

// TestNoPeers: without peers no shard has an owner.
func TestNoPeers(t *testing.T) {
	check.EqualSlices(t, Balanced(Cluster{Owners: []int{-1, -1}, Former: []int{-1, -1}}), []int{-1, -1})
}

// TestBadPlacements are refused.
func TestBadPlacements(t *testing.T) {
	c := Cluster{Peers: []Peer{{ID: "a", Weight: 1}}, Owners: []int{-1}, Former: []int{-1}}
	for _, bad := range [][]int{nil, {0, 0}, {1}, {-2}} {
		_, err := Placement(func(Cluster) []int { return bad }).placed(c)
		check.True(t, err != nil, "%v", bad)
	}
	_, err := Placement(func(c Cluster) []int {
		c.Owners[0], c.Former[0], c.Peers[0].ID = 7, 7, "x" // it has copies
		return []int{0}
	}).placed(c)
	check.True(t, err == nil && c.Owners[0] == -1 && c.Peers[0].ID == "a", "%v, %+v", err, c)
}
