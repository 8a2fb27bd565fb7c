// Package history records what the clients of recipes said and when, what the servers' trees had,
// and which faults there were. A history is judged by package judge, which knows no code of the
// library. Neither does this package: peers are recorded in the same way.
//
// A history is written as lines of JSON, and can be read back.
package history

import (
	"cmp"
	"time"
)

// A Moment is a time in a history. Moments of one recorder have an order even if they have the same
// time.
type Moment struct {
	At  time.Duration `json:"at"`            // since the start
	Seq int64         `json:"seq,omitempty"` // counts what the recorder has seen; 0 is before all of the same time
}

// Compare orders moments.
func (m Moment) Compare(o Moment) int {
	return cmp.Or(cmp.Compare(m.At, o.At), cmp.Compare(m.Seq, o.Seq))
}

// Before reports whether m is before o.
func (m Moment) Before(o Moment) bool { return m.Compare(o) < 0 }

// Start returns the beginning of the moment's instant, before all that happened at the same time.
func (m Moment) Start() Moment { return Moment{At: m.At} }

// An Outcome says what a client knows of an operation.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // nothing was done
	Unknown Outcome = "unknown" // done, to be done, or neither
)

// An Operation is what a client did, from its call to its return.
type Operation struct {
	Process  string  `json:"process"` // which life of which process, such as 2.1
	Session  int64   `json:"session,omitempty"`
	Recipe   string  `json:"recipe"`
	Path     string  `json:"path"`
	Handle   string  `json:"handle,omitempty"` // the grant, item, transaction or party that it is about
	Kind     string  `json:"kind"`
	Argument string  `json:"argument,omitempty"`
	Result   string  `json:"result,omitempty"`
	Weight   int     `json:"weight,omitempty"` // of a lease, or how many may share; 0 is all
	Limit    int     `json:"limit,omitempty"`  // of what is shared
	Token    int64   `json:"token,omitempty"`
	Node     string  `json:"node,omitempty"` // that stands for a grant
	Call     Moment  `json:"call"`
	Return   Moment  `json:"return"` // the zero Moment if the operation has not returned
	Outcome  Outcome `json:"outcome"`
	Error    string  `json:"error,omitempty"`

	Priority int           `json:"priority,omitempty"` // of an item that is put: lower numbers are more urgent
	Delay    time.Duration `json:"delay,omitempty"`    // of an item that is put or rejected, from the call
}

// Returned reports whether the operation has returned.
func (o *Operation) Returned() bool { return o.Return != Moment{} }

// A Told is an event that a handle told its user, in the order in which the user received it.
type Told struct {
	Process string `json:"process"`
	Session int64  `json:"session,omitempty"`
	Recipe  string `json:"recipe"`
	Path    string `json:"path"`
	Handle  string `json:"handle,omitempty"`
	Kind    string `json:"kind"`
	Value   string `json:"value,omitempty"`
	Token   int64  `json:"token,omitempty"`
	Zxid    int64  `json:"zxid,omitempty"` // of the newest change in the state
	At      Moment `json:"moment"`
}

// A ChangeKind says what a Change did.
type ChangeKind string

// The kinds of changes.
const (
	Created ChangeKind = "created"
	Deleted ChangeKind = "deleted"
	Set     ChangeKind = "set"
)

// A Change is what a commit did to one node.
type Change struct {
	Kind  ChangeKind `json:"kind"`
	Path  string     `json:"path"`
	Data  string     `json:"data,omitempty"`
	Owner int64      `json:"owner,omitempty"` // the session of an ephemeral node
}

// Kept returns as much of a node's data as a Change keeps: no workload writes more.
func Kept(data []byte) string {
	const longest = 200
	return string(data[:min(len(data), longest)])
}

// A Commit is a transaction of the servers.
type Commit struct {
	Zxid     int64    `json:"zxid"`
	At       Moment   `json:"moment"`
	Time     int64    `json:"time,omitempty"`     // by the servers' clock, in ms since 1970; 0 if it is not known
	Closes   int64    `json:"closes,omitempty"`   // the session that it ends
	Restored bool     `json:"restored,omitempty"` // older data has replaced all nodes
	Changes  []Change `json:"changes,omitempty"`
}

// A FaultKind says what a fault takes from the promises of the recipes.
type FaultKind string

// The kinds of faults.
const (
	Disturbed FaultKind = "disturbed" // nothing: recipes bear it
	Expired   FaultKind = "expired"   // a session was ended by decree, before its timeout
	Removed   FaultKind = "removed"   // an operator has deleted a node
	Restored  FaultKind = "restored"  // the servers came back with older data
	Killed    FaultKind = "killed"    // a process has ended without a word
	Stopped   FaultKind = "stopped"   // a process did nothing for a while, by a signal or as the machine was busy
	Healed    FaultKind = "healed"    // no fault is in force any more
)

// A Fault is something that went wrong on purpose.
type Fault struct {
	At      Moment    `json:"moment"`
	Kind    FaultKind `json:"kind"`
	Process string    `json:"process,omitempty"` // that was killed or stopped
	Session int64     `json:"session,omitempty"` // that was expired
	Path    string    `json:"path,omitempty"`    // that was removed
	About   string    `json:"about,omitempty"`   // for people

	For time.Duration `json:"for,omitempty"` // how long a process was stopped
}

// A Head says which history this is.
type Head struct {
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	System   string `json:"system"` // whose recipes these are

	// Unjudged are the checkers that this history does not have enough for, and why: on real
	// servers not all is known.
	Unjudged map[string]string `json:"unjudged,omitempty"`
	Servers  string            `json:"servers,omitempty"` // the version of real servers

	// Diverged says what one of the servers had at the end, and another had not: then no client can
	// keep its promises.
	Diverged string `json:"diverged,omitempty"`
}

// A History is all that was recorded in one run. Everything is in the order of its moments;
// operations are in the order of their calls.
type History struct {
	Head       Head
	Operations []Operation
	Told       []Told
	Commits    []Commit
	Faults     []Fault
}

// FirstFault returns when the first fault was, and false if there was none. That a process did
// nothing for a while does not count: the machine may have been busy.
func (h *History) FirstFault() (Moment, bool) {
	for _, f := range h.Faults {
		if f.Kind != Stopped {
			return f.At, true
		}
	}
	return Moment{}, false
}

// Count returns how many of the faults are selected.
func (h *History) Count(selected func(f *Fault) bool) int {
	n := 0
	for i := range h.Faults {
		if selected(&h.Faults[i]) {
			n++
		}
	}
	return n
}

// DoneBefore returns how many operations had succeeded at the moment.
func (h *History) DoneBefore(m Moment) int {
	n := 0
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Outcome == OK && o.Return.Before(m) {
			n++
		}
	}
	return n
}

// Least is how many operations must have succeeded before the first fault. With fewer there was too
// little to disturb, and the history is void: it shows nothing.
const Least = 30

// Void reports whether the history shows nothing.
func (h *History) Void() bool {
	first, ok := h.FirstFault()
	return !ok || h.DoneBefore(first) < Least || h.Head.Diverged != ""
}
