package judge_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at returns a moment, in seconds from the start.
func at(s float64) history.Moment {
	return history.Moment{At: time.Duration(s * float64(time.Second)), Seq: 1}
}

// A script is a history that a test writes down.
type script struct{ history.History }

// op adds an operation that was called and returned at these seconds; it has not returned if back
// is 0.
func (s *script) op(o history.Operation, call, back float64) {
	o.Call = at(call)
	if back != 0 {
		o.Return = at(back)
	}
	if o.Outcome == "" {
		o.Outcome = history.OK
	}
	if o.Process == "" {
		o.Process = o.Handle
	}
	s.Operations = append(s.Operations, o)
}

// hold adds a grant to a handle, and its end: by a release at the second, or none if it is 0.
func (s *script) hold(recipe, handle string, token int64, weight int, call, granted, released float64) *script {
	s.op(history.Operation{
		Recipe: recipe, Path: "/l", Handle: handle, Kind: judge.Acquire, Token: token, Weight: weight, Limit: 3,
		Session: token, Node: "/l/" + handle,
	}, call, granted)
	if released != 0 {
		s.op(history.Operation{Recipe: recipe, Path: "/l", Handle: handle, Kind: judge.End}, released, released+0.1)
	}
	return s
}

// write adds a guarded write that the servers applied with the zxid.
func (s *script) write(recipe, handle string, token int64, weight int, zxid int64) *script {
	id := handle + " writes"
	s.op(history.Operation{Recipe: recipe, Path: "/l", Handle: handle, Kind: judge.Write, Token: token, Weight: weight, Argument: id}, float64(zxid), float64(zxid)+1)
	return s.commit(history.Commit{Zxid: zxid, At: at(float64(zxid)), Changes: []history.Change{{Kind: history.Set, Path: "/marks/" + handle, Data: id}}})
}

func (s *script) commit(c history.Commit) *script {
	s.Commits = append(s.Commits, c)
	return s
}

// node has the tree set a node, with the second as its zxid.
func (s *script) node(path, data string, second float64, kind history.ChangeKind) *script {
	return s.commit(history.Commit{Zxid: int64(second), At: at(second), Changes: []history.Change{{Kind: kind, Path: path, Data: data}}})
}

func (s *script) fault(f history.Fault, second float64) *script {
	f.At = at(second)
	s.Faults = append(s.Faults, f)
	return s
}

func (s *script) told(t history.Told, second float64) *script {
	t.At = at(second)
	s.Told = append(s.Told, t)
	return s
}

// state has a watcher receive a state; with a zxid of 0 there is no node.
func (s *script) state(value string, zxid, session int64, second float64) *script {
	return s.told(history.Told{Process: "1", Recipe: "watch", Path: "/n", Handle: "w", Kind: judge.State, Value: value, Zxid: zxid, Session: session}, second)
}

// words has a handle receive events, one a second.
func (s *script) words(recipe, words string) *script {
	for i, word := range strings.Fields(words) {
		s.told(history.Told{Process: "1", Recipe: recipe, Path: "/p", Handle: "h", Kind: word}, float64(i+1))
	}
	return s
}

// numbered is hold, for a lease of weight 1 with a number, requested at second 1.
func (s *script) numbered(handle, number string, granted, released float64) *script {
	s.hold("semaphore", handle, 1, 1, 1, granted, released)
	for i := range s.Operations {
		if o := &s.Operations[i]; o.Handle == handle && o.Kind == judge.Acquire {
			o.Result = number
		}
	}
	return s
}

// clock adds commits, one a second, whose times by the servers' clock grow as fast as the rate
// says.
func (s *script) clock(rate float64) *script {
	for i := range 20 {
		s.commit(history.Commit{At: at(float64(i)), Time: 1000 + int64(1000*rate*float64(i))})
	}
	return s
}

// queue adds operations on items: "put a 1-2" is a put of a from second 1 to 2, "take? a 3-0" one
// with an unknown outcome that does not return. More words may follow: "priority=2", "delay=3",
// "attempt=4", and "session=5", which is also the process.
func (s *script) queue(lines ...string) *script {
	for _, line := range lines {
		f := strings.Fields(line)
		call, back, _ := strings.Cut(f[2], "-")
		kind, unknown := strings.CutSuffix(f[0], "?")
		o := history.Operation{Recipe: "queue", Path: "/q", Kind: kind, Outcome: history.OK, Process: "1"}
		if unknown {
			o.Outcome = history.Unknown
		}
		if f[1] != "-" {
			o.Argument = f[1]
			if kind == judge.Take || kind == judge.Drain {
				o.Argument, o.Result = "", f[1]
			}
		}
		for _, word := range f[3:] {
			name, text, _ := strings.Cut(word, "=")
			value := seconds(text)
			switch name {
			case "priority":
				o.Priority = int(value)
			case "delay":
				o.Delay = time.Duration(value * float64(time.Second))
			case "attempt":
				o.Token = int64(value)
			case "session":
				o.Session, o.Process = int64(value), text
			}
		}
		s.op(o, seconds(call), seconds(back))
	}
	return s
}

func seconds(text string) float64 {
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		panic(err)
	}
	return d.Seconds()
}

// party adds a member of a round, which is in from one second to another.
func (s *script) party(name string, round int64, members string, call, in, leave, out float64) *script {
	s.op(history.Operation{Recipe: "barrier", Path: "/b", Handle: name, Argument: name, Kind: judge.Enter, Token: round, Result: members, Limit: 2}, call, in)
	if leave != 0 {
		o := history.Operation{Recipe: "barrier", Path: "/b", Handle: name, Kind: judge.Leave, Token: round}
		if out == 0 {
			o.Outcome = history.Unknown
		}
		s.op(o, leave, out)
	}
	return s
}

// decide adds a transaction of sites a and b with votes, in this order, and what the parties learn.
// The process of "a=yes?" dies in its vote.
func (s *script) decide(votes, outcomes string) *script {
	s.op(history.Operation{Recipe: "commit", Path: "/c", Handle: "t", Kind: judge.Begin, Argument: "a,b"}, 1, 2)
	for i, vote := range strings.Fields(votes) {
		site, answer, _ := strings.Cut(vote, "=")
		answer, unknown := strings.CutSuffix(answer, "?")
		o := history.Operation{Recipe: "commit", Path: "/c", Handle: "t", Kind: judge.Vote, Argument: site, Result: answer}
		if unknown {
			o.Outcome = history.Unknown
		}
		s.op(o, 3+float64(i)/10, 3.05+float64(i)/10)
	}
	for i, outcome := range strings.Fields(outcomes) {
		s.told(history.Told{Recipe: "commit", Path: "/c", Handle: "t", Kind: outcome, Value: string("ab"[i])}, 5)
	}
	return s
}

// value adds operations on a register: "set - 1 1-2", "update 1 2 3-4", "get - 2 5-6". The process
// of "update? 1 2 3-0" dies before it returns, the process of "update? - - 3-0" before it has read.
func (s *script) value(lines ...string) *script {
	for _, line := range lines {
		f := strings.Fields(line)
		call, back, _ := strings.Cut(f[3], "-")
		kind, unknown := strings.CutSuffix(f[0], "?")
		o := history.Operation{Recipe: "config", Path: "/v", Kind: kind, Argument: f[1], Result: f[2], Outcome: history.OK, Process: "1"}
		if kind == judge.Set {
			o.Argument, o.Result = f[2], ""
		}
		if o.Argument == "-" {
			o.Argument = ""
		}
		if o.Result == "-" {
			o.Result = ""
		}
		if unknown {
			o.Outcome = history.Unknown
		}
		s.op(o, seconds(call), seconds(back))
	}
	return s
}

// calls adds calls of processes "1", "2" and so on, with an argument and a result: "ask a b 1-2".
// The outcome of "ask? a b 1-2" is unknown, and "ask! a b 1-2" has failed.
func (s *script) calls(recipe string, limit int, lines ...string) *script {
	for i, line := range lines {
		f := strings.Fields(line)
		call, back, _ := strings.Cut(f[3], "-")
		kind, unknown := strings.CutSuffix(f[0], "?")
		kind, failed := strings.CutSuffix(kind, "!")
		name := strconv.Itoa(i + 1)
		o := history.Operation{Recipe: recipe, Path: "/l", Handle: name, Kind: kind, Argument: strings.Trim(f[1], "-"), Result: strings.Trim(f[2], "-"), Limit: limit}
		switch {
		case unknown:
			o.Outcome = history.Unknown
		case failed:
			o.Outcome = history.Failed
		}
		s.op(o, seconds(call), seconds(back))
	}
	return s
}

// latch adds calls at a latch that two arrivals open.
func (s *script) latch(lines ...string) *script { return s.calls("latch", 2, lines...) }

// plain adds calls at a plain barrier.
func (s *script) plain(lines ...string) *script { return s.calls("plain", 0, lines...) }

// once adds calls that ask for the outcome of a function.
func (s *script) once(lines ...string) *script { return s.calls("once", 0, lines...) }

// A judgement is what a checker is to say of a history.
type judgement struct {
	checker  string
	name     string
	guilty   bool
	evidence *script
}

func write() *script { return &script{} }

func judgements() []judgement {
	return []judgement{
		{"Exclusive", "one after the other", false, write().hold("lock", "a", 1, 0, 1, 2, 3).hold("lock", "b", 2, 0, 1, 4, 5)},
		{"Exclusive", "granted while the release is under way", false, write().hold("lock", "a", 1, 0, 1, 2, 3).hold("lock", "b", 2, 0, 1, 3.05, 5)},
		{"Exclusive", "two at once", true, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6)},
		{"Exclusive", "the first is never over", true, write().hold("lock", "a", 1, 0, 1, 2, 0).hold("lock", "b", 2, 0, 1, 4, 6)},
		{"Exclusive", "a token that sinks", true, write().hold("lock", "a", 5, 0, 1, 2, 3).hold("lock", "b", 4, 0, 4, 5, 6)},
		{"Exclusive", "a term that stays", true, write().hold("election", "a", 5, 0, 1, 2, 3).hold("election", "b", 5, 0, 4, 5, 6)},
		{"Exclusive", "two at once, in the format of another library", true, write().hold("lock-kazoo", "a", 1, 0, 1, 2, 5).hold("lock-kazoo", "b", 2, 0, 1, 4, 6)},
		{"Exclusive", "two readers, in the format of another library", false, write().hold("readwrite-curator", "a", 1, 1, 1, 2, 5).hold("readwrite-curator", "b", 2, 1, 1, 3, 6)},
		{"Exclusive", "a term that stays, in the format of another library", true, write().hold("election-curator-selector", "a", 5, 0, 1, 2, 3).hold("election-curator-selector", "b", 5, 0, 4, 5, 6)},
		{"Exclusive", "two owners of a shard", true, write().hold("shard", "a", 1, 0, 1, 2, 5).hold("shard", "b", 2, 0, 1, 4, 6)},
		{"Exclusive", "two at once after an expiry by decree", false, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Expired, Session: 1}, 3)},
		{"Exclusive", "two at once after an expiry of another session", true, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Expired, Session: 9}, 3)},
		{"Exclusive", "two at once before the expiry", true, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Expired, Session: 1}, 5.5)},
		{"Exclusive", "two at once after a deletion", false, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Removed, Path: "/l/a"}, 3)},
		{"Exclusive", "two at once after a deletion elsewhere", true, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Removed, Path: "/l2/a"}, 3)},
		{"Exclusive", "a smaller token after older data", false, write().hold("lock", "a", 5, 0, 1, 2, 3).fault(history.Fault{Kind: history.Restored}, 3.5).hold("lock", "b", 4, 0, 4, 5, 6)},
		{"Exclusive", "the first process dies", false, write().hold("lock", "a", 1, 0, 1, 2, 0).fault(history.Fault{Kind: history.Killed, Process: "a"}, 3).hold("lock", "b", 2, 0, 1, 4, 6)},
		{"Exclusive", "the first process dies too late", true, write().hold("lock", "a", 1, 0, 1, 2, 0).fault(history.Fault{Kind: history.Killed, Process: "a"}, 5).hold("lock", "b", 2, 0, 1, 4, 6)},
		{"Exclusive", "the first process is stopped until its end", false, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Stopped, Process: "a", For: 1500 * time.Millisecond}, 3.5)},
		{"Exclusive", "the first process is stopped again", false, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Stopped, Process: "a", For: time.Second}, 3.5).fault(history.Fault{Kind: history.Stopped, Process: "a", For: time.Second / 2}, 4.5)},
		{"Exclusive", "the first process was stopped, and went on", true, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Stopped, Process: "a", For: time.Second}, 3)},
		{"Exclusive", "another process is stopped", true, write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).fault(history.Fault{Kind: history.Stopped, Process: "b", For: 3 * time.Second}, 3)},
		{"Exclusive", "two readers", false, write().hold("readwrite", "a", 1, 1, 1, 2, 5).hold("readwrite", "b", 2, 1, 1, 3, 6)},
		{"Exclusive", "a reader and a writer", true, write().hold("readwrite", "a", 1, 1, 1, 2, 5).hold("readwrite", "b", 2, 0, 1, 3, 6)},
		{"Exclusive", "a reader below the writer before", true, write().hold("readwrite", "a", 4, 0, 1, 2, 3).hold("readwrite", "b", 3, 1, 1, 5, 6)},
		{"Exclusive", "weights within the limit", false, write().hold("semaphore", "a", 1, 1, 1, 2, 5).hold("semaphore", "b", 2, 2, 1, 3, 6)},
		{"Exclusive", "weights beyond the limit", true, write().hold("semaphore", "a", 1, 2, 1, 2, 5).hold("semaphore", "b", 2, 2, 1, 3, 6)},

		{"Numbers", "two leases", false, write().numbered("a", "0", 2, 5).numbered("b", "1", 3, 6)},
		{"Numbers", "two leases with one number", true, write().numbered("a", "0", 2, 5).numbered("b", "0", 3, 6)},
		{"Numbers", "one number after the other", false, write().numbered("a", "0", 2, 3).numbered("b", "0", 3.05, 6)},
		{"Numbers", "one number of a lease that is never over", true, write().numbered("a", "0", 2, 0).numbered("b", "0", 3, 6)},
		{"Numbers", "no numbers", false, write().numbered("a", "", 2, 5).numbered("b", "", 3, 6)},
		{"Numbers", "the greatest number", false, write().numbered("a", "2", 2, 5)},
		{"Numbers", "a number that is the limit", true, write().numbered("a", "3", 2, 5)},
		{"Numbers", "a number below 0", true, write().numbered("a", "-1", 2, 5)},
		{"Numbers", "the first process dies", false, write().numbered("a", "0", 2, 0).numbered("b", "0", 4, 6).fault(history.Fault{Kind: history.Killed, Process: "a"}, 3)},
		{"Numbers", "the first process dies too late", true, write().numbered("a", "0", 2, 0).numbered("b", "0", 4, 6).fault(history.Fault{Kind: history.Killed, Process: "a"}, 5)},
		{"Numbers", "after an expiry by decree", false, write().numbered("a", "0", 2, 5).numbered("b", "0", 4, 6).fault(history.Fault{Kind: history.Expired, Session: 1}, 3)},
		{"Numbers", "after the deletion of another number", false, write().numbered("a", "0", 3, 5).numbered("b", "0", 4, 6).fault(history.Fault{Kind: history.Removed, Path: "/l/numbers/0"}, 0.5)},
		{"Numbers", "before the deletion of a number", true, write().numbered("a", "0", 3, 5).numbered("b", "0", 4, 6).fault(history.Fault{Kind: history.Removed, Path: "/l/numbers/0"}, 5.5)},
		{"Numbers", "after a deletion elsewhere", true, write().numbered("a", "0", 3, 5).numbered("b", "0", 4, 6).fault(history.Fault{Kind: history.Removed, Path: "/m/numbers/0"}, 0.5)},

		{"Guarded", "in order", false, write().write("lock", "a", 1, 0, 1).write("lock", "b", 2, 0, 2)},
		{"Guarded", "a write of a former holder", true, write().write("lock", "b", 2, 0, 1).write("lock", "a", 1, 0, 2)},
		{"Guarded", "a write of a former holder, in the format of another library", true, write().write("lock-kazoo", "b", 2, 0, 1).write("lock-kazoo", "a", 1, 0, 2)},
		{"Guarded", "a writer behind a later reader", true, write().write("readwrite", "b", 2, 1, 1).write("readwrite", "a", 1, 0, 2)},
		{"Guarded", "readers in any order", false, write().write("readwrite", "b", 2, 1, 1).write("readwrite", "a", 1, 1, 2)},
		{"Guarded", "after older data", false, write().write("lock", "b", 2, 0, 1).commit(history.Commit{Restored: true}).write("lock", "a", 1, 0, 2)},

		{"ToldBeforeNextGrant", "lost before the expiry", false, write().hold("lock", "a", 1, 0, 1, 2, 3).commit(gone(7))},
		{"ToldBeforeNextGrant", "lost after the expiry", true, write().hold("lock", "a", 1, 0, 1, 2, 5).commit(gone(7))},
		{"ToldBeforeNextGrant", "never lost", true, write().hold("lock", "a", 1, 0, 1, 2, 0).commit(gone(7))},
		{"ToldBeforeNextGrant", "expired by decree", false, write().hold("lock", "a", 1, 0, 1, 2, 5).commit(gone(1)).fault(history.Fault{Kind: history.Expired, Session: 1}, 3.9)},
		{"ToldBeforeNextGrant", "stopped before the expiry", false, write().hold("lock", "a", 1, 0, 1, 2, 5).commit(gone(7)).fault(history.Fault{Kind: history.Stopped, Process: "a", For: 3 * time.Second}, 3)},
		{"ToldBeforeNextGrant", "released by a transaction", false, write().hold("lock", "a", 1, 0, 1, 2, 5).commit(gone(0))},

		{"Register", "reads what was written", false, write().value("set - 1 1-2", "update 1 2 3-4", "get - 2 5-6")},
		{"Register", "a lost update", true, write().value("set - 1 1-2", "update 1 2 3-4", "update 1 2 5-6")},
		{"Register", "an old read", true, write().value("set - 1 1-2", "set - 2 3-4", "get - 1 5-6")},
		{"Register", "an unknown write that happened late", false, write().value("set? - 1 1-2", "set - 2 3-4", "get - 1 5-6")},
		{"Register", "an update of a dead process that happened", false, write().value("set - 123 1-2", "update? 123 124 3-0", "get - 124 4-5")},
		{"Register", "an update of a dead process that did not happen", false, write().value("set - 123 1-2", "update? 123 124 3-0", "update 123 124 4-5", "get - 124 6-7")},
		{"Register", "an update of a dead process that had not read", true, write().value("set - 123 1-2", "update? - - 3-0", "get - 124 4-5")},
		{"Register", "an update of a dead process that undid another", true, write().value("set - 1 1-2", "update? 1 5 3-0", "update 1 2 4-5", "get - 5 6-7")},
		{"Register", "an update of a dead process that a stale read misses", true, write().value("set - 1 1-2", "update? 1 2 3-0", "get - 2 4-5", "get - 1 6-7")},
		{"Register", "an unknown write that happened twice", true, write().value("set? - 1 1-2", "get - 1 2-3", "set - 2 3.5-4", "get - 1 5-6")},

		{"Items", "taken once", false, write().queue("put a 1-2", "take a 3-4")},
		{"Items", "taken twice", true, write().queue("put a 1-2", "take a 3-4", "take a 5-6")},
		{"Items", "taken twice, once unknown", false, write().queue("put a 1-2", "take? a 3-4", "take a 5-6")},
		{"Items", "invented", true, write().queue("take a 3-4")},
		{"Items", "taken before it was put", true, write().queue("take a 1-2", "put a 3-4")},
		{"Items", "lost", true, write().queue("put a 1-2", "empty - 5-6")},
		{"Items", "an unknown take may have it", false, write().queue("put a 1-2", "take? - 3-4", "empty - 5-6")},
		{"Items", "acknowledged by a process that died, after it was delivered", false, write().queue("put a 1-2", "deliver a 3-3", "ack? a 4-0", "empty - 8-9")},
		{"Items", "acknowledged by a process that died, and there", false, write().queue("put a 1-2", "deliver a 3-3", "ack? a 4-0", "drain a 6-7", "empty - 8-9")},
		{"Items", "acknowledged by a process that died, and taken twice", true, write().queue("put a 1-2", "deliver a 3-3", "ack? a 4-0", "take a 5-6", "drain a 6-7", "empty - 8-9")},
		{"Items", "acknowledged too late to be missing", true, write().queue("put a 1-2", "deliver a 3-3", "empty - 4-5", "ack? a 6-0")},
		{"Items", "put after the queue was empty", false, write().queue("empty - 1-2", "put a 3-4")},
		{"Items", "one unknown take, two lost", true, write().queue("put a 1-2", "put b 1-2", "take? - 3-4", "empty - 5-6")},
		{"Items", "an unknown put", false, write().queue("put? a 1-2", "empty - 5-6")},
		{"Items", "delivered twice, acknowledged once", false, write().queue("put a 1-2", "deliver a 3-4", "deliver a 5-6", "ack a 6-7", "empty - 8-9")},
		{"Items", "acknowledged twice", true, write().queue("put a 1-2", "deliver a 3-4", "ack a 6-7", "ack a 8-9")},
		{"Items", "drained after it was acknowledged", true, write().queue("put a 1-2", "deliver a 3-4", "ack a 6-7", "drain a 8-9")},
		{"Items", "taken twice after a deletion", false, write().queue("put a 1-2", "take a 3-4", "take a 5-6").fault(history.Fault{Kind: history.Removed, Path: "/q/x"}, 3)},
		{"Items", "invented after a deletion", true, write().queue("take a 3-4").fault(history.Fault{Kind: history.Removed, Path: "/q/x"}, 3)},

		{"FirstInFirstOut", "in order", false, write().queue("put a 1-2", "put b 3-4", "drain a 5-6", "drain b 7-8")},
		{"FirstInFirstOut", "put at the same time", false, write().queue("put a 1-4", "put b 3-5", "drain b 5-6", "drain a 7-8")},
		{"FirstInFirstOut", "from the middle", false, write().queue("put a 1-2", "put b 3-4", "put c 5-6", "drain b 7-8", "drain c 8-9", "drain a 9-10")},
		{"FirstInFirstOut", "put after the list", false, write().queue("put a 1-2", "put b 3-4", "put c 5-6", "drain b 7-8", "drain a 8-9", "drain c 9-10")},
		{"FirstInFirstOut", "one passed by", true, write().queue("put a 1-2", "put b 3-4", "put c 5-6", "put d 7-8", "drain b 9-10", "drain d 10-11", "drain a 11-12", "drain c 12-13")},
		{"FirstInFirstOut", "backwards", true, write().queue("put a 1-2", "put b 3-4", "put c 5-6", "drain c 7-8", "drain b 8-9", "drain a 9-10")},

		{"FirstInFirstOut", "backwards, of two priorities", false, write().queue("put a 1-2 priority=1", "put b 3-4", "drain b 5-6", "drain a 7-8")},
		{"FirstInFirstOut", "one of a priority passed by", true, write().queue("put a 1-2 priority=1", "put b 3-4 priority=1", "put c 5-6 priority=1", "put x 6-7", "drain x 7-8", "drain c 8-9", "drain b 9-10", "drain a 10-11")},
		{"FirstInFirstOut", "backwards, with delays", false, write().queue("put a 1-2 delay=9", "put b 3-4", "put c 5-6", "drain c 7-8", "drain b 8-9", "drain a 11-12")},

		{"MostUrgentFirst", "by priority", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take b 4-5 session=1", "take a 6-7 session=1")},
		{"MostUrgentFirst", "the other first", true, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "of one priority", false, write().queue("put a 1-2 session=1", "put b 1-2 session=1", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "put less than a second before", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-3.1 session=1", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "put by another, unknown to the taker", false, write().queue("put a 1-2 priority=1", "put b 1-2 session=2", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "put by another, known to the taker", true, write().queue("put a 2.1-2.2 priority=1 session=1", "put b 1-2 session=2", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "put by another before the write was called", false, write().queue("put a 1.9-2.2 priority=1 session=1", "put b 1-2 session=2", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "known to the taker's last session", false, write().queue("put a 2.1-2.2 priority=1 session=1", "put b 1-2 session=2", "take a 4-5 session=3", "take b 6-7 session=1")},
		{"MostUrgentFirst", "known after an earlier take", true, write().queue("put a 0-1 priority=1", "put b 1-2 session=2", "put c 0-1 session=9", "take c 2.1-2.5 session=1", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "taken by another meanwhile", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-6 session=1", "take b 5-7 session=2")},
		{"MostUrgentFirst", "taken by another afterwards", true, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-6 session=1", "take b 6.1-7 session=2")},
		{"MostUrgentFirst", "perhaps put", false, write().queue("put a 1-2 priority=1 session=1", "put? b 1-2 session=1", "take a 4-5 session=1", "take b 6-7 session=1")},
		{"MostUrgentFirst", "perhaps taken", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-5 session=1", "take? - 4-5 session=2")},
		{"MostUrgentFirst", "not due", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 delay=9 session=1", "take a 4-5 session=1", "take b 12-13 session=1")},
		{"MostUrgentFirst", "a drain leaves the more urgent", true, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "drain a 4-5 session=1", "drain b 6-7 session=1")},
		{"MostUrgentFirst", "beside consumers", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-5 session=1", "deliver b 5-5", "take b 6-7 session=1")},
		{"MostUrgentFirst", "after a deletion", false, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-5 session=1", "take b 6-7 session=1").fault(history.Fault{Kind: history.Removed, Path: "/q/x"}, 3)},
		{"MostUrgentFirst", "after a deletion elsewhere", true, write().queue("put a 1-2 priority=1 session=1", "put b 1-2 session=1", "take a 4-5 session=1", "take b 6-7 session=1").fault(history.Fault{Kind: history.Removed, Path: "/p/x"}, 3)},

		{"NotBeforeDue", "due", false, write().clock(1).queue("put a 1.5-2 delay=3", "take a 4-4.6")},
		{"NotBeforeDue", "taken too early", true, write().clock(1).queue("put a 1.5-2 delay=5", "take a 4-4.6")},
		{"NotBeforeDue", "delivered too early", true, write().clock(1).queue("put a 1.5-2 delay=5", "deliver a 4.6-4.6")},
		{"NotBeforeDue", "drained too early", true, write().clock(1).queue("put a 1.5-2 delay=5", "drain a 4-4.6")},
		{"NotBeforeDue", "due by a clock that is fast", false, write().clock(2).queue("put a 1.5-2 delay=5", "take a 4-4.6")},
		{"NotBeforeDue", "too early by a clock that is fast", true, write().clock(2).queue("put a 1.5-2 delay=8.1", "take a 4-4.6")},
		{"NotBeforeDue", "too early by a clock that is slow", true, write().clock(0.5).queue("put a 1.5-2 delay=3", "take a 4-4.6")},
		{"NotBeforeDue", "of a clock that is not known", false, write().queue("put a 1.5-2 delay=5", "take a 4-4.6").node("/n", "", 1, history.Created).node("/n", "", 9, history.Deleted)},
		{"NotBeforeDue", "delivered again", false, write().clock(1).queue("put a 1-2", "deliver a 3-3 attempt=1", "reject a 3.5-4 delay=2 attempt=1", "deliver a 5.6-5.6 attempt=2")},
		{"NotBeforeDue", "delivered again too early", true, write().clock(1).queue("put a 1-2", "deliver a 3-3 attempt=1", "reject a 3.5-4 delay=5 attempt=1", "deliver a 5.6-5.6 attempt=2")},
		{"NotBeforeDue", "drained too early after a rejection", true, write().clock(1).queue("put a 1-2", "deliver a 3-3 attempt=1", "reject a 3.5-4 delay=5 attempt=1", "drain a 5-5.6")},
		{"NotBeforeDue", "a delivery before, received late", false, write().clock(1).queue("put a 1-2", "reject a 3.5-4 delay=5 attempt=2", "deliver a 5.6-5.6 attempt=1")},
		{"NotBeforeDue", "a rejection that may not count", false, write().clock(1).queue("put a 1-2", "deliver a 3-3 attempt=1", "reject? a 3.5-4 delay=5 attempt=1", "deliver a 5.6-5.6 attempt=2")},
		{"NotBeforeDue", "a rejection that older data has forgotten", false, write().clock(1).queue("put a 1-2", "deliver a 3-3 attempt=1", "reject a 3.5-4 delay=5 attempt=1", "deliver a 5.6-5.6 attempt=2").fault(history.Fault{Kind: history.Restored}, 4.5)},
		{"NotBeforeDue", "a delay that older data does not shorten", true, write().clock(1).queue("put a 1.5-2 delay=5", "take a 4-4.6").fault(history.Fault{Kind: history.Restored}, 3)},

		{"Rounds", "together", false, write().party("a", 1, "a,b", 1, 3, 4, 6).party("b", 1, "a,b", 2, 3, 5, 6).party("a", 2, "a,b", 7, 8, 9, 10)},
		{"Rounds", "in before the other came", true, write().party("a", 1, "a,b", 1, 2, 4, 6).party("b", 1, "a,b", 3, 3.5, 5, 6)},
		{"Rounds", "out before the other leaves", true, write().party("a", 1, "a,b", 1, 3, 4, 5).party("b", 1, "a,b", 2, 3, 6, 7)},
		{"Rounds", "out before the other, which stays", true, write().party("a", 1, "a,b", 1, 3, 4, 5).party("b", 1, "a,b", 2, 3, 0, 0)},
		{"Rounds", "out after the other died", false, write().party("a", 1, "a,b", 1, 3, 4, 6).party("b", 1, "a,b", 2, 3, 0, 0).fault(history.Fault{Kind: history.Killed, Process: "b"}, 5)},
		{"Rounds", "out after the other began to leave, and died", false, write().party("a", 1, "a,b", 1, 3, 4, 6).party("b", 1, "a,b", 2, 3, 5, 0).fault(history.Fault{Kind: history.Killed, Process: "b"}, 8)},
		{"Rounds", "out before the other, which is stopped", false, write().party("a", 1, "a,b", 1, 3, 4, 5).party("b", 1, "a,b", 2, 3, 6, 7).fault(history.Fault{Kind: history.Stopped, Process: "b", For: 2 * time.Second}, 3.5)},
		{"Rounds", "out before the other, whose second session was ended", false, write().party("a", 1, "a,b", 1, 3, 4, 5).party("b", 1, "a,b", 2, 3, 6, 7).session("b", 8, 0.5).session("b", 9, 2.5).fault(history.Fault{Kind: history.Expired, Session: 9}, 3.5)},
		{"Rounds", "out before the other, and a third's session was ended", true, write().party("a", 1, "a,b", 1, 3, 4, 5).party("b", 1, "a,b", 2, 3, 6, 7).session("c", 9, 2.5).fault(history.Fault{Kind: history.Expired, Session: 9}, 3.5)},
		{"Rounds", "a number again, at a new path", false, write().party("a", 1, "a,b", 1, 3, 4, 6).party("b", 1, "a,b", 2, 3, 5, 6).node("/b", "", 7, history.Deleted).party("c", 1, "c,d", 8, 9, 10, 11).party("d", 1, "c,d", 8, 9, 10, 11)},
		{"Rounds", "a number again", true, write().party("a", 1, "a,b", 1, 3, 4, 6).party("b", 1, "a,b", 2, 3, 5, 6).party("c", 1, "c,d", 8, 9, 10, 11).party("d", 1, "c,d", 8, 9, 10, 11)},
		{"Rounds", "two lists of members", true, write().party("a", 1, "a,b", 1, 3, 4, 6).party("b", 1, "b,c", 2, 3, 5, 6)},
		{"Rounds", "too few members", true, write().party("a", 1, "a", 1, 3, 4, 6)},
		{"Rounds", "not a member", true, write().party("a", 1, "b,c", 1, 3, 4, 6)},
		{"Rounds", "two rounds at once", true, write().party("a", 1, "a,b", 1, 3, 7, 8).party("b", 1, "a,b", 1, 3, 7, 8).party("c", 2, "c,d", 1, 6, 9, 10)},

		{"Latches", "open with the last arrival", false, write().latch("pass - - 1-6", "arrive a - 2-3", "arrive b - 4-7")},
		{"Latches", "open before the last arrival", true, write().latch("pass - - 1-4", "arrive a - 2-3", "arrive b - 5-6")},
		{"Latches", "open with an arrival that may have come", false, write().latch("arrive a - 1-2", "arrive? b - 3-0", "pass - - 1-5")},
		{"Latches", "open with an arrival that has failed", true, write().latch("arrive a - 1-2", "arrive! b - 3-4", "pass - - 1-5")},
		{"Latches", "open with a name that came twice", true, write().latch("arrive a - 1-2", "arrive a - 3-4", "pass - - 1-5")},
		{"Latches", "open too early, and nobody passes", false, write().latch("arrive a - 1-2", "pass! - - 1-5")},
		{"Latches", "open with a name that came twice after a deletion", false, write().latch("arrive a - 1-2", "arrive a - 3-4", "pass - - 1-5").fault(history.Fault{Kind: history.Removed, Path: "/l/a"}, 2.5)},
		{"Latches", "open with a name that came twice after a deletion elsewhere", true, write().latch("arrive a - 1-2", "arrive a - 3-4", "pass - - 1-5").fault(history.Fault{Kind: history.Removed, Path: "/l2/a"}, 2.5)},
		{"Latches", "open with a name that came twice after older data", true, write().latch("arrive a - 1-2", "arrive a - 3-4", "pass - - 1-5").fault(history.Fault{Kind: history.Restored}, 2.5)},

		{"Barriers", "lifted during the wait", false, write().plain("raise - - 1-2", "pass - - 3-6", "lift - - 4-5")},
		{"Barriers", "lifted after the wait", true, write().plain("raise - - 1-2", "pass - - 3-4", "lift - - 5-6")},
		{"Barriers", "passed while it is raised", false, write().plain("raise - - 1-4", "pass - - 2-3")},
		{"Barriers", "passed by a waiter that gave up", false, write().plain("raise - - 1-2", "pass! - - 3-4", "lift - - 5-6")},
		{"Barriers", "lifted, and raised again during the wait", false, write().plain("raise - - 1-2", "lift - - 4-5", "raise - - 5-6", "pass - - 3-7")},
		{"Barriers", "lifted, and raised again before the wait", true, write().plain("raise - - 1-2", "lift - - 2-3", "raise - - 4-5", "pass - - 6-7")},
		{"Barriers", "lifted by a process that died", false, write().plain("raise - - 1-2", "lift? - - 3-0", "pass - - 6-7")},
		{"Barriers", "a process that died cannot have lifted it twice", true, write().plain("raise - - 1-2", "lift? - - 3-0", "pass - - 6-7", "raise - - 8-9", "pass - - 10-11")},
		{"Barriers", "a lift that has failed", true, write().plain("raise - - 1-2", "lift! - - 3-4", "pass - - 6-7")},
		{"Barriers", "deleted by an operator", false, write().plain("raise - - 1-2", "pass - - 3-4").fault(history.Fault{Kind: history.Removed, Path: "/l"}, 2.5)},
		{"Barriers", "another deleted by an operator", true, write().plain("raise - - 1-2", "pass - - 3-4").fault(history.Fault{Kind: history.Removed, Path: "/l2"}, 2.5)},
		{"Barriers", "gone with older data", false, write().plain("raise - - 1-2", "pass - - 3-4").fault(history.Fault{Kind: history.Restored}, 2.5)},

		{"Once", "one runs, and all learn it", false, write().once("ask a a 1-4", "ask - a 2-5").hold("once", "a", 1, 0, 1, 2, 3)},
		{"Once", "two outcomes", true, write().once("ask a a 1-4", "ask b b 2-5")},
		{"Once", "the outcome of a run that has failed", true, write().once("ask! a - 1-4", "ask - a 5-6")},
		{"Once", "the outcome of a run whose end is unknown", false, write().once("ask? a - 1-4", "ask - a 5-6")},
		{"Once", "an outcome of nobody", true, write().once("ask - x 5-6")},
		{"Once", "an empty outcome", true, write().once("ask! - - 1-2", "ask - - 5-6")},
		{"Once", "an outcome that was learned before it was", true, write().once("ask - a 1-2", "ask a a 3-4")},
		{"Once", "a run before it was learned, whose end has failed", false, write().once("ask! b - 1-4", "ask a a 5-6", "ask - a 6-7").hold("once", "b", 1, 0, 1, 2, 3).hold("once", "a", 2, 0, 5, 5.5, 5.6)},
		{"Once", "a run after it was learned", true, write().once("ask a a 1-4", "ask! b - 3-8").hold("once", "b", 2, 0, 3, 5, 6)},
		{"Once", "a run after it was learned, whose session had expired", false, write().once("ask a a 1-4", "ask! b - 3-8").hold("once", "b", 2, 0, 3, 5, 6).fault(history.Fault{Kind: history.Expired, Session: 2}, 3.5)},
		{"Once", "a run after it was learned, of a process that was stopped", false, write().once("ask a a 1-4", "ask! b - 3-8").hold("once", "b", 2, 0, 3, 5, 6).fault(history.Fault{Kind: history.Stopped, Process: "b", For: 1950 * time.Millisecond}, 3)},
		{"Once", "a run after it was learned, of a process that was stopped after that", true, write().once("ask a a 1-4", "ask! b - 3-8").hold("once", "b", 2, 0, 3, 5, 6).fault(history.Fault{Kind: history.Stopped, Process: "b", For: 900 * time.Millisecond}, 4.1)},
		{"Once", "two outcomes after a deletion", false, write().once("ask a a 1-4", "ask b b 5-6").fault(history.Fault{Kind: history.Removed, Path: "/l/outcome"}, 4.5)},
		{"Once", "two outcomes after older data", false, write().once("ask a a 1-4", "ask b b 5-6").fault(history.Fault{Kind: history.Restored}, 4.5)},
		{"Exclusive", "two runs of a function that runs once", true, write().hold("once", "a", 1, 0, 1, 2, 5).hold("once", "b", 2, 0, 1, 4, 6)},

		{"Agreement", "all commit", false, write().decide("a=yes b=yes", "Committed Committed")},
		{"Agreement", "a site has not voted", true, write().decide("a=yes", "Committed")},
		{"Agreement", "a site has voted no", true, write().decide("a=yes b=no", "Committed")},
		{"Agreement", "two outcomes", true, write().decide("a=yes b=yes", "Committed Aborted")},
		{"Agreement", "an abort needs no reason", false, write().decide("a=yes b=yes", "Aborted Aborted")},
		{"Agreement", "two votes of a site", true, write().decide("a=yes b=yes b=no", "Aborted")},
		{"Agreement", "a vote that an operator has deleted", false, write().decide("a=yes b=no b=yes", "Aborted").fault(history.Fault{Kind: history.Removed, Path: "/c/x/t/n-b"}, 3.12)},
		{"Agreement", "a vote beside which an operator has deleted another's", true, write().decide("a=yes b=no b=yes", "Aborted").fault(history.Fault{Kind: history.Removed, Path: "/c/x/u/n-b"}, 3.12)},
		{"Agreement", "a vote again, of a new process", false, write().decide("a=yes b=yes b=yes", "Committed Committed")},
		{"Agreement", "a vote of a dead process that happened", false, write().decide("a=yes b=yes?", "Committed Committed")},
		{"Agreement", "a vote of a dead process that did not happen", false, write().decide("a=yes b=yes? b=no", "Aborted Aborted")},
		{"Agreement", "a vote of a dead process that cannot have happened", true, write().decide("a=yes b=yes? b=no", "Committed Committed")},
		{"Agreement", "a refusal of a dead process is no consent", true, write().decide("a=yes b=no?", "Committed Committed")},

		{"Grammar", "a lock", false, write().words("lock", "Waiting Waiting Acquired Suspended Resumed Released")},
		{"Grammar", "granted twice, in the format of another library", true, write().words("lock-curator", "Acquired Acquired Released")},
		{"Grammar", "an instance", false, write().words("discovery", "Registered Suspended Resumed Gone Registered Unregistered")},
		{"Grammar", "an instance that is registered twice", true, write().words("discovery", "Registered Registered Unregistered")},
		{"Grammar", "granted twice", true, write().words("lock", "Acquired Acquired Released")},
		{"Grammar", "no end", true, write().words("lock", "Waiting Acquired")},
		{"Grammar", "resumed without a suspension", true, write().words("semaphore", "Acquired Resumed Released")},
		{"Grammar", "a session", false, write().words("session", "Connected Suspended Resumed Suspended Lapsed Resumed Suspended Lapsed Expired Connected Closed")},
		{"Grammar", "a session that lapses while it is connected", true, write().words("session", "Connected Lapsed Suspended Resumed Closed")},
		{"Grammar", "an election", false, write().words("election", "Standing Elected LeaderChanged Deposed Elected Suspended Deposed Left")},
		{"Grammar", "elected twice", true, write().words("election", "Elected Elected Left")},
		{"Grammar", "after the last", true, write().words("group", "Joined Left MembersChanged Joined")},
		{"Grammar", "entered without leaving", true, write().words("barrier", "Waiting Entered Waiting Entered Closed")},
		{"Grammar", "a barrier that was raised twice", false, write().words("plain", "Raised Raised Released Closed")},
		{"Grammar", "a barrier that was closed before its last event", true, write().words("plain", "Raised Closed Released")},
		{"Grammar", "a killed process ends anywhere", false, write().words("lock", "Waiting Acquired").fault(history.Fault{Kind: history.Killed, Process: "1"}, 9)},

		{"Ordered", "each version", false, watched().state("", 0, 1, 0.5).state("x", 1, 1, 1.5).state("y", 2, 1, 2.5).state("", 0, 1, 3.5)},
		{"Ordered", "some are left out", false, watched().state("x", 1, 1, 1.5).state("", 0, 1, 3.5)},
		{"Ordered", "back", true, watched().state("y", 2, 1, 2.5).state("x", 1, 1, 2.6)},
		{"Ordered", "back to no node", true, watched().state("z", 4, 1, 4.5).state("", 0, 1, 4.6)},
		{"Ordered", "back by a restore", false, watched().state("y", 2, 1, 2.5).commit(history.Commit{At: at(5), Restored: true, Changes: []history.Change{{Kind: history.Created, Path: "/n", Data: "x"}}}).state("x", 1, 1, 5.5)},

		{"Unique", "each once", false, watched().state("x", 1, 1, 1.5).state("y", 2, 1, 2.5)},
		{"Unique", "one twice", true, watched().state("x", 1, 1, 1.5).state("x", 1, 1, 1.6)},

		{"Reliable", "arrives", false, watched().state("x", 1, 1, 1.5).state("z", 4, 1, 4.5).watcher(judge.Stopped, 5)},
		{"Reliable", "does not arrive", true, watched().state("x", 1, 1, 1.5).watcher(judge.Stopped, 5)},
		{"Reliable", "a state that never was", true, watched().state("w", 2, 1, 2.5)},
		{"Reliable", "a state from the future", true, watched().state("z", 4, 1, 3.5)},

		{"Resumable", "the new session begins with what there is", false, watched().connected(2, 3.1).state("x", 1, 1, 1.5).state("", 0, 2, 3.5)},
		{"Resumable", "the new session begins with what was", true, watched().connected(2, 3.1).state("x", 1, 1, 1.5).state("y", 2, 2, 3.5)},

		{"Converged", "all members", false, watched().node("/g/a", "", 5, history.Created).members("a", 6).observer(judge.Stopped, 7)},
		{"Converged", "one is missing", true, watched().node("/g/a", "", 5, history.Created).node("/g/b", "", 5.5, history.Created).members("a", 6).observer(judge.Stopped, 7)},

		{"Explained", "a replacement is no absence", false, taken().members("a", 6).members("a", 7)},
		{"Explained", "a member that stood is lost", true, taken().members("a", 6).members("", 7)},
		{"Explained", "a member that had come back is lost", true, taken().node("/g/a", "", 8, history.Deleted).node("/g/a", "", 9, history.Created).members("a", 6).members("", 8.5).members("a", 9.5).members("", 9.6)},
		{"Explained", "before it is gone", true, taken().node("/g/a", "", 8, history.Deleted).members("a", 6).members("", 7)},
		{"Explained", "after it is gone", false, taken().node("/g/a", "", 8, history.Deleted).members("a", 6).members("", 8.5)},
		{"Explained", "one that never was", true, taken().node("/g/b", "", 8, history.Created).members("a,b", 7)},

		{"NoGhosts", "all gone", false, write().commit(history.Commit{Changes: []history.Change{{Kind: history.Created, Path: "/l/a", Owner: 1}}}).node("/l/a", "", 2, history.Deleted)},
		{"NoGhosts", "one left", true, write().commit(history.Commit{Changes: []history.Change{{Kind: history.Created, Path: "/l/a", Owner: 1}}})},
		{"NoGhosts", "a persistent node is none", false, write().node("/l/a", "", 2, history.Created)},

		{"Progress", "moves on", false, write().words("lock", "Waiting Acquired Released")},
		{"Progress", "stuck", true, write().words("lock", "Waiting stuck")},
	}
}

// watched returns a script in which /n is created, set, deleted, and created again.
func watched() *script {
	return write().node("/n", "x", 1, history.Created).node("/n", "y", 2, history.Set).node("/n", "", 3, history.Deleted).node("/n", "z", 4, history.Created)
}

// taken has a member that another session takes over at second 5.
func taken() *script {
	const path = "/g/a"
	return watched().node(path, "1", 4, history.Created).commit(history.Commit{Zxid: 5, At: at(5), Changes: []history.Change{
		{Kind: history.Deleted, Path: path}, {Kind: history.Created, Path: path, Data: "2", Owner: 2},
	}})
}

func (s *script) connected(session int64, second float64) *script {
	return s.session("1", session, second)
}

// session begins a session of a process.
func (s *script) session(process string, id int64, second float64) *script {
	return s.told(history.Told{Process: process, Recipe: "session", Kind: judge.Connected, Session: id}, second)
}

func (s *script) watcher(kind string, second float64) *script {
	return s.told(history.Told{Process: "1", Recipe: "watch", Path: "/n", Handle: "w", Kind: kind}, second)
}

func (s *script) members(names string, second float64) *script {
	return s.told(history.Told{Process: "1", Recipe: "group", Path: "/g", Handle: "w", Kind: judge.Members, Value: names}, second)
}

func (s *script) observer(kind string, second float64) *script {
	return s.told(history.Told{Process: "1", Recipe: "group", Path: "/g", Handle: "w", Kind: kind}, second)
}

// gone deletes the node of a, at second 4, with the end of a session.
func gone(session int64) history.Commit {
	return history.Commit{At: at(4), Closes: session, Changes: []history.Change{{Kind: history.Deleted, Path: "/l/a"}}}
}

// TestCheckers: each checker refuses the histories that break its promise, and no other.
func TestCheckers(t *testing.T) {
	convicted := make(map[string]bool)
	byName := make(map[string]judge.Checker)
	for _, c := range judge.Checkers() {
		byName[c.Name] = c
	}
	for _, j := range judgements() {
		t.Run(j.checker+"/"+j.name, func(t *testing.T) {
			got := byName[j.checker].Judge(&j.evidence.History)
			check.True(t, (len(got) > 0) == j.guilty, "%v", got)
			for _, v := range got {
				check.Equal(t, v.Check, j.checker)
				check.True(t, strings.HasPrefix(v.String(), j.checker+": "), "%s", v)
			}
		})
		convicted[j.checker] = convicted[j.checker] || j.guilty
	}
	for name := range byName {
		check.True(t, convicted[name], "no history shows that %s can convict", name)
	}
}

// TestAll: a history is judged by all checkers.
func TestAll(t *testing.T) {
	s := write().hold("lock", "a", 1, 0, 1, 2, 5).hold("lock", "b", 2, 0, 1, 4, 6).words("lock", "Acquired")
	check.Len(t, judge.All(&s.History), 2)
}
