package contention

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has what goes wrong.

var faultyOps = []zktest.Op{
	0, 0, zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpCreate, zktest.OpGetData, zktest.OpExists, zktest.OpGetChildren2,
	zktest.OpSetData, zktest.OpSetWatches, zktest.OpCreateContainer, zktest.OpRemoveWatches,
}

// fault begins one fault, and returns what ends it; nil if that happens by itself.
func (w *world) fault(dice dice) (end func()) {
	id := w.sessions[dice.IntN(sessions)].ID()
	match := zktest.Match{Session: id, Op: faultyOps[dice.IntN(len(faultyOps))], Skip: dice.IntN(6)}
	switch replica := dice.IntN(3); dice.IntN(14) {
	case 0:
		w.Disconnect(id)
	case 1, 2:
		w.DropReply(match)
	case 3:
		w.DropRequest(match)
	case 4:
		w.Freeze(id, zktest.Direction(dice.IntN(3)))
		return func() { w.Thaw(id) }
	case 5:
		lost := w.end(id)
		w.mu.Lock()
		*lost = true
		w.mu.Unlock()
		w.Expire(id)
	case 6, 7:
		for range 1 + dice.IntN(4) {
			w.AnswerError(match, []int32{-127, -7, -122}[dice.IntN(3)])
		}
	case 8:
		w.Delay(match, dice.upTo(800*time.Millisecond))
	case 9, 10:
		w.DelayEvent(zktest.Match{Session: id}, dice.upTo(400*time.Millisecond))
	case 11:
		w.Isolate(replica)
		return func() { w.Heal(replica) }
	case 12:
		w.SetLag(replica, dice.upTo(300*time.Millisecond))
	default:
		w.Refuse(true)
		return func() { w.Refuse(false) }
	}
	return nil
}

// strike has one thing go wrong after the other, and some at the same time.
func (w *world) strike(dice dice, over <-chan struct{}) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	for range 600 {
		select {
		case <-over:
			return
		case <-time.After(dice.upTo(100 * time.Millisecond)):
		}
		w.count("faults")
		if end := w.fault(dice); end != nil {
			d := dice.upTo(1500 * time.Millisecond)
			if dice.oneIn(8) { // longer than a session lives
				d += 8 * time.Second
			}
			lasting.Go(func() {
				<-time.After(d)
				end()
			})
		}
	}
}

// meddle deletes nodes, and now and then all below a path, but not what holders of locks with
// priorities have claimed: the documentation says to leave these alone.
func (w *world) meddle(dice dice, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(dice.upTo(200 * time.Millisecond)):
		}
		all := slices.DeleteFunc(w.Paths(), func(path string) bool {
			return strings.HasPrefix(path, "/marks") || path == "/" || strings.HasPrefix(path, "/zookeeper")
		})
		if len(all) == 0 {
			continue
		}
		node := all[dice.IntN(len(all))]
		if dice.oneIn(2) { // of which there are few
			node = fmt.Sprintf("/e%d/leader", dice.IntN(elections))
		}
		top, _, _ := strings.Cut(node[1:], "/")
		top = "/" + top
		w.mu.Lock()
		w.touched[top] = true
		w.mu.Unlock()
		w.remove(node)
		if dice.oneIn(6) {
			for _, path := range slices.Backward(w.Paths()) {
				if path == top || strings.HasPrefix(path, top+"/") {
					w.remove(path)
				}
			}
		}
	}
}

// remove deletes a node, if it is there and has no children.
func (w *world) remove(path string) {
	if strings.HasSuffix(path, "/holder") || strings.Contains(path, "/readers") {
		return
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if w.operator.Delete(ctx, path, session.AnyVersion) == nil {
		w.count("deletions")
	}
}
