package peers

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A stage is a real server, and the company on it.
type stage struct {
	ens        *zktest.Ensemble // nil in memory
	s          *session.Session
	company    *Company
	generation Generation
}

func newStage(t *testing.T, g Generation) stage {
	t.Helper()
	Wanted(t)
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	st := stageOn(t, ens.Addrs(), g)
	st.ens = ens
	return st
}

func stageOn(t *testing.T, addrs []string, g Generation) stage {
	t.Helper()
	s := check.Open(session.Open(check.Patient(t), addrs, &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	return stage{s: s, company: NewCompany(t, addrs, g), generation: g}
}

func (st stage) contenders(t *testing.T, kinds ...Kind) []Contender {
	t.Helper()
	var all []Contender
	for _, kind := range kinds {
		all = append(all, st.company.Peer(t, kind.Library()).Contender(kind))
	}
	return all
}

func acquire(t *testing.T, p *Peer, kind Kind, path string) *Claim {
	t.Helper()
	return check.Have(p.Acquire(check.Patient(t), kind, path))(t)
}

func release(t *testing.T, c *Claim) {
	t.Helper()
	check.OK(t, c.Release(check.Patient(t)))
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-check.Patient(t).Done():
		t.Fatalf("%s does not come", what)
	}
}

// TestPeers runs one stage after the other, because each has many processes.
func TestPeers(t *testing.T) {
	for g := Debian; g <= Newest; g++ {
		t.Run(g.String(), func(t *testing.T) { playAll(t, newStage(t, g)) })
	}
	t.Run("newest, in memory", func(t *testing.T) { // Debian's generation runs in memory in package zktest
		playAll(t, stageOn(t, zktest.Start(t).Addrs(), Newest))
	})
}

func playAll(t *testing.T, st stage) {
	t.Helper()
	plays := map[string]func(*testing.T, stage){
		"contend": contend,
		"overlap": overlap,
		"claims":  claims,
		"revoke":  revocation,
		"barrier": barriers,
		"queue":   queues,
		"limit":   limits,
		"version": version,
		"layout":  layout,
	}
	if st.ens != nil {
		plays["crash"], plays["expire"] = crash, expire
	}
	for name, play := range plays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, st)
		})
	}
}

// version: the library that runs has the requested version.
func version(t *testing.T, st stage) {
	for _, library := range []Library{Curator, Kazoo} {
		want, got := st.generation.Version(library), st.company.Peer(t, library).Version()
		check.True(t, got == want || want == "" && got != "", "%s %q, want %q", library, got, want)
		t.Log(library, got)
	}
}

// layouts has the nodes of a holder of each kind, below its path. They are the same in all
// versions, except for a downgraded writer: see layout.
var layouts = map[Kind]string{
	CuratorMutex:      "_c_<id>-lock-0000000000* <address>",
	CuratorRevocable:  "_c_<id>-lock-0000000000*",
	CuratorRead:       "_c_<id>-__READ__0000000000* <address>",
	CuratorWrite:      "_c_<id>-__WRIT__0000000000* <address>",
	CuratorLatch:      "_c_<id>-latch-0000000000* <claim>",
	CuratorSelector:   "_c_<id>-lock-0000000000* <claim>",
	CuratorSemaphore:  "leases; leases/_c_<id>-lease-0000000000* <address>; locks",
	CuratorDouble:     "<id>* <address>; ready <address>",
	CuratorQueue:      "qn-0000000000 item",
	KazooLock:         "<id>__lock__0000000000* <claim>",
	KazooPattern:      "<id>__lock__0000000000* <claim>",
	KazooStandard:     "<id>-lock-0000000000* <claim>",
	KazooRead:         "<id>__rlock__0000000000* <claim>",
	KazooLaterRead:    "<id>__rlock__0000000000* <claim>",
	KazooWrite:        "<id>__lock__0000000000* <claim>",
	KazooElection:     "<id>__lock__0000000000* <claim>",
	KazooSemaphore:    "<id>* <claim>",
	KazooDouble:       "<id>* <claim>; ready",
	KazooQueue:        "entry-100-0000000000 item",
	KazooLockingQueue: "entries; entries/entry-100-0000000000 item; taken",
}

// layout: the nodes of a holder of each kind on the server. In Curator 5.4 a downgraded writer has
// a sequence number of its own, in later versions that of the write lock.
func layout(t *testing.T, st stage) {
	all := maps.Clone(layouts)
	all[CuratorDowngraded] = map[Generation]string{Debian: "_c_<id>-__READ__0000000001* <address>", Newest: "_c_<id>-__READ__0000000000* <address>"}[st.generation]
	for kind, want := range all {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, at := check.Patient(t), "/layout-"+strings.ReplaceAll(string(kind), "/", "-")
			if kind == CuratorSemaphore { // it makes containers, and the servers remove an empty "locks"
				check.Have(st.s.Create(ctx, at, nil, session.Persistent))(t)
				check.Have(st.s.Create(ctx, at+"/locks", nil, session.Persistent))(t)
			}
			c := acquire(t, st.company.Peer(t, kind.Library()), kind, at)
			if kind.name() == "queue" || kind.name() == "locking-queue" {
				check.OK(t, c.Put(ctx, "item", 100))
			}
			check.Must(t, st.s.Sync(ctx, at))
			var found []string
			list(ctx, t, st.s, at, "", &found)
			got := strings.ReplaceAll(strings.Join(found, "; "), c.ID(), "<claim>")
			check.Equal(t, addresses.ReplaceAllString(ids.ReplaceAllString(got, "<id>"), "<address>"), want)
			release(t, c)
		})
	}
}

// list appends all nodes below a node, in order, with their data, and with * for ephemeral nodes.
func list(ctx context.Context, t *testing.T, s *session.Session, at, name string, found *[]string) {
	t.Helper()
	names, _, err := s.Children(ctx, path.Join(at, name))
	check.Must(t, err)
	slices.Sort(names)
	for _, child := range names {
		child = path.Join(name, child)
		data, stat, err := s.Get(ctx, path.Join(at, child))
		check.Must(t, err)
		line := child
		if stat.EphemeralOwner != 0 {
			line += "*"
		}
		if len(data) > 0 {
			line += " " + string(data)
		}
		*found = append(*found, line)
		list(ctx, t, s, at, child, found)
	}
}

// Text that differs from holder to holder, and from machine to machine.
var (
	ids       = regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)
	addresses = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+`)
)

// contend has each library contend with itself, and with the other library where they respect each
// other.
func contend(t *testing.T, st stage) {
	for _, row := range []struct {
		name   string
		kinds  []Kind
		rounds int
	}{
		{"Curator's mutex", []Kind{CuratorMutex, CuratorRevocable}, 40},
		{"Curator's read-write lock", []Kind{CuratorRead, CuratorWrite}, 40},
		{"Curator's latch", []Kind{CuratorLatch}, 20},
		{"Curator's selector", []Kind{CuratorSelector}, 20},
		{"kazoo's lock", []Kind{KazooLock}, 40},
		{"kazoo's read-write lock", []Kind{KazooLaterRead, KazooWrite}, 40},
		{"kazoo's election", []Kind{KazooElection, KazooLock}, 20},
		{"Curator's semaphore of one", []Kind{CuratorSemaphore.Of(1)}, 20},
		{"Curator's semaphore of two", []Kind{CuratorSemaphore.Of(2)}, 20},
		{"kazoo named as Curator", []Kind{KazooStandard, CuratorMutex}, 40},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			all := st.contenders(t, row.kinds...)
			at := "/" + strings.ReplaceAll(row.name, " ", "-")
			t.Run("pairs", func(t *testing.T) {
				Pairs(t, st.s, at+"-pairs", all, all)
			})
			t.Run("mix", func(t *testing.T) {
				room := Mix(t, st.s, at, row.rounds, append(all, all...)...)
				t.Log(room.Most(), room.Handovers())
			})
		})
	}
}

// overlap: the room detects two holders that do not respect each other.
func overlap(t *testing.T, st stage) {
	curator := acquire(t, st.company.Peer(t, Curator), CuratorMutex, "/broken")
	kazoo := acquire(t, st.company.Peer(t, Kazoo), KazooLock, "/broken")
	var room Room
	check.OK(t, room.Enter("Curator", false))
	check.False(t, room.Enter("kazoo", false) == nil, "the room does not see two holders")
	release(t, kazoo)
	release(t, curator)
}

// TestPrograms runs programs that break the protocol.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, script string
		ready        bool
		status       string // of its end; "" if it ends well
	}{
		{"ends when it is told to", "echo ready 1.0; exec cat >/dev/null", true, ""},
		{"has no version", "echo ready; exec cat", false, `says "ready"`},
		{"ends at once", "exit 3", false, "exit status 3"},
		{"ends with complaints", "echo ready 1.0; read line; echo no more >&2; exit 4", true, "exit status 4"},
		{"says nothing that is known", "echo ready 1.0; echo hello; exec cat", true, `says "hello"`},
		{"says half of it", "echo ready 1.0; echo acquired; exec cat", true, `says "acquired"`},
		{"speaks of nobody", "echo ready 1.0; echo acquired nobody; exec cat >/dev/null", true, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := check.Have(launch(Curator, exec.CommandContext(check.Patient(t), "sh", "-c", row.script)))(t)
			if row.ready {
				await(t, "the beginning", p.ready)
			}
			if row.status != "" {
				c, err := p.Join(CuratorMutex, "/path", 0)
				if err == nil {
					await(t, "the end of the claim", c.Ended())
					err = c.Err()
				}
				check.Is(t, err, ErrEnded)
				await(t, "the end", p.exited)
			}
			if err := p.end(); (err == nil) != (row.status == "") || err != nil && !strings.Contains(err.Error(), row.status) {
				t.Errorf("it has ended with %v", err)
			}
		})
	}
}

// TestRun: a program that does not begin as it should leaves no process, and an error that says
// why.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, script, version, want string }{
		{"begins", "echo ready 1.0; exec cat >/dev/null", "", ""},
		{"has the version", "echo ready 1.0; exec cat >/dev/null", "1.0", ""},
		{"has another version", "echo ready 1.0; exec cat >/dev/null", "2.0", "version 1.0, and not 2.0"},
		{"ends at once", "echo no >&2; exit 3", "", "ended before it was ready: no"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			program := program{"program", row.script, nil, []string{"sh"}}
			p, err := program.run(check.Patient(t), Curator, t.TempDir(), []string{"127.0.0.1:1"}, &Options{Version: row.version})
			if row.want != "" {
				check.True(t, err != nil && strings.Contains(err.Error(), row.want), "%v", err)
				return
			}
			check.Must(t, err)
			check.True(t, p.Pid() > 0, "process %d", p.Pid())
			check.Must(t, p.Close())
		})
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	var room Room
	for _, step := range []struct {
		leave, enter string
		shared, ok   bool
	}{
		{enter: "a", ok: true},
		{enter: "b"},
		{leave: "a", enter: "c", shared: true},
		{leave: "b", enter: "d", shared: true, ok: true},
		{enter: "e"},
	} {
		room.Leave(step.leave)
		check.Equal(t, room.Enter(step.enter, step.shared) == nil, step.ok, step)
	}
	few := Room{limit: 2}
	for i, who := range []string{"a", "b", "c"} {
		check.Equal(t, few.Enter(who, true) == nil, i < 2, "number", i+1, "of 2")
	}
	check.Equal(t, room.Most(), 3, "at most")
	n := room.Handovers()
	check.True(t, n[[2]string{"a", "b"}] == 1 && len(n) == 4, "%v", n)
	for _, version := range []int{1, 2} {
		check.OK(t, room.visited(version))
	}
	check.True(t, room.visited(4) != nil, "the room does not see that it was written")
}

// claims: all commands for one peer, apart from those of contend.
func claims(t *testing.T, st stage) {
	for _, row := range []struct {
		library Library
		lock    Kind
		ids     bool // its line names contenders by their ids, instead of by their nodes
		others  []Kind
	}{
		{Curator, CuratorMutex, false, []Kind{CuratorRevocable, CuratorRead, CuratorWrite, CuratorLatch, CuratorSelector}},
		{Kazoo, KazooLock, true, []Kind{KazooPattern, KazooStandard, KazooRead, KazooLaterRead, KazooWrite, KazooElection}},
	} {
		t.Run(string(row.library), func(t *testing.T) {
			t.Parallel()
			ctx := check.Patient(t)
			peer := st.company.Peer(t, row.library)
			dir := "/claims-" + string(row.library)
			check.Have(st.s.Create(ctx, dir, nil, session.Persistent))(t)

			c := acquire(t, peer, row.lock, dir+"/lock")
			if dir, _ := znode.Split(c.Node()); dir != path.Join(dir) {
				t.Errorf("it holds %s", c.Node())
			}
			if stat, err := st.s.Exists(ctx, c.Node()); err != nil || stat == nil {
				t.Errorf("%s: %v, %v", c.Node(), stat, err)
			}
			want := c.Node()
			if row.ids {
				want = c.ID()
			}
			if line, err := peer.Line(ctx, row.lock, dir+"/lock"); err != nil || !slices.Equal(line, []string{want}) {
				t.Errorf("the line is %q, %v, want %s", line, err, want)
			}

			// A waiter gives up on command.
			waiter, err := peer.Join(row.lock, dir+"/lock", 0)
			check.Must(t, err)
			for line := []string(nil); len(line) != 2; {
				line, err = peer.Line(ctx, row.lock, dir+"/lock")
				check.Must(t, err)
			}
			release(t, waiter)
			await(t, "the end", waiter.Ended())
			check.OK(t, waiter.Err())
			// A caller stops waiting.
			hasty, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			check.Fails(peer.Acquire(hasty, row.lock, dir+"/lock"))(t, context.DeadlineExceeded)
			// The holder visits a node that another client writes too.
			check.Have(st.s.Create(ctx, dir+"/scratch", nil, session.Persistent))(t)
			if v, err := c.Visit(ctx, dir+"/scratch"); v != 1 || err != nil {
				t.Error(v, err)
			}
			if v, err := Visit(ctx, st.s, dir+"/scratch"); v != 2 || err != nil {
				t.Error(v, err)
			}
			if v, err := c.Visit(ctx, dir+"/nowhere"); err == nil {
				t.Error(v, err)
			}
			release(t, c)
			if stat, err := st.s.Exists(ctx, c.Node()); err != nil || stat != nil {
				t.Errorf("%s: %v, %v", c.Node(), stat, err)
			}

			// A contender of every kind holds, and one gives up on command.
			for _, kind := range row.others {
				at := dir + "/" + kind.name()
				c := acquire(t, peer, kind, at)
				if line, err := peer.Line(ctx, kind, at); err != nil || len(line) != 1 {
					t.Errorf("%s: the line is %q, %v", kind, line, err)
				}
				if kind.Shared() {
					release(t, c)
					continue
				}
				waiter := check.Have(peer.Join(kind, at, 0))(t)
				release(t, waiter)
				release(t, c)
				release(t, acquire(t, peer, kind, at))
			}

			// Commands that the program refuses.
			if _, err := peer.Acquire(ctx, "kazoo/nothing", "/x"); err == nil {
				t.Error("acquired nothing")
			}
			if _, err := peer.Acquire(ctx, Kind(row.library)+"/nothing", "/x"); err == nil {
				t.Error("acquired nothing")
			}
			if _, err := peer.Line(ctx, Kind(row.library)+"/nothing", "/x"); err == nil {
				t.Error("a line of nothing")
			}
		})
	}
}

// revocation: only the holder that owns the node receives the request.
func revocation(t *testing.T, st stage) {
	peer := st.company.Peer(t, Curator)
	c := acquire(t, peer, CuratorRevocable, "/lock")
	other := acquire(t, peer, CuratorRevocable, "/other")
	check.Must(t, peer.Revoke(check.Patient(t), c.Node()))
	await(t, "the request to release", c.Revoked())
	release(t, c)
	check.None(t, other.Revoked(), "the other was asked too")
	release(t, other)
}

// crash: a peer that crashes holds until its session expires.
func crash(t *testing.T, st stage) {
	for _, library := range []Library{Curator, Kazoo} {
		t.Run(string(library), func(t *testing.T) {
			t.Parallel()
			kind := map[Library]Kind{Curator: CuratorMutex, Kazoo: KazooLock}[library]
			survivor := st.company.Peer(t, library)
			victim := Start(t, library, st.ens.Addrs(), &Options{Version: st.generation.Version(library), SessionTimeout: 2 * time.Second})
			at := "/crash-" + string(library)
			first := acquire(t, victim, kind, at)
			second := check.Have(survivor.Join(kind, at, 0))(t)
			check.OK(t, victim.Kill())
			await(t, "the end", first.Ended())
			check.Is(t, first.Err(), ErrEnded)
			check.Fails(victim.Acquire(check.Patient(t), kind, at))(t, ErrEnded)
			await(t, "the grant", second.Acquired())
			release(t, second)
		})
	}
}

// expire: a peer whose session expires reports the loss of all its grants.
func expire(t *testing.T, st stage) {
	for library, kinds := range map[Library][]Kind{
		Curator: {CuratorMutex, CuratorWrite, CuratorLatch, CuratorSelector},
		Kazoo:   {KazooLock, KazooWrite, KazooElection},
	} {
		t.Run(string(library), func(t *testing.T) {
			t.Parallel()
			proxy := zktest.NewProxy(t, st.ens.Addrs()...)
			victim := Start(t, library, proxy.Addrs(), &Options{Version: st.generation.Version(library)})
			var held []*Claim
			for _, kind := range kinds {
				held = append(held, acquire(t, victim, kind, "/expire-"+string(library)+"-"+kind.name()))
			}
			proxy.Expire(proxy.Sessions()[0])
			for _, c := range held {
				await(t, "the loss of "+c.ID(), c.Lost())
			}
		})
	}
}

// barriers: a peer waits while a barrier stands, and the parties of a double barrier wait for each
// other.
func barriers(t *testing.T, st stage) {
	for library, kinds := range map[Library][2]Kind{Curator: {CuratorBarrier, CuratorDouble}, Kazoo: {KazooBarrier, KazooDouble}} {
		t.Run(string(library), func(t *testing.T) {
			t.Parallel()
			ctx, peer, at := check.Patient(t), st.company.Peer(t, library), "/barrier-"+string(library)
			check.Must(t, peer.Raise(ctx, kinds[0], at))
			check.Fails(peer.acquire(ctx, kinds[0], at, trial))(t, context.DeadlineExceeded) // the wait times out
			c := check.Have(peer.Join(kinds[0], at, 0))(t)
			check.Must(t, peer.Lift(ctx, kinds[0], at))
			await(t, "the end of the wait", c.Acquired())
			release(t, c)

			first := check.Have(peer.Join(kinds[1].Of(2), at+"-double", 0))(t)
			second := acquire(t, peer, kinds[1].Of(2), at+"-double")
			await(t, "the round", first.Acquired())
			var left sync.WaitGroup
			left.Go(func() { release(t, first) })
			release(t, second)
			left.Wait()
		})
	}
}

// queues: a peer puts items and takes them.
func queues(t *testing.T, st stage) {
	for _, kind := range []Kind{CuratorQueue, KazooQueue, KazooLockingQueue} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx := check.Patient(t)
			c := acquire(t, st.company.Peer(t, kind.Library()), kind, "/queue-"+strings.ReplaceAll(string(kind), "/", "-"))
			for _, item := range []string{"a", "", "b"} {
				check.OK(t, c.Put(ctx, item, 100))
			}
			for _, item := range []string{"a", "", "b"} {
				if got, err := c.Take(ctx, check.Patience); got != item || err != nil {
					t.Errorf("took %q, %v, want %q", got, err, item)
				}
			}
			if got, err := c.Take(ctx, trial); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("took %q, %v", got, err)
			}
			release(t, c)
		})
	}
}

// limits: kazoo's semaphore, whose contenders are not in line below its path.
func limits(t *testing.T, st stage) {
	ctx, peer, kind := check.Patient(t), st.company.Peer(t, Kazoo), KazooSemaphore.Of(2)
	first, second := acquire(t, peer, kind, "/limits"), acquire(t, peer, kind, "/limits")
	check.Fails(peer.acquire(ctx, kind, "/limits", trial))(t, context.DeadlineExceeded) // a third for two leases
	stat, err := st.s.Exists(ctx, first.Node())
	check.True(t, err == nil && stat != nil, "%s: %v, %v", first.Node(), stat, err)
	release(t, first)
	release(t, acquire(t, peer, kind, "/limits"))
	release(t, second)
}
