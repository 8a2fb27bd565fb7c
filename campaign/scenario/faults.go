package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func cut(w *World) {
	victim := w.victim()
	if w.IntN(6) == 0 {
		victim = 0
	}
	w.disturb(fmt.Sprintf("cut %#x", victim))
	w.Server.Disconnect(victim)
}

func (w *World) freeze(dir zktest.Direction) {
	victim, d := w.victim(), w.While()
	w.disturb(fmt.Sprintf("freeze %#x, direction %d, for %v", victim, dir, d))
	w.stop(victim, dir, d, func() {})
}

func oneWay(w *World) {
	w.freeze([]zktest.Direction{zktest.ToServer, zktest.ToClient}[w.IntN(2)])
}

func freeze(w *World) { w.freeze(zktest.Both) }

// match selects one of the next requests of a process.
func (w *World) match() zktest.Match {
	ops := []zktest.Op{
		0, 0, zktest.OpMulti, zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpCreate, zktest.OpGetData, zktest.OpExists,
		zktest.OpGetChildren2, zktest.OpSetWatches, zktest.OpCreateContainer, zktest.OpSync, zktest.OpCheck,
	}
	return zktest.Match{Session: w.victim(), Op: ops[w.IntN(len(ops))], Skip: w.IntN(4)}
}

func loseRequest(w *World) {
	m := w.match()
	w.disturb(fmt.Sprintf("lose request %+v", m))
	if w.IntN(3) == 0 {
		w.Server.SwallowRequest(m)
	} else {
		w.Server.DropRequest(m)
	}
}

func loseReply(w *World) {
	m := w.match()
	w.disturb(fmt.Sprintf("lose reply %+v", m))
	if w.IntN(3) == 0 {
		w.Server.SwallowReply(m)
	} else {
		w.Server.DropReply(m)
	}
}

func lag(w *World) {
	switch w.IntN(4) {
	case 0:
		replica, d := w.IntN(3), w.UpTo(400*time.Millisecond)
		w.disturb(fmt.Sprintf("replica %d lags %v", replica, d))
		w.Server.SetLag(replica, d)
	case 1:
		cut(w) // it goes to another replica
	default:
		m, d := zktest.Match{Session: w.victim()}, w.UpTo(500*time.Millisecond)
		w.disturb(fmt.Sprintf("an event of %#x is late by %v", m.Session, d))
		w.Server.DelayEvent(m, d)
	}
}

func (w *World) isolate(replica int) {
	d := w.While()
	w.disturb(fmt.Sprintf("isolate replica %d for %v", replica, d))
	w.Server.Isolate(replica)
	w.Lasts(d, func() { w.Server.Heal(replica) })
}

func isolateFollower(w *World) { w.isolate(1 + w.IntN(2)) }

func isolateLeader(w *World) { w.isolate(0) }

func expire(w *World) {
	victim := w.victim()
	if victim == 0 {
		return
	}
	keep := time.Duration(0)
	if w.IntN(3) == 0 {
		keep = w.UpTo(time.Second)
	}
	w.Record.Fault(history.Fault{Kind: history.Expired, Session: victim, About: fmt.Sprintf("its nodes stay for %v", keep)})
	w.Server.KeepEphemerals(keep)
	w.Server.Expire(victim)
	w.Server.KeepEphemerals(0)
}

func outage(w *World) {
	d := w.While()
	w.disturb(fmt.Sprintf("no server for %v", d))
	w.Server.Refuse(true)
	w.Server.Disconnect(0)
	w.Lasts(d, func() { w.Server.Refuse(false) })
}

func throttle(w *World) {
	m, err := w.match(), []int32{-127, -7, -122}[w.IntN(3)]
	w.disturb(fmt.Sprintf("error %d for %+v", err, m))
	for range 1 + w.IntN(4) {
		w.Server.AnswerError(m, err)
	}
}

// remove deletes a node, and one time in eight all that is below a path.
func remove(w *World) {
	var all []string
	for _, path := range w.Server.Paths() {
		if slices.ContainsFunc(w.Paths, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		return
	}
	victim := all[w.IntN(len(all))]
	w.delete(victim)
	if w.IntN(8) == 0 {
		first, _, _ := strings.Cut(victim[1:], "/")
		for _, path := range slices.Backward(all) {
			if strings.HasPrefix(path, "/"+first+"/") {
				w.delete(path)
			}
		}
	}
}

func (w *World) delete(path string) {
	w.Record.Fault(history.Fault{Kind: history.Removed, Path: path})
	shortly(func(ctx context.Context) { _ = w.Operator.Delete(ctx, path, session.AnyVersion) }) // it may have children, or be gone
}

// shortly calls f with a second's time.
func shortly(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	f(ctx)
}

// restore brings back what the servers had some seconds ago, twice or three times.
func restore(w *World) {
	for {
		backup := w.Server.Backup()
		if !w.Rest(time.Second + w.UpTo(10*time.Second)) {
			return
		}
		w.Record.Fault(history.Fault{Kind: history.Restored})
		w.Server.Restore(backup)
		if !w.Rest(w.UpTo(10 * time.Second)) {
			return
		}
	}
}

// pause stops a process, and all that flows between it and the servers.
func pause(w *World) {
	i, d := w.IntN(w.Processes()), Timeout/2+w.UpTo(Timeout)
	victim := w.Session(i)
	if victim == 0 {
		return
	}
	w.disturb(fmt.Sprintf("process %d, with session %#x, stops for %v", i, victim, d))
	w.Pause(i)
	w.stop(victim, zktest.Both, d, func() { w.Resume(i) })
}

func delay(w *World) {
	m, d := w.match(), w.UpTo(700*time.Millisecond)
	w.disturb(fmt.Sprintf("delay %+v by %v", m, d))
	w.Server.Delay(m, d)
}

// overload has the operator write and read much, all at once.
func overload(w *World) {
	w.disturb("overload")
	w.Load(w.Operator, 50*time.Millisecond)
	each(500*time.Millisecond, delay)(w)
}

// restart kills a process, and starts it again before or after its session has timed out.
func restart(w *World) {
	i, d := w.IntN(w.Processes()), w.UpTo(2*time.Second)
	if w.IntN(4) == 0 {
		d = w.While()
	}
	if w.Session(i) == 0 {
		return
	}
	w.Kill(i)
	w.Lasts(d, func() { w.Start(i) })
}

// usedTrees brings directories to the age of years, when they are empty: the numbers of children
// are at the end of their range. In a directory with children that would be another fault: no
// contender stands while two thousand million others come. Strangers come and go meanwhile.
func usedTrees(w *World) {
	for w.Rest(w.UpTo(300 * time.Millisecond)) {
		var parents []string
		for _, path := range w.Server.Paths() {
			if slices.ContainsFunc(w.Paths, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) && strings.Count(path, "/") == 2 {
				parents = append(parents, path)
			}
		}
		if len(parents) == 0 {
			continue
		}
		parent := parents[w.IntN(len(parents))]
		if w.IntN(4) > 0 {
			all := w.Server.Paths()
			if slices.ContainsFunc(all, func(path string) bool { return strings.HasPrefix(path, parent+"/") }) {
				continue
			}
			w.disturb("numbers wrap at " + parent)
			_ = w.Server.SetCversion(parent, math.MaxInt32-int32(w.IntN(20))) // unless it is gone
			continue
		}
		w.disturb("a stranger at " + parent)
		stranger := parent + "/stranger"
		shortly(func(ctx context.Context) {
			_, _ = w.Operator.Create(ctx, stranger, []byte("?"), session.Ephemeral) // an ephemeral node has no children
		})
		w.Rest(w.UpTo(time.Second))
		shortly(func(ctx context.Context) { _ = w.Operator.Delete(ctx, stranger, session.AnyVersion) })
	}
}

// anything does one of the others.
func anything(w *World) {
	all := []func(w *World){
		cut, cut, oneWay, freeze, loseRequest, loseRequest, loseReply, loseReply, lag, lag, isolateFollower, isolateLeader, expire,
		outage, throttle, throttle, remove, pause, delay, delay, restart, restart,
	}
	all[w.IntN(len(all))](w)
}
