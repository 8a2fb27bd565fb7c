package zkmodel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// A play is a world whose answers are noted.
type play struct {
	*zkmodel.World
	said []string
}

func newPlay(faults zkmodel.Faults, sessions int) *play {
	return &play{World: zkmodel.New(faults, sessions, zkmodel.Node{Path: "/d", Czxid: 1, Mzxid: 1, Pzxid: 1})}
}

func (p *play) note(format string, args ...any) {
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

func (p *play) create(client int, path string, mode session.CreateMode) {
	p.Sessions[client].Async(0).Create(path, nil, mode, func(node string, err error) { p.note("create %s %v", node, short(err)) })
}

func (p *play) list() {
	p.Sessions[0].Async(0).Children("/d", func(names []string, _ *session.Stat, err error) { p.note("list %v %v", names, short(err)) })
}

func (p *play) follow(path string, aspect session.Aspect, lasting bool) {
	p.Sessions[0].Async(0).Follow(path, aspect, lasting, func(r session.Reading, err error) {
		p.note("follow %s %v %t %v", path, r.Names, r.Stat != nil, short(err))
	})
}

func short(err error) string {
	for text, target := range map[string]error{
		"no node": session.ErrNoNode, "exists": session.ErrNodeExists, "expired": session.ErrExpired, "version": session.ErrBadVersion,
	} {
		if errors.Is(err, target) {
			return text
		}
	}
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, session.ErrUnknownOutcome):
		return "unknown"
	case errors.Is(err, session.ErrDisconnected):
		return "lost"
	}
	return err.Error()
}

// do lets things happen: kinds of actions, of the session 0 unless a number follows.
func (p *play) do(all ...string) {
	for _, what := range all {
		a := zkmodel.Action{}
		_, _ = fmt.Sscan(what, &a.Kind, &a.I, &a.Variant)
		normal, faulty := p.Actions()
		if a.Kind == "strike" {
			a.Node, a.I = "/d/a", 0
		}
		if !slices.Contains(append(normal, faulty...), a) {
			p.note("no %s", what)
			continue
		}
		p.Apply(a)
	}
}

// TestStories are histories whose answers are known.
func TestStories(t *testing.T) {
	once := zkmodel.Faults{Cuts: 1, Lates: 1, Expires: 1, Kills: 1, Lags: 1, Strikes: 1, Busy: 1, Restores: 1, Relapses: 1}
	for _, story := range []struct {
		name string
		play func(p *play)
		said []string
	}{
		{"requests are executed in order", func(p *play) {
			p.create(0, "/d/a", session.Persistent)
			p.create(0, "/d/b-", session.EphemeralSequential)
			p.list()
			p.do("serve", "serve", "serve")
		}, []string{"create /d/a ok", "create /d/b-0000000001 ok", "list [a b-0000000001] ok"}},
		{"a transaction is all or nothing", func(p *play) {
			p.Sessions[0].Async(1).Multi([]session.Op{
				session.CreateOp("/d/a", nil, session.Persistent), session.CheckOp("/d", 5), session.DeleteOp("/d", -1),
			}, func(r []session.OpResult, err error) { p.note("%d %v %v %v", len(r), r[0].Path, r[1].Err, short(err)) })
			p.list()
			p.do("serve", "serve")
		}, []string{"3  version does not match version", "list [] ok"}},
		{"a watch fires and is read again", func(p *play) {
			p.follow("/d", session.AspectChildren, false)
			p.create(1, "/d/a", session.Persistent)
			p.do("serve", "serve 1", "serve")
		}, []string{"follow /d [] true ok", "create /d/a ok", "follow /d [a] true ok"}},
		{"a deletion ends what does not last", func(p *play) {
			p.create(1, "/d/a", session.Persistent)
			p.do("serve 1")
			p.follow("/d/a", session.AspectData, false)
			p.do("serve", "strike")
		}, []string{"create /d/a ok", "follow /d/a [] true ok", "follow /d/a [] false no node"}},
		{"what lasts waits for a node", func(p *play) {
			p.follow("/d/a", session.AspectData, true)
			p.do("serve", "serve")
			p.create(1, "/d/a", session.Persistent)
			p.do("serve 1", "serve")
		}, []string{"follow /d/a [] false ok", "create /d/a ok", "follow /d/a [] true ok"}},
		{"a reply is lost", func(p *play) {
			p.create(0, "/d/a", session.Persistent)
			p.list()
			p.do("cut", "serve", "notice", "reconnect")
			p.list()
			p.do("serve")
		}, []string{"create  unknown", "list [] lost", "list [a] ok"}},
		{"a request is never sent", func(p *play) {
			p.create(0, "/d/a", session.Persistent)
			p.do("cut", "notice 0 2", "reconnect")
			p.list()
			p.do("serve")
		}, []string{"create  lost", "list [] ok"}},
		{"a request is done late", func(p *play) {
			p.create(0, "/d/a", session.Persistent)
			p.do("cut", "notice 0 4", "reconnect")
			p.list()
			p.do("serve", "late")
			p.list()
			p.do("serve")
		}, []string{"create  unknown", "list [] ok", "list [a] ok"}},
		{"a watch is missed, and fires after the reconnect", func(p *play) {
			p.follow("/d", session.AspectChildren, false)
			p.do("serve", "cut")
			p.create(1, "/d/a", session.Persistent)
			p.do("serve 1", "notice", "reconnect", "serve")
		}, []string{"follow /d [] true ok", "create /d/a ok", "follow /d [a] true ok"}},
		{"ephemerals go with a session that the server buries", func(p *play) {
			p.create(0, "/d/a", session.Ephemeral)
			p.do("serve", "cut", "expire", "connect")
			p.list()
			p.do("serve", "bury")
			p.list()
			p.do("serve")
		}, []string{"create /d/a ok", "list [a] ok", "list [] ok"}},
		{"requests of another epoch are refused", func(p *play) {
			p.do("cut", "expire", "connect")
			p.Sessions[0].Async(1).Sync("/d", func(err error) { p.note("sync %v", short(err)) })
			p.do("bury")
		}, []string{"sync expired"}},
		{"a client is told of its expiry when it reconnects", func(p *play) {
			p.Sessions[0].Subscribe(func(ev session.Event) <-chan struct{} { p.note("%T", ev); return nil })
			p.do("cut", "kill", "notice", "reconnect", "connect")
		}, []string{"session.Connected", "session.Suspended", "session.Expired", "session.Connected"}},
		{"a follower lags, until it is asked for a sync", func(p *play) {
			p.do("lag")
			p.create(1, "/d/a", session.Persistent)
			p.do("serve 1")
			p.list()
			p.Sessions[0].Async(0).Sync("/d", func(err error) { p.note("sync %v", short(err)) })
			p.list()
			p.do("serve", "serve", "serve")
		}, []string{"create /d/a ok", "list [] ok", "sync ok", "list [a] ok"}},
		{"older data is restored, and numbers are used again", func(p *play) {
			p.create(0, "/d/a", session.Ephemeral)
			p.follow("/d/a", session.AspectData, true)
			p.do("serve", "serve")
			p.Sessions[0].Subscribe(func(ev session.Event) <-chan struct{} {
				if c, ok := ev.(session.Connected); ok {
					p.note("epoch %d after %d", c.Epoch, c.Past)
				}
				return nil
			})
			p.do("restore", "notice", "reconnect", "connect")
			p.create(0, "/d/b", session.Persistent)
			p.Sessions[0].Async(0).Follow("/d/b", session.AspectData, true, func(r session.Reading, err error) {
				p.note("%v made by %d in the world %d", short(err), r.Stat.Czxid, r.Stat.Mtime)
			})
			p.list()
			p.do("serve", "serve", "serve")
		}, []string{
			"create /d/a ok", "follow /d/a [] true ok", "epoch 1 after 0", "follow /d/a [] false expired", "epoch 2 after 101",
			"create /d/b ok", "ok made by 101 in the world 1", "list [b] ok",
		}},
		{"a session outlives a relapse, and its watch tells nothing", func(p *play) {
			p.do("backup")
			p.create(1, "/d/a", session.Persistent)
			p.do("serve 1")
			p.follow("/d", session.AspectChildren, true)
			p.do("serve", "relapse", "notice", "reconnect", "notice 1", "reconnect 1")
			p.list()
			p.do("serve")
			p.create(1, "/d/b", session.Persistent)
			p.do("serve 1", "serve")
		}, []string{"create /d/a ok", "follow /d [a] true ok", "list [] ok", "create /d/b ok", "follow /d [b] true ok"}},
		{"a busy server refuses", func(p *play) {
			p.list()
			p.do("busy")
		}, []string{"list [] server error -127"}},
		{"the janitor repeats itself", func(p *play) {
			p.create(0, "/d/a", session.Persistent)
			p.do("serve")
			p.Sessions[0].Async(0).Withdraw("/d/a", func(error) { p.note("gone") })
			p.do("busy", "timer", "cut", "notice", "reconnect", "serve", "serve")
		}, []string{"create /d/a ok", "gone"}},
	} {
		p := newPlay(once, 2)
		story.play(p)
		check.EqualSlices(t, p.said, story.said, story.name, "\n", strings.Join(p.said, "\n"))
	}
}

// TestHash: no field is forgotten, and what is equal has the same hash.
func TestHash(t *testing.T) {
	type inner struct {
		s string
		p *int
		i any
		f func()
	}
	type outer struct {
		n     int8
		all   []inner
		m     map[string]*inner
		again *outer
	}
	fresh := func() *outer {
		one := 1
		o := &outer{n: 1, all: []inner{{s: "a", p: &one, i: 3}}, m: map[string]*inner{"x": {s: "y"}, "z": {}}}
		o.again = o
		return o
	}
	seen := map[uint64]int{zkmodel.Hash(fresh()): 0}
	_, same := seen[zkmodel.Hash(fresh())]
	check.True(t, same, "equal values differ")
	for i, change := range []func(o *outer){
		func(o *outer) { o.n = 2 },
		func(o *outer) { o.all = nil },
		func(o *outer) { o.all[0].s = "b" },
		func(o *outer) { *o.all[0].p = 2 },
		func(o *outer) { o.all[0].p = nil },
		func(o *outer) { o.all[0].i = int8(3) },
		func(o *outer) { o.all[0].f = func() {} },
		func(o *outer) { o.m["x"].s = "z" },
		func(o *outer) { o.m["y"] = o.m["z"]; delete(o.m, "z") },
		func(o *outer) { o.again = nil },
	} {
		o := fresh()
		change(o)
		h := zkmodel.Hash(o)
		other, ok := seen[h]
		check.False(t, ok, "changes %d and %d have one hash", i+1, other)
		seen[h] = i + 1
	}
}

// TestKey: a world that has done the same is the same, and what waits tells it from others.
func TestKey(t *testing.T) {
	key := func(data string, answered bool) uint64 {
		p := newPlay(zkmodel.Faults{}, 1)
		p.Keyed()
		a := p.Sessions[0].Async(0)
		a.Set("/d", []byte(data), session.AnyVersion, func(*session.Stat, error) {
			a.Get("/d", func([]byte, *session.Stat, error) {})
		})
		if answered {
			p.do("serve")
		}
		return p.Key()
	}
	for _, answered := range []bool{true, false} {
		first, second := key("a", answered), key("a", answered)
		check.Equal(t, first, second, "equal worlds differ")
	}
	check.True(t, key("a", true) != key("b", true) && key("a", false) != key("b", false) && key("a", true) != key("a", false), "different worlds do not differ")
}

// TestKeyOfSharedClosures: worlds differ in which of two activities came first, if one has seen
// what the other has done.
func TestKeyOfSharedClosures(t *testing.T) {
	for _, serial := range []bool{false, true} {
		key := func(order ...string) uint64 {
			p := newPlay(zkmodel.Faults{}, 1)
			if p.Keyed(); serial {
				p.Serial()
			}
			before, seen := false, false // what the reader alone knows in the end
			reads := zkmodel.Run(p.World, p.Sessions[0], tick{}, actors.Role[tick, int, int, string]{Perform: func(int, func(int)) {
				seen = before
				p.Sessions[0].Async(0).Get("/d", func([]byte, *session.Stat, error) { p.note("%t", seen) })
			}}, nil)
			writes := zkmodel.Run(p.World, p.Sessions[0], tick{}, actors.Role[tick, int, int, string]{Perform: func(int, func(int)) { before = true }}, nil)
			reads.Tell(1)
			writes.Tell(1)
			p.do(order...)
			return p.Key()
		}
		first, second := key("step 0", "step 1"), key("step 1", "step 0")
		check.Equal(t, first != second, serial, "serial", first, "and", second)
		check.Equal(t, first, key("step 0", "step 1"), "serial", serial, "equal worlds differ")
	}
}

// A tick is a machine that asks for its input.
type tick struct{}

// Step implements [actors.Machine].
func (tick) Step(in int, out *actors.Effects[int, string]) tick {
	out.Do = append(out.Do, in)
	return tick{}
}

// Ended implements [actors.Machine].
func (tick) Ended() bool { return false }
