package discovery

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

func instancesOf(ids ...string) (all []Instance) {
	for _, id := range ids {
		all = append(all, Instance{Service: "app", ID: id})
	}
	return all
}

// A chooser plays with a ledger.
type chooser struct {
	ledger
	now time.Duration
}

func (c *chooser) pick(s Strategy) string {
	p := c.pool(c.now, rand.Uint64())
	id := p.Instances[s(p)].ID
	c.picked(id)
	return id
}

func (c *chooser) count(s Strategy, n int) map[string]int {
	count := make(map[string]int)
	for range n {
		count[c.pick(s)]++
	}
	return count
}

func choosing(ids ...string) *chooser {
	c := &chooser{newLedger(2, 30*time.Second, rand.Uint64()), time.Hour}
	c.keep(instancesOf(ids...))
	return c
}

func TestRoundRobin(t *testing.T) {
	c := choosing("a", "b", "c")
	check.EqualMaps(t, c.count(RoundRobin, 30), map[string]int{"a": 10, "b": 10, "c": 10})
	c.keep(c.all[:1])
	check.EqualMaps(t, c.count(RoundRobin, 5), map[string]int{"a": 5})
}

func TestRandom(t *testing.T) {
	got := choosing("a", "b").count(Random, 1000)
	check.True(t, got["a"] > 300 && got["b"] > 300, "%v", got)
}

func TestSticky(t *testing.T) {
	c := choosing("a", "b", "c")
	first := c.pick(Sticky)
	check.EqualMaps(t, c.count(Sticky, 20), map[string]int{first: 20})
	c.all[0].Disabled, c.all[1].Disabled, c.all[2].Disabled = first == "a", first == "b", first == "c"
	c.keep(c.all)
	second := c.pick(Sticky)
	check.True(t, second != first, "it is disabled")
	c.keep(instancesOf("a", "b", "c"))
	check.EqualMaps(t, c.count(Sticky, 20), map[string]int{second: 20})
}

func TestLeastUsed(t *testing.T) {
	c := choosing("a", "b", "c")
	for range 9 {
		c.use(c.pick(LeastUsed))
	}
	check.EqualMaps(t, c.uses, map[string]int{"a": 3, "b": 3, "c": 3})
	c.end("b")
	check.Equal(t, c.pick(LeastUsed), "b")
	c.use("b")
	check.True(t, len(c.count(LeastUsed, 9)) == 3, "equals come one after the other")
	for id := range c.uses {
		for range 3 {
			c.end(id)
		}
	}
	check.True(t, len(c.uses) == 0, "%v", c.uses)
}

// TestLeftOut: an instance that fails twice within the window is left out, and comes back.
func TestLeftOut(t *testing.T) {
	c := choosing("a", "b")
	out := func(want ...string) {
		t.Helper()
		for _, i := range c.all {
			is := false
			for _, id := range want {
				is = is || id == i.ID
			}
			check.Equal(t, c.isOut(i.ID, c.now), is, i.ID)
		}
	}
	c.fail("a", c.now)
	out()
	c.now += 30 * time.Second
	c.fail("a", c.now) // the first does not count any more
	out()
	c.now += 29 * time.Second
	c.fail("a", c.now)
	out("a")
	check.EqualMaps(t, c.count(RoundRobin, 4), map[string]int{"b": 4})
	c.now += 20 * time.Second
	c.fail("a", c.now) // began before
	c.now += 10*time.Second - 1
	out("a")
	c.now++
	out()
	c.fail("a", c.now) // counts anew
	out()
	c.fail("a", c.now)
	c.fail("b", c.now)
	c.fail("b", c.now)
	out("a", "b")
	check.EqualMaps(t, c.count(RoundRobin, 4), map[string]int{"a": 2, "b": 2}) // none is better
	c.keep(c.all[1:])
	out("b") // another instance with that ID begins anew
	c.limit = 0
	c.keep(nil)
	for range 5 {
		c.fail("a", c.now)
	}
	out()
}

// TestSliding: whichever failures come within the window count.
func TestSliding(t *testing.T) {
	c := choosing("a", "b")
	c.limit, c.window = 3, 30*time.Second
	for _, at := range []time.Duration{0, 29, 31} {
		c.fail("a", at*time.Second)
		check.False(t, c.isOut("a", at*time.Second), "at %d s", at)
	}
	c.fail("a", 32*time.Second)
	check.True(t, c.isOut("a", 32*time.Second) && !c.isOut("a", 62*time.Second), "%+v", c.failures)
}

// TestPools: no strategy ever leaves its pool.
func TestPools(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	strategies := []Strategy{RoundRobin, Random, Sticky, LeastUsed}
	for range 500 {
		c := choosing()
		var all []Instance
		for i := range 1 + r.IntN(6) {
			all = append(all, Instance{ID: fmt.Sprint(i), Disabled: i > 0 && r.IntN(3) == 0})
		}
		c.keep(all)
		for range 40 {
			c.now += time.Duration(r.Int64N(int64(10 * time.Second)))
			id := c.pick(strategies[r.IntN(len(strategies))])
			for _, i := range c.all {
				check.False(t, i.ID == id && i.Disabled, "picked %s, which is disabled", id)
			}
			c.use(id)
			if r.IntN(2) == 0 {
				c.end(id)
			}
			if r.IntN(3) == 0 {
				c.fail(id, c.now)
			}
		}
	}
}
