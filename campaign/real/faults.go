package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// kill kills a server, and starts it again.
func (w *World) kill(i int) {
	if i < 0 {
		return
	}
	w.disturb("kill -9 of server %d", i)
	w.Ensemble.Kill(i)
	w.Rest(w.UpTo(4 * time.Second))
	w.restart(i)
}

func killLeader(w *World) { w.kill(w.leader()) }

func killFollower(w *World) { w.kill(w.follower()) }

func killAny(w *World) { w.kill(w.IntN(servers)) }

func killAll(w *World) {
	w.disturb("kill -9 of all servers")
	for i := range servers {
		w.Ensemble.Kill(i)
	}
	w.Rest(w.While())
	w.restart(0, 1, 2)
}

// freeze stops a server.
func (w *World) freeze(i int, d time.Duration) {
	if i < 0 {
		return
	}
	w.disturb("server %d is stopped for %v", i, d)
	w.Ensemble.Pause(i)
	w.Rest(d)
	w.Ensemble.Resume(i)
}

func freezeLeader(w *World) { w.freeze(w.leader(), 3*time.Second+w.UpTo(scenario.Timeout)) }

func freezeFollower(w *World) { w.freeze(w.follower(), w.While()) }

// become replaces the servers one after the other, the leader last.
func (w *World) become(version string) {
	leader := w.leader()
	for i := range servers {
		if w.err != nil || leader < 0 || !w.Rest(time.Second) {
			return
		}
		server := (leader + 1 + i) % servers
		w.disturb("server %d becomes one of %s", server, name(version))
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		if err := w.Ensemble.UpgradeContext(ctx, server, version); err != nil {
			w.fail(err)
		}
		cancel()
	}
}

func rollingRestart(w *World) {
	for w.err == nil && w.Rest(time.Second) {
		w.become(w.Version)
	}
}

func rollingUpgrade(w *World) {
	for w.err == nil && w.Rest(time.Second) {
		w.become(next(w.Version))
		w.become(w.Version)
	}
}

func cutClient(w *World) {
	p, i := w.proxy()
	w.disturb("the connections of process %d break", i)
	p.Disconnect(0)
}

// hush stops what flows between a process and the servers. That may overlap for one process.
func (w *World) hush(dir zktest.Direction, d time.Duration) {
	p, i := w.proxy()
	w.disturb("process %d and the servers are cut off, direction %d, for %v", i, dir, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[i].hushed++
	p.Freeze(0, dir)
	w.Lasts(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.members[i].hushed--; w.members[i].hushed == 0 {
			p.Thaw(0)
		}
	})
}

func oneWay(w *World) {
	w.hush([]zktest.Direction{zktest.ToServer, zktest.ToClient}[w.IntN(2)], w.While())
}

func silence(w *World) { w.hush(zktest.Both, scenario.Timeout+w.UpTo(scenario.Timeout)) }

// match selects one of the next requests.
func (w *World) match() zktest.Match {
	ops := []zktest.Op{0, 0, zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpCreate, zktest.OpGetData, zktest.OpGetChildren2, zktest.OpCheck}
	return zktest.Match{Op: ops[w.IntN(len(ops))], Skip: w.IntN(4)}
}

func loseRequest(w *World) {
	p, i := w.proxy()
	m := w.match()
	w.disturb("process %d loses request %+v", i, m)
	p.DropRequest(m)
}

func loseReply(w *World) {
	p, i := w.proxy()
	m := w.match()
	w.disturb("process %d loses reply %+v", i, m)
	p.DropReply(m)
}

func slowClient(w *World) {
	p, i := w.proxy()
	d := w.UpTo(400 * time.Millisecond)
	w.disturb("process %d is %v away", i, d)
	p.Latency(d)
	w.Lasts(w.While(), func() { p.Latency(0) })
}

// between cuts two servers, and heals them.
func (w *World) between(how string, d time.Duration, cut func(i, j int)) {
	i := w.IntN(servers)
	j := (i + 1 + w.IntN(servers-1)) % servers
	w.disturb("%s between servers %d and %d, for %v", how, i, j, d)
	cut(i, j)
	w.Rest(d)
	w.Ensemble.HealLink(i, j)
}

func cutLink(w *World) { w.between("cut", w.While(), w.Ensemble.CutLink) }

func cutLinkOneWay(w *World) { w.between("cut one way", w.While(), w.Ensemble.CutOneWay) }

func holdLink(w *World) { w.between("hold", w.UpTo(2*time.Second), w.Ensemble.HoldOneWay) }

// isolate cuts a server off from the others, in one way or another.
func (w *World) isolate(how string, i int, d time.Duration, cut func(i int)) {
	if i < 0 {
		return
	}
	w.disturb("server %d is %s for %v", i, how, d)
	cut(i)
	w.Rest(d)
	w.Ensemble.Heal()
}

func isolateFollower(w *World) { w.isolate("isolated", w.follower(), w.While(), w.Ensemble.Isolate) }

func isolateLeader(w *World) { w.isolate("isolated", w.leader(), w.While(), w.Ensemble.Isolate) }

func depose(w *World) {
	w.isolate("deposed", w.leader(), 2*time.Second+w.UpTo(2*scenario.Timeout), w.Ensemble.Depose)
}

func killClient(w *World) {
	i := w.IntN(w.Processes())
	w.disturb("kill -9 of process %d", i)
	w.Kill(i)
	w.Lasts(w.While(), func() { w.Start(i) })
}

func freezeClient(w *World) {
	i, d := w.IntN(w.Processes()), scenario.Timeout/2+w.UpTo(scenario.Timeout)
	w.disturb("process %d is stopped for %v", i, d)
	w.Pause(i)
	w.Lasts(d, func() { w.Resume(i) })
}

// remove deletes one of the nodes of the recipes, which is found by a walk from one of their paths.
func remove(w *World) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	node := w.Paths[w.IntN(len(w.Paths))]
	for depth := 0; ; depth++ {
		names, _, err := w.Operator.Children(ctx, node)
		if err != nil {
			return // it is gone
		}
		if len(names) == 0 || depth > 0 && w.IntN(4) == 0 {
			break
		}
		node += "/" + names[w.IntN(len(names))]
	}
	w.Record.Fault(history.Fault{Kind: history.Removed, Path: node})
	_ = w.Operator.Delete(ctx, node, session.AnyVersion) // it may have children, or be gone
}

// restore brings back what the servers had some seconds ago, again and again.
func restore(w *World) {
	for n := 0; w.err == nil; n++ {
		backup := filepath.Join(w.dir, "backup-"+strconv.Itoa(n))
		if err := w.backup(w.follower(), backup); err != nil {
			w.fail(err)
			return
		}
		if !w.Rest(time.Second + w.UpTo(10*time.Second)) {
			return
		}
		w.Record.Fault(history.Fault{Kind: history.Restored})
		for i := range servers {
			w.Ensemble.Kill(i)
		}
		if err := w.chronicle.restore(backup, w.Record.Moment()); err != nil {
			w.fail(err)
			return
		}
		w.restart(0, 1, 2)
		if !w.Rest(w.UpTo(10 * time.Second)) {
			return
		}
	}
}

// backup copies the data of a server, which is down meanwhile.
func (w *World) backup(server int, target string) error {
	w.disturb("server %d is down for a backup", server)
	w.Ensemble.Kill(server)
	err := os.CopyFS(target, os.DirFS(w.chronicle.data(server)))
	w.restart(server)
	if err != nil {
		return fmt.Errorf("a backup: %w", err)
	}
	return nil
}

// overload has the operator write and read much, all at once.
func overload(w *World) {
	w.disturb("overload")
	w.Load(w.Operator, 20*time.Millisecond)
	w.Await()
}

// anything does one of the others.
func anything(w *World) {
	all := []func(w *World){
		killLeader, killFollower, killAll, freezeLeader, freezeFollower, cutClient, oneWay, silence, loseRequest, loseReply, slowClient,
		cutLink, cutLinkOneWay, holdLink, isolateFollower, isolateLeader, depose, killClient, freezeClient, remove,
	}
	all[w.IntN(len(all))](w)
}
