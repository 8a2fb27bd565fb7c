package judge

import (
	"regexp"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of events that streams consist of, beside those of the recipes.
const (
	State     = "state"     // of a watched node, with Zxid and Value; a Zxid of 0 means that there is none
	Members   = "members"   // of a watched directory: Value has the names with commas between
	Stopped   = "stopped"   // the user has closed the handle, after all faults: nothing more is owed
	Connected = "Connected" // a new session
)

// grammars are what recipes promise of the events of a handle, each event behind a space. Stopped
// may cut a stream off.
func grammars() map[string]string {
	const held = `(( Waiting)*( Acquired( Suspended Resumed)*( Suspended)?( Released| Lost)| Released| Failed))`
	const revocable = `(( Waiting)*( Acquired( Suspended| Resumed| Revoked)*( Released| Lost)| Released| Failed))`
	const kept = `(( Suspended Resumed)*( Suspended)?)`
	const session = ` Connected( Suspended( Lapsed)? Resumed)*( Suspended( Lapsed)?)?`
	return map[string]string{
		"lock":      revocable,
		"readwrite": revocable,
		"semaphore": held,
		"election":  `(( Elected` + kept + ` Deposed)* Left)`,
		"barrier":   `((( Waiting)*( Entered( Leaving)*( Left| Lost)| Withdrawn))*( Waiting)*( Entered( Leaving)*)? Closed)`,
		"plain":     `(( Raised| Released)* Closed)`,
		"gate":      `(( Raised)?( Released| Lost))`,
		"group":     `(( Joined` + kept + ` Gone)*( Joined` + kept + `)? Left)`,
		"discovery": `(( Registered` + kept + ` Gone)*( Registered` + kept + `)? Unregistered)`,
		"naming":    `(( Registered` + kept + ` Gone)*( Registered` + kept + `)? Unregistered)`,
		"session":   `((` + session + ` Expired)*(` + session + `)? Closed)`,
		"shard":     `(( Joined` + kept + ` Gone)*( Joined` + kept + `)? Left)`,
		"config":    `(( Changed| Deleted| Invalid)* Closed)`,
	}
}

// anywhere are events that may stand anywhere in a stream: it is judged without them.
var anywhere = []string{"Standing", "LeaderChanged", "Overrun", "MembersChanged", "Blinded", "Assigned", "Revoke", "ShardLost", State, Members, Stuck} //nolint:gochecknoglobals // a constant

// A stream is what one handle told.
type stream struct {
	first history.Told // for its names
	all   []history.Told
}

// streamsOf returns the streams of the history, in the order in which they began.
func streamsOf(h *history.History) []*stream {
	type key struct{ process, recipe, path, handle string }
	byHandle := make(map[key]*stream)
	var all []*stream
	for _, t := range h.Told {
		k := key{t.Process, t.Recipe, t.Path, t.Handle}
		s := byHandle[k]
		if s == nil {
			s = &stream{first: t}
			byHandle[k] = s
			all = append(all, s)
		}
		s.all = append(s.all, t)
	}
	return all
}

// Grammar checks that each handle tells what its recipe's grammar says. The streams of processes
// that were killed may end anywhere.
func Grammar(h *history.History) []Violation {
	v := verdict{check: "Grammar"}
	rules := make(map[string]*regexp.Regexp)
	for recipe, rule := range grammars() {
		rules[recipe] = regexp.MustCompile(`^` + rule + `$`)
	}
	killed := make(map[string]bool)
	for _, f := range h.Faults {
		killed[f.Process] = killed[f.Process] || f.Kind == history.Killed
	}
	for _, s := range streamsOf(h) {
		rule := rules[family(s.first.Recipe)]
		if rule == nil || s.first.Handle == "" || killed[s.first.Process] {
			continue
		}
		var word strings.Builder
		for _, t := range s.all {
			if !slices.Contains(anywhere, t.Kind) {
				word.WriteString(" " + t.Kind)
			}
		}
		if word.Len() > 0 && !rule.MatchString(word.String()) {
			v.add(s.first.Recipe, s.first.Path, "%s tells%s", s.first.Handle, word.String())
		}
	}
	return v.all
}

// A version is a state that a node had.
type version struct {
	zxid   int64 // 0 if older data has brought it back: then only its value counts
	exists bool
	value  string
	since  history.Moment
}

func (v version) is(t history.Told) bool {
	if t.Zxid == 0 {
		return !v.exists
	}
	return v.exists && v.value == t.Value && (v.zxid == 0 || v.zxid == t.Zxid)
}

// versionsOf returns the states of a node, in order.
func versionsOf(h *history.History, path string) []version {
	all := []version{{}}
	for _, c := range h.Commits {
		if c.Restored {
			all = append(all, version{since: c.At})
		}
		for _, ch := range c.Changes {
			if ch.Path != path {
				continue
			}
			v := version{zxid: c.Zxid, exists: ch.Kind != history.Deleted, value: ch.Data, since: c.At}
			if c.Restored {
				v.zxid = 0
				all = all[:len(all)-1] // the node was never away
			}
			all = append(all, v)
		}
	}
	return all
}

// A sighting is a state that a watcher received, with the first version that it can be.
type sighting struct {
	told    history.Told
	version int // -1 if the tree never had it; of the latest that it can be if that is behind the last
	back    bool
}

// sightingsOf follows a watcher through the versions of its node.
func sightingsOf(versions []version, s *stream) []sighting {
	var all []sighting
	last := 0
	for _, t := range s.all {
		if t.Kind != State {
			continue
		}
		at := slices.IndexFunc(versions[last:], func(v version) bool { return v.is(t) })
		got := sighting{told: t, version: last + at}
		if at < 0 {
			got.version = slices.IndexFunc(versions, func(v version) bool { return v.is(t) })
			got.back = got.version >= 0
		} else {
			last += at
		}
		all = append(all, got)
	}
	return all
}

// eachWatcher calls f for each stream of states.
func eachWatcher(h *history.History, f func(s *stream, versions []version, all []sighting)) {
	known := make(map[string][]version)
	for _, s := range streamsOf(h) {
		if !slices.ContainsFunc(s.all, func(t history.Told) bool { return t.Kind == State }) {
			continue
		}
		path := s.first.Path
		if known[path] == nil {
			known[path] = versionsOf(h, path)
		}
		f(s, known[path], sightingsOf(known[path], s))
	}
}

// Ordered checks that no watcher goes back: each state is of the same version of its node as the
// last, or of a later one. That holds from one session to the next, too.
func Ordered(h *history.History) []Violation {
	v := verdict{check: "Ordered"}
	eachWatcher(h, func(s *stream, _ []version, all []sighting) {
		for _, got := range all {
			if got.back {
				v.add(s.first.Recipe, s.first.Path, "%s goes back to %q of zxid %d at %v", s.first.Handle, got.told.Value, got.told.Zxid, got.told.At.At)
			}
		}
	})
	return v.all
}

// Unique checks that no watcher receives one version of a node twice in a row.
func Unique(h *history.History) []Violation {
	v := verdict{check: "Unique"}
	eachWatcher(h, func(s *stream, versions []version, all []sighting) {
		for i, got := range all[1:] {
			former := all[i]
			if got.version == former.version && got.version >= 0 && versions[got.version].exists && !got.back {
				v.add(s.first.Recipe, s.first.Path, "%s receives %q of zxid %d again at %v", s.first.Handle, got.told.Value, got.told.Zxid, got.told.At.At)
			}
		}
	})
	return v.all
}

// Reliable checks that each state is one that the node had before, and that a watcher which was
// there to the end has arrived at the last.
func Reliable(h *history.History) []Violation {
	v := verdict{check: "Reliable"}
	eachWatcher(h, func(s *stream, versions []version, all []sighting) {
		for _, got := range all {
			if got.version < 0 || got.told.At.Before(versions[got.version].since) {
				v.add(s.first.Recipe, s.first.Path, "%s receives %q of zxid %d at %v, which the tree did not have", s.first.Handle, got.told.Value, got.told.Zxid, got.told.At.At)
			}
		}
		end := s.all[len(s.all)-1]
		if final := versions[len(versions)-1]; end.Kind == Stopped && !final.is(all[len(all)-1].told) {
			v.add(s.first.Recipe, s.first.Path, "%s ends with %q of zxid %d, the tree has %q of zxid %d", s.first.Handle, all[len(all)-1].told.Value, all[len(all)-1].told.Zxid, final.value, final.zxid)
		}
	})
	return v.all
}

// A life is one session of a process.
type life struct {
	process string
	session int64
}

// livesOf returns when the sessions began.
func livesOf(h *history.History) map[life]history.Moment {
	began := make(map[life]history.Moment)
	for _, t := range h.Told {
		if t.Recipe == "session" && t.Kind == Connected {
			began[life{t.Process, t.Session}] = t.At
		}
	}
	return began
}

// Resumable checks that the first state that a watcher receives in a new session is no older than
// the beginning of that session.
func Resumable(h *history.History) []Violation {
	v := verdict{check: "Resumable"}
	began := livesOf(h)
	eachWatcher(h, func(s *stream, versions []version, all []sighting) {
		for i, got := range all {
			if i == 0 || got.version < 0 || all[i-1].told.Session == got.told.Session {
				continue
			}
			since, ok := began[life{got.told.Process, got.told.Session}]
			if ok && !got.back && !stood(versions[got.version:], got.told, since) {
				v.add(s.first.Recipe, s.first.Path, "%s receives %q of zxid %d at %v, which was over before its session began at %v", s.first.Handle, got.told.Value, got.told.Zxid, got.told.At.At, since.At)
			}
		}
	})
	return v.all
}

// stood reports whether one of the versions that a state can be stood at the moment, or later.
func stood(versions []version, t history.Told, since history.Moment) bool {
	for i, v := range versions {
		last := i+1 == len(versions) || versions[i+1].since.At >= since.At
		if v.is(t) && last && !t.At.Before(v.since) {
			return true
		}
	}
	return false
}

// Converged checks that each watcher of members which was there to the end has arrived at those
// that the tree had then.
func Converged(h *history.History) []Violation {
	v := verdict{check: "Converged"}
	for _, s := range streamsOf(h) {
		end := s.all[len(s.all)-1]
		if end.Kind != Stopped {
			continue
		}
		for _, t := range slices.Backward(s.all) {
			if t.Kind != Members {
				continue
			}
			if want := childrenAt(h, s.first.Path, end.At); t.Value != want {
				v.add(s.first.Recipe, s.first.Path, "%s ends with %s, the tree has %s", s.first.Handle, t.Value, want)
			}
			break
		}
	}
	return v.all
}

// childrenAt returns the names of the children of a node at a moment, with commas between.
func childrenAt(h *history.History, dir string, at history.Moment) string {
	names := make(map[string]bool)
	for _, c := range h.Commits {
		if at.Before(c.At) {
			break
		}
		if c.Restored {
			clear(names)
		}
		for _, ch := range c.Changes {
			name, ok := strings.CutPrefix(ch.Path, dir+"/")
			if !ok || strings.Contains(name, "/") {
				continue
			}
			if ch.Kind == history.Deleted {
				delete(names, name)
			} else {
				names[name] = true
			}
		}
	}
	return strings.Join(sortedKeys(names), ",")
}

// Explained checks that a watcher of members loses none that stood all the time: a node that one
// transaction replaces, as at a restart by takeover, was never away. Each name comes and goes in
// the reports as it did in the tree, and no sooner.
func Explained(h *history.History) []Violation {
	v := verdict{check: "Explained"}
	known := make(map[string]map[string][]history.Moment)
	for _, s := range streamsOf(h) {
		path := s.first.Path
		passed := make(map[string]int) // how often a name has come and gone, as far as the reports show
		for _, t := range s.all {
			if t.Kind != Members {
				continue
			}
			if known[path] == nil {
				known[path] = turnsOf(h, path)
			}
			for name, turns := range known[path] {
				if slices.Contains(strings.Split(t.Value, ","), name) == (passed[name]%2 == 1) {
					continue
				}
				if at := passed[name]; at < len(turns) && !t.At.Before(turns[at]) {
					passed[name]++
					continue
				}
				v.add(s.first.Recipe, path, "%s receives %q at %v, which no moment of the tree explains: %s", s.first.Handle, t.Value, t.At.At, name)
				return v.all
			}
		}
	}
	return v.all
}

// turnsOf returns when each child of a node came, and went, and came again.
func turnsOf(h *history.History, dir string) map[string][]history.Moment {
	turns := make(map[string][]history.Moment)
	for _, c := range h.Commits {
		there := make(map[string]bool) // after the transaction, of the names that it concerns
		if c.Restored {
			for name := range turns {
				there[name] = false
			}
		}
		for _, ch := range c.Changes {
			if name, ok := strings.CutPrefix(ch.Path, dir+"/"); ok && !strings.Contains(name, "/") {
				there[name] = ch.Kind != history.Deleted
			}
		}
		for name, is := range there {
			if is != (len(turns[name])%2 == 1) {
				turns[name] = append(turns[name], c.At)
			}
		}
	}
	return turns
}
