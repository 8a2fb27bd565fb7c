package lock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file has the lock delay. A holder with a delay has a record, which its session does not own:
// a release deletes it in one transaction with the holder's node, and it stays when the session
// expires, or another client deletes the node. A contender that comes first and finds such a record
// marks it, which notes the time of the loss. It waits for the delay that the record names, and
// writes its own. One that comes first later marks the record again, which gives it the time, and
// waits for the rest.
//
//	            no record                     create
//	reading ──────────────────────────────────────────► ours
//	  ▲  │  of a node that is gone: mark, wait   replace │
//	  │  ├───────────────────────────────────────────────┤
//	  │  └── ours already, by an earlier try ────────────┘
//	  └───── another record meanwhile ──┘

// A delayed rule is that of locks, but the first in line writes its record before it holds.
type delayed struct{ line.First }

// Traits implements [line.Rule].
func (d delayed) Traits() line.Traits {
	t := d.First.Traits()
	t.Claims = true
	return t
}

// Room implements [line.Rule].
func (d delayed) Room(contenders int, data string) bool { return d.First.Room(contenders, data) }

// Downgrade implements [line.Rule].
func (d delayed) Downgrade(string) (line.Rule, string, bool) { return d, "", false }

// A delayer is the claim of one handle: its record. It implements [contender.Claim].
type delayer struct {
	dir    string // of the contenders
	record string // the path of the record
	delay  time.Duration

	mu      sync.Mutex
	held    string // the contender whose record is confirmed; "" if there is none
	version int32  // of that record
	rest    func() // ends the wait that is under way; nil if there is none
	over    string // the lost holder whose delay is over; "" if there is none
	sent    string // the last contender for which a write of the record was sent

	// The names of contenders that are withdrawn, or what they begin with: no write is sent for
	// them any more.
	left []string
}

// errDelay refuses a delay where others share the lock.
var errDelay = fmt.Errorf("lock: Options.Delay: %w: only an exclusive lock has one", session.ErrInvalidArgument)

func newDelayer(path string, delay time.Duration) *delayer {
	dir, name := znode.Split(path)
	return &delayer{dir: path, record: znode.Join(znode.Join(dir, nodes.LockDelays), name), delay: delay}
}

// A delayRecord is the data of a record: "node delay", "node delay lost" when it was marked, and
// "node delay lost since" when it was marked again.
type delayRecord struct {
	node  string
	delay time.Duration
	lost  bool  // the node is gone
	since int64 // the mtime of the first mark; 0 if that is the record's mtime
}

func (r delayRecord) bytes() []byte {
	text := fmt.Appendf(nil, "%s %v", r.node, r.delay)
	if r.lost {
		text = append(text, " lost"...)
	}
	if r.since != 0 {
		text = fmt.Appendf(text, " %d", r.since)
	}
	return text
}

// parseDelay reads a record. One that is none delays by nothing.
func parseDelay(data []byte) (r delayRecord) {
	fields := strings.Split(string(data), " ")
	if len(fields) < 2 {
		return delayRecord{}
	}
	d, err := time.ParseDuration(fields[1])
	if err != nil {
		return delayRecord{}
	}
	r = delayRecord{node: fields[0], delay: max(0, d), lost: len(fields) > 2}
	if len(fields) > 3 {
		r.since, _ = strconv.ParseInt(fields[3], 10, 64) // without a time it was lost just now
	}
	return r
}

// Claimed implements [contender.Claim]. The record does not prove that the contender holds: its own
// node does.
func (d *delayer) Claimed(node string) string { return znode.Join(d.dir, node) }

// Take implements [contender.Claim]. The token is the czxid of the node, as of a lock without a
// delay.
func (d *delayer) Take(requests client.Async, node string, _ bool, answer func(zxid int64, taken bool, err error)) {
	own := new(session.Stat)
	requests.Exists(znode.Join(d.dir, node), func(stat *session.Stat, err error) {
		if stat != nil {
			own = stat
		}
	})
	requests.Get(d.record, func(data []byte, stat *session.Stat, err error) {
		t := turn{requests, node, own.Czxid, answer}
		switch r := parseDelay(data); {
		case client.Without(err, session.ErrNoNode) != nil:
			answer(0, false, err)
		case own.Czxid == 0:
			answer(0, false, session.ErrNoNode)
		case stat == nil:
			d.write(t, session.CreateOp(d.record, delayRecord{node: node, delay: d.delay}.bytes(), session.Persistent))
		case r.node == node:
			d.hold(node, stat.Version)
			answer(own.Czxid, false, nil)
		case r == delayRecord{}:
			d.wait(t, r, 0, stat.Version)
		default:
			d.mark(t, r, stat)
		}
	})
}

// A turn is a try of the first in line to write its record.
type turn struct {
	requests client.Async
	node     string
	czxid    int64 // of the node
	answer   func(zxid int64, taken bool, err error)
}

// again tries once more: another client has changed the record meanwhile.
func (d *delayer) again(t turn) { d.Take(t.requests, t.node, true, t.answer) }

// mark notes in the record of a lost holder that it is lost, and then waits for its delay. The
// reply has the servers' clock: if the record was marked before, the contender waits for the rest
// only.
func (d *delayer) mark(t turn, r delayRecord, stat *session.Stat) {
	if r.lost {
		r.since = cmp.Or(r.since, stat.Mtime)
	}
	r.lost = true
	t.requests.Set(d.record, r.bytes(), stat.Version, func(now *session.Stat, err error) {
		switch {
		case err == nil:
			passed := time.Duration(0)
			if r.since != 0 {
				passed = time.Duration(now.Mtime-r.since-1) * time.Millisecond
			}
			d.wait(t, r, r.delay-max(0, passed), now.Version)
		case client.IsAny(err, session.ErrBadVersion, session.ErrNoNode):
			d.again(t)
		default:
			t.answer(0, false, err)
		}
	})
}

// wait has the contender replace the record of a lost holder after the rest of the delay, unless it
// leaves. It waits once for a loss, however often it tries.
func (d *delayer) wait(t turn, r delayRecord, rest time.Duration, version int32) {
	d.mu.Lock()
	if d.hasLeft(t.node) {
		d.mu.Unlock()
		return
	}
	replace := func() {
		d.write(t, session.SetOp(d.record, delayRecord{node: t.node, delay: d.delay}.bytes(), version))
	}
	waits := rest > 0 && d.over != r.node
	if waits {
		d.rest = t.requests.After(rest, func() {
			d.mu.Lock()
			d.over = r.node
			d.mu.Unlock()
			replace()
		})
	}
	d.mu.Unlock()
	if !waits {
		replace()
	}
}

// hasLeft reports whether a contender is withdrawn. The delayer is locked.
func (d *delayer) hasLeft(node string) bool {
	return slices.ContainsFunc(d.left, func(name string) bool { return strings.HasPrefix(node, name) })
}

// hold notes that the record of a contender is confirmed.
func (d *delayer) hold(node string, version int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held, d.version = node, version
}

// write writes the record, while the node of its contender stands.
func (d *delayer) write(t turn, op session.Op) {
	d.mu.Lock()
	defer d.mu.Unlock() // a withdrawal reads the record behind this write, or keeps it from being sent
	if d.hasLeft(t.node) {
		return
	}
	d.sent = t.node
	stands := session.CheckOp(znode.Join(d.dir, t.node), session.AnyVersion)
	t.requests.Multi([]session.Op{stands, op}, func(results []session.OpResult, err error) {
		switch refused := claim.Failed(results); {
		case err == nil:
			version := int32(0) // of a new record
			if stat := results[1].Stat; stat != nil {
				version = stat.Version
			}
			d.hold(t.node, version)
			t.answer(t.czxid, false, nil)
		case refused == 1 && errors.Is(err, session.ErrNoNode) && op.Path() == d.record:
			dir, _ := znode.Split(d.record)
			client.MakeContainer(t.requests, dir, "", func(err error) {
				if err = client.Without(err, session.ErrNodeExists); err != nil {
					t.answer(0, false, err)
					return
				}
				d.again(t)
			})
		case refused == 1 && client.IsAny(err, session.ErrNodeExists, session.ErrBadVersion):
			d.again(t)
		default:
			t.answer(0, false, err)
		}
	})
}

// Withdraw implements [contender.Claim]. A confirmed record is deleted with its node, in one
// transaction: if another client has deleted the node, the record stays, and delays the next. If
// the record is not confirmed, the contender has not held, and the record goes first: while the
// node stands, no other contender looks at it.
func (d *delayer) Withdraw(requests client.Async, node, prefix string, answer func(error)) {
	d.mu.Lock()
	held, version, sent, rest := d.held, d.version, d.sent, d.rest
	d.held, d.rest = "", nil
	d.left = append(d.left, cmp.Or(node, prefix))
	d.mu.Unlock()
	if rest != nil {
		rest()
	}
	own := session.Removal{Path: d.dir, Prefix: prefix}
	if node != "" {
		own = session.Removal{Path: znode.Join(d.dir, node)}
	}
	isThis := func(name string) bool {
		return name != "" && (name == node || node == "" && strings.HasPrefix(name, prefix))
	}
	all := own // of a contender that may not even be allowed to read the record
	switch {
	case isThis(held):
		all = session.Removal{Path: znode.Join(d.dir, held), Beside: d.record, BesideVersion: version}
		if node == "" {
			all.Then = &own
		}
	case isThis(sent):
		all = session.Removal{
			Path: d.record,
			Says: func(data []byte) bool { return isThis(parseDelay(data).node) },
			Then: &own,
		}
	}
	requests.Remove(all, answer)
}
