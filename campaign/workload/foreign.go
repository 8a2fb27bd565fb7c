package workload

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
)

// This file has the recipes in the formats of other libraries. The name of such a recipe is that of
// ours and that of the format: it has the same promises.

// marksOf returns the nodes of several recipes.
func marksOf(recipes ...string) map[string]string {
	nodes := make(map[string]string)
	for _, recipe := range recipes {
		maps.Copy(nodes, marks(recipe))
	}
	return nodes
}

// foreignLocks has contenders for locks in the layouts of Curator and of kazoo: for those of one
// kind, and for those of readers and writers.
func foreignLocks() Workload {
	const dir = "/foreign-locks"
	layouts := []lock.Layout{lock.Curator, lock.Kazoo}
	nodes := marksOf("lock-curator", "lock-kazoo", "readwrite-curator", "readwrite-kazoo")
	return Workload{Name: "foreign-lock", Path: dir, Nodes: nodes, Run: func(c *Client) {
		for i, layout := range layouts {
			opts := &lock.Options{Data: c.data(), Layout: layout}
			c.loop(500*time.Millisecond, func(dice *rand.Rand) {
				name := "lock-" + layout.String()
				path := dir + "/" + name
				c.contend(dice, contest{recipe: name, path: path, long: longSecond(i), open: func() (Attempt, error) {
					l, err := lock.New(c.Session, path, opts)
					return c.lockAttempt(name, l, err)
				}})
			})
			c.loop(500*time.Millisecond, func(dice *rand.Rand) {
				name := "readwrite-" + layout.String()
				path := dir + "/" + name
				k := contest{recipe: name, path: path, open: func() (Attempt, error) {
					l, err := lock.NewWrite(c.Session, path, opts)
					return c.lockAttempt(name, l, err)
				}}
				if dice.IntN(3) > 0 {
					k.weight, k.limit = 1, manyReaders
					k.open = func() (Attempt, error) {
						l, err := lock.NewRead(c.Session, path, opts)
						return c.lockAttempt(name, l, err)
					}
				}
				c.contend(dice, k)
			})
		}
	}}
}

// foreignElections has an election in the layout of each of their recipes.
func foreignElections() Workload {
	const dir = "/foreign-elections"
	nodes := marksOf("election-curator", "election-kazoo", "election-curator-selector")
	return Workload{Name: "foreign-election", Path: dir, Nodes: nodes, Run: func(c *Client) {
		for _, layout := range []election.Layout{election.Curator, election.Kazoo, election.CuratorSelector} {
			name := "election-" + layout.String()
			c.candidate(name, dir+"/"+name, layout)
		}
	}}
}

// foreignQueues has a queue in the layout of each of the libraries.
func foreignQueues() Workload {
	const dir = "/foreign-queues"
	return Workload{Name: "foreign-queue", Path: dir, Run: func(c *Client) {
		for i, name := range []string{"queue-curator", "queue-kazoo"} {
			layout, path := []queue.Layout{queue.Curator, queue.Kazoo}[i], dir+"/"+name
			q, err := queue.NewFlat(c.Session, path, layout, nil)
			if err != nil {
				return
			}
			c.loop(500*time.Millisecond, func(*rand.Rand) { c.putAs(history.Operation{Recipe: name, Path: path}, q.Put) })
			c.loop(700*time.Millisecond, func(dice *rand.Rand) { c.take(dice, name, path, q) }) // some are left
			c.drain(name, path, q)
		}
	}}
}
