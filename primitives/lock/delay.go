package lock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
// it is deleted with the holder's node by a release, and stays when the session expires, or another
// client deletes the node. A contender that comes first and finds such a record waits for the delay
// that it names, before it writes its own.
//
//	            no record                     create
//	reading ──────────────────────────────────────────► ours
//	  ▲  │      of a node that is gone: wait     replace │
//	  │  ├───────────────────────────────────────────────┘
//	  │  └── ours already, by an earlier try ─► ours
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

// A delayRecord is the data of a record.
type delayRecord struct {
	node  string
	delay time.Duration
}

func (r delayRecord) bytes() []byte { return fmt.Appendf(nil, "%s %v", r.node, r.delay) }

// parseDelay reads a record. One that is none delays by nothing.
func parseDelay(data []byte) (r delayRecord) {
	node, text, _ := strings.Cut(string(data), " ")
	d, err := time.ParseDuration(text)
	if err != nil {
		return delayRecord{}
	}
	return delayRecord{node, max(0, d)}
}

// Claimed implements [contender.Claim]. The record does not prove that the contender holds: its own
// node does.
func (d *delayer) Claimed(node string) string { return znode.Join(d.dir, node) }

// Take implements [contender.Claim]. The token is the czxid of the node, as of a lock without a
// delay.
func (d *delayer) Take(requests client.Async, node string, _ bool, answer func(zxid int64, taken bool, err error)) {
	var czxid int64
	requests.Exists(znode.Join(d.dir, node), func(stat *session.Stat, err error) {
		if stat != nil {
			czxid = stat.Czxid
		}
	})
	requests.Get(d.record, func(data []byte, stat *session.Stat, err error) {
		switch {
		case client.Without(err, session.ErrNoNode) != nil:
			answer(0, false, err)
		case czxid == 0:
			answer(0, false, session.ErrNoNode)
		case stat == nil:
			d.write(requests, node, czxid, session.CreateOp(d.record, delayRecord{node, d.delay}.bytes(), session.Persistent), answer)
		case parseDelay(data).node == node:
			d.hold(node, stat.Version)
			answer(czxid, false, nil)
		default:
			d.wait(requests, node, parseDelay(data).delay, func() {
				d.write(requests, node, czxid, session.SetOp(d.record, delayRecord{node, d.delay}.bytes(), stat.Version), answer)
			})
		}
	})
}

// wait calls f after the delay, unless the contender leaves.
func (d *delayer) wait(requests client.Async, node string, delay time.Duration, f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.hasLeft(node) {
		d.rest = requests.After(delay, f)
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
func (d *delayer) write(requests client.Async, node string, czxid int64, op session.Op, answer func(zxid int64, taken bool, err error)) {
	d.mu.Lock()
	defer d.mu.Unlock() // a withdrawal reads the record behind this write, or keeps it from being sent
	if d.hasLeft(node) {
		return
	}
	requests.Multi([]session.Op{session.CheckOp(znode.Join(d.dir, node), session.AnyVersion), op}, func(results []session.OpResult, err error) {
		switch refused := claim.Failed(results); {
		case err == nil:
			version := int32(0) // of a new record
			if stat := results[1].Stat; stat != nil {
				version = stat.Version
			}
			d.hold(node, version)
			answer(czxid, false, nil)
		case refused == 1 && errors.Is(err, session.ErrNoNode) && op.Path() == d.record:
			dir, _ := znode.Split(d.record)
			client.MakeContainer(requests, dir, "", func(err error) {
				if err = client.Without(err, session.ErrNodeExists); err != nil {
					answer(0, false, err)
					return
				}
				d.Take(requests, node, true, answer)
			})
		case refused == 1 && client.IsAny(err, session.ErrNodeExists, session.ErrBadVersion):
			d.Take(requests, node, true, answer)
		default:
			answer(0, false, err)
		}
	})
}

// Withdraw implements [contender.Claim]. A confirmed record is deleted with its node; if another
// client has deleted that, the record stays, and delays the next. Otherwise the record goes first:
// while the node stands, no other contender looks at it.
func (d *delayer) Withdraw(requests client.Async, node, prefix string, answer func()) {
	d.mu.Lock()
	held, version, rest := d.held, d.version, d.rest
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
	if held == "" || node != held && (node != "" || !strings.HasPrefix(held, prefix)) {
		requests.Remove(d.removal(node, prefix, own), func(error) { answer() })
		return
	}
	ops := []session.Op{session.DeleteOp(znode.Join(d.dir, held), session.AnyVersion), session.DeleteOp(d.record, version)}
	requests.Multi(ops, func(results []session.OpResult, err error) {
		switch {
		case err == nil && node != "":
			requests.Left(ops[0].Path())
			answer()
		case err == nil, claim.Failed(results) == 0 && errors.Is(err, session.ErrNoNode):
			requests.Remove(own, func(error) { answer() })
		default:
			requests.Remove(d.removal(node, prefix, own), func(error) { answer() })
		}
	})
}

// removal returns the removal of the record of a contender, or of those with the prefix if node is
// "", and then of its nodes.
func (d *delayer) removal(node, prefix string, then session.Removal) session.Removal {
	return session.Removal{
		Path: d.record,
		Says: func(data []byte) bool {
			says := parseDelay(data).node
			return says != "" && (says == node || node == "" && strings.HasPrefix(says, prefix))
		},
		Then: &then,
	}
}
