package zktest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A fault is an action on one request, or on one notification.
type fault struct {
	match Match
	what  verdict
	late  time.Duration // of a notification; 0 if the fault is for a request
	name  string
	taken bool // set when a request or a notification has it: then no other is hit by it
}

// A verdict decides on a request.
type verdict struct {
	drop  bool // the server never sees it
	mute  bool // its reply is lost
	cut   bool // the connection ends with it
	fail  code // it is not executed, but answered with this
	stall bool // it is executed when the next packet of its connection comes
	delay time.Duration
}

func dropRequest(m Match) fault {
	return fault{match: m, what: verdict{drop: true, cut: true}, name: "DropRequest"}
}

func dropReply(m Match) fault {
	return fault{match: m, what: verdict{mute: true, cut: true}, name: "DropReply"}
}

func delayed(m Match, d time.Duration) fault {
	return fault{match: m, what: verdict{delay: d}, name: "Delay"}
}

// A faultTable has the faults of a proxy, or of a server in memory, that have not hit. It is
// guarded by the lock of these.
type faultTable struct {
	open []*fault      // in the order in which they were asked for
	none chan struct{} // closed when no fault is open; nil if no caller waits
}

// add asks for a fault.
func (t *faultTable) add(f fault) { t.open = append(t.open, &f) }

// next takes the fault that hits a request, or returns nil.
func (t *faultTable) next(session int64, op Op, paths []string) *fault {
	return t.take(func(f *fault) bool { return f.late == 0 && f.match.matches(session, op, paths) })
}

// nextLate takes the fault that hits a notification, or returns nil.
func (t *faultTable) nextLate(session int64, path string) *fault {
	return t.take(func(f *fault) bool {
		return f.late > 0 && (f.match.Session == everySession || f.match.Session == session) && f.match.matchPath(path)
	})
}

func (t *faultTable) take(selected func(*fault) bool) *fault {
	for _, f := range t.open {
		switch {
		case f.taken, !selected(f):
		case f.match.Skip > 0:
			f.match.Skip--
		default:
			f.taken = true
			return f
		}
	}
	return nil
}

// settle enters that a fault has hit. It may be nil, or settled before.
func (t *faultTable) settle(f *fault) {
	i := slices.Index(t.open, f)
	if i < 0 {
		return
	}
	t.open = slices.Delete(t.open, i, i+1)
	if len(t.open) == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

// await waits until no fault is open. It fails after the timeout, or at the end.
func (t *faultTable) await(mu sync.Locker, timeout time.Duration, end <-chan struct{}) error {
	mu.Lock()
	if len(t.open) == 0 {
		mu.Unlock()
		return nil
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	none := t.none
	mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-none:
		return nil
	case <-timer.C:
	case <-end:
	}
	mu.Lock()
	defer mu.Unlock()
	if len(t.open) == 0 {
		return nil
	}
	f := t.open[0]
	return fmt.Errorf("zktest: %d faults have not hit within %v, the first is %s(%+v)", len(t.open), timeout, f.name, f.match)
}

// matches reports whether the request is selected, but for Skip.
func (m Match) matches(session int64, op Op, paths []string) bool {
	if m.Session != everySession && m.Session != session {
		return false
	}
	if m.Op != op && (m.Op != 0 || hasNoPlainMatch(op)) {
		return false
	}
	return m.Path == "" || slices.ContainsFunc(paths, m.matchPath)
}

// hasNoPlainMatch reports whether a Match must name op to select it.
func hasNoPlainMatch(op Op) bool {
	return op == OpSync || op == OpCheck || op == OpPing || op == OpCreateSession || op == OpCloseSession
}
