package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

const (
	guid = "6d5b3a34-4b0f-4b0a-9d5e-3b1c8a6f2e10"
	hex  = "6d5b3a344b0f4b0a9d5e3b1c8a6f2e10"
)

// The names of nodes, as each library writes them.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"_c_" + guid + "-lock-0000000007":      "lock standard exclusive", // also Curator's mutex
		"_c_" + guid + "-read-0000000007":      "lock standard read",
		"_c_" + guid + "-write--000000007":     "lock standard write", // -7
		"_c_" + guid + "-write-0000000007":     "lock standard write",
		"_c_" + guid + "-write--0000000007":    "", // there is no such number
		"_c_" + guid + "-__READ__0000000007":   "lock curator read",
		"_c_" + guid + "-__WRIT__0000000007":   "lock curator write",
		hex + "__lock__0000000007":             "lock kazoo exclusive",
		hex + "__rlock__0000000007":            "lock kazoo read",
		"_c_" + guid + "-latch-0000000007":     "election curator lead",
		"_c_" + guid + "-n_0000000007":         "election published lead",
		"n_0000000007":                         "election published lead",
		"_c_" + guid + "-lease-0000000007":     "semaphore standard lease",
		"_c_" + guid + "-lease-3-0000000007":   "semaphore standard lease",
		"_c_" + guid + "-lease-0-0000000007":   "",
		"_c_" + guid + "-lease-03-0000000007":  "",
		"lock-0000000007":                      "lock standard exclusive", // go-zookeeper
		"x-72057594037927936-0000000007":       "lock standard exclusive", // ZooKeeper's WriteLock
		"x--72057594037927936-0000000007":      "lock standard exclusive",
		"x-y-0000000007":                       "",
		"lock-7":                               "",
		"padlock-0000000007":                   "",
		"lock-00000000007":                     "",
		"":                                     "",
		"holder":                               "",
		"_c_" + guid + "-item-0000000007":      "",
		"_c_" + guid + "-queue-0000000007":     "",
		"_c_" + guid + "-waiter-0000000007":    "",
		"_c_" + guid + "-p1000-up-0000000007":  "",
		"_c_" + guid + "-lock-99999999999":     "",
		"_c_" + guid + "-lock-+000000007":      "",
		"_c_" + guid + "-lock-000000000\u0667": "",
	} {
		got := ""
		if s, ok := parseStanding(name); ok {
			got = string(s.recipe) + " " + s.layout + " " + s.want()
		}
		check.True(t, got == want, "%s is %q, want %q", name, got, want)
	}
	for name, want := range map[string]string{
		"queue-0000000001": published, "qn-0000000001": curator, "entry-100-0000000001": kazoo,
		"queue-1": "", "qn-": "", "entry-0000000001": "", "x": "", "": "",
	} {
		if got := nodes.FlatItem(name); got != want {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
}

// Numbers wrap, and the line keeps its order.
func TestOrderAfterWrap(t *testing.T) {
	all := standings([]string{"b-lock--2147483648", "c-lock--2147483647", "a-lock-2147483647"})
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"a-lock-2147483647", "b-lock--2147483648", "c-lock--2147483647"}) {
		t.Error(names)
	}
}

// A tree of nodes, for recognition without a server. A directory ends with a slash.
type tree map[string]string

func (tr tree) read(k key, _ care) *found {
	f := &found{stat: &session.Stat{Ctime: 1000, Czxid: 5}}
	for path, data := range tr {
		path, ephemeral := strings.CutPrefix(path, "~")
		if ephemeral && path == k.path {
			f.stat.EphemeralOwner = 1
		}
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(k.path, "/")+"/")
		if below && rest != "" {
			name, _, _ := strings.Cut(rest, "/")
			if !slices.Contains(f.names, name) {
				f.names = append(f.names, name)
			}
		}
		if path == k.path {
			f.data = []byte(data)
		}
	}
	slices.Sort(f.names)
	f.stat.NumChildren = int32(len(f.names))
	return f
}

// Unexpected nodes are recognised as something, or nothing, and not as what they are not.
func TestOddTrees(t *testing.T) {
	for _, test := range []struct {
		what string
		tree tree
		want string
	}{
		{"locks of two layouts", tree{"/l/lock-0000000001": "a", "/l/" + hex + "__lock__0000000002": "b"}, "/l lock mixed"},
		{"a mutex among Curator's readers", tree{"/l/lock-0000000001": "a", "/l/_c_x-__READ__0000000002": "b"}, "/l lock curator"},
		{"a lock with a stranger", tree{"/l/lock-0000000001": "a", "/l/config": "b"}, "/l lock standard; /l values "},
		{"directories that are called items", tree{"/shop/items/books": "a", "/shop/items/pens": "b"}, "/shop/items values "},
		{"leases of nobody", tree{"/house": "", "/house/leases/2024": "x"}, "/house semaphore standard; /house/leases values "},
		{"a lease of Curator's, and nobody waits", tree{"/s/leases/_c_" + guid + "-lease-0000000001": "a"}, "/s semaphore curator"},
		{"a value that is a number", tree{"/config/limit": "10"}, "/config values "},
		{"a limit", tree{"/limits/a": "10 unit"}, "/limits/a semaphore standard"},
		{"a queue with dead letters", tree{"/q/items/paused": "", "/q/dead/items/2147483648-0000000000/x": "a"}, "/q queue standard; /q/dead queue standard"},
		{"a directory that is called dead", tree{"/books/dead/souls": "a"}, "/books/dead values "},
		{"a queue with a stranger", tree{"/q/queue-0000000001": "a", "/q/readme": "b"}, "/q values "},
		{"half a transaction", tree{"/tx/t1": `{"guid":"g","sites":["a"],"mode":0}` + "\n", "/tx/t1/g/s-a": ""}, "/tx transactions "},
		{"JSON that is none", tree{"/tx/t1": `{"guid":"g"}`}, "/tx values "},
		{"members and a value", tree{"~/m/a": "x", "/m/b": "y"}, "/m values "},
		{"members", tree{"~/m/a": "x", "~/m/b": ""}, "/m group "},
		{"a gate", tree{"~/gates/g": "gate-" + guid}, "/gates group "}, // it was not written to, as gates are
		{"a broken leader", tree{"/e/candidates/n_0000000001": "a", "/e/leader": "nonsense"}, "/e election standard"},
		{"a lock in the root", tree{"/lock-0000000001": "a", "/locks/backup/lock-0000000001": "b", "/zookeeper/config": "x"}, "/ lock standard; /locks/backup lock standard"},
		{"a lock below a lock with priorities", tree{"/l/_c_" + guid + "-p1000-write-0000000001": "a", "/l/k/lock-0000000001": "b"}, "/l lock prioritized; /l/k lock standard"},
		{"a lock below a lock of kazoo", tree{"/l/" + hex + "__lock__0000000002": "b", "/l/k/lock-0000000001": "b"}, "/l lock kazoo; /l/k lock standard"},
		{"a lock below a double barrier", tree{"/d": "double-barrier-1 0 2\n", "/d/1/in": "", "/d/l/lock-0000000001": "b"}, "/d double barrier standard; /d/l lock standard"},
		{"a successor leads", tree{"/e/candidates/n_0000000001": "a", "/e/leader": "nonsense", "~/e/successors/n_0000000001": ""}, "/e election standard"},
		{"a lock below a latch that is not open", tree{"/x": "zkactors latch 2 1", "/x/l/lock-0000000001": "b", "/x/y": ""}, "/x latch ; /x/l lock standard"},
		{"a lock below a latch", tree{"/x": "zkactors latch 2 0", "/x/l/lock-0000000001": "b", "/x/y": ""}, "/x latch ; /x/l lock standard"},
		{"a semaphore in the root, and locks", tree{"/": "2 unit", "/leases/_c_" + guid + "-lease-0000000001": "a", "/locks/backup/lock-0000000001": "b"}, "/ semaphore curator; /locks/backup lock standard"},
		{"an election in the root", tree{"/candidates/_c_" + guid + "-n_0000000001": "a", "/candidates/x/lock-0000000001": "b", "/config/limit": "10"}, "/ election standard; /candidates/x lock standard; /config values "},
		{"a lock beside leases of kazoo", tree{"/s/" + hex: "a", "/s/l/lock-0000000001": "b"}, "/s semaphore kazoo; /s/l lock standard"},
		{"the system", tree{"/zookeeper/quota": "", "/zookeeper/config": "x"}, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			r := newRecogniser((*Options)(nil).withDefaults(), false, test.tree.read)
			survey := r.survey("/")
			var got []string
			for _, thing := range survey.Things {
				got = append(got, thing.Path+" "+string(thing.Kind)+" "+thing.Layout)
			}
			if strings.Join(got, "; ") != test.want || len(r.wants) > 0 {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// Whatever nodes contain, recognition ends, without a panic and in a time that grows with their
// number: it does not read each node often.
func FuzzRecognise(f *testing.F) {
	f.Add("/a\n/a/lock-0000000001\n/a/leases\nx", "10 unit")
	f.Add("/d/1/in/x", "double-barrier-1 1 2\n")
	f.Add("/d/candidates/n_0000000001\n/d/leader", "leader 1\nnode n_0000000001\n\n")
	f.Add("/d/holder\n/d/_c_"+guid+"-p1000-write-0000000001", "priority 1")
	f.Add("/t/g/s-a", `{"guid":"g","sites":["a"]}`)
	f.Fuzz(func(t *testing.T, paths, data string) {
		const most = 32 // reads of a node
		nodes, n := make(tree), 1
		for path := range strings.SplitSeq(paths, "\n") {
			if session.ValidatePath(path) == nil && path != "/" {
				nodes[path] = data
				n += strings.Count(path, "/") // with those above it
			}
		}
		for _, live := range []bool{false, true} {
			reads := 0
			r := newRecogniser((*Options)(nil).withDefaults(), live, func(k key, c care) *found {
				reads++
				return nodes.read(k, c)
			})
			check.True(t, r.survey("/") != nil, "%q, %q", paths, data)
			check.AtMost(t, reads, most*n, "reads of", n, "nodes", paths, data)
		}
	})
}

// A watch that has ended is forgotten: what comes and goes leaves nothing behind.
func TestEndedWatchesAreForgotten(t *testing.T) {
	of := key{"/l/_c_x-lock-0000000001", session.AspectData}
	m := &surveyor{path: "/l", phase: pausing, watches: 1, known: map[key]*known{of: {found: &found{}, care: watched, serial: 7, watched: true}}}
	var out effects
	m = m.Step(told{key: of, serial: 7, over: true, found: &found{err: session.ErrNoNode}}, &out)
	check.False(t, !slices.Contains(out.Do, effect(forget{of})) || m.watches != 0 || m.known[of].watched, "%+v, %d watches", out.Do, m.watches)
}
