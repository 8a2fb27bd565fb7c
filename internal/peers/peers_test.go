package peers

import (
	"context"
	"errors"
	"os/exec"
	"path"
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

// A stage is a real server, and who is on it.
type stage struct {
	ens     *zktest.Ensemble
	s       *session.Session
	company *Company
}

func newStage(t *testing.T) stage {
	t.Helper()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := check.Open(session.Open(ctx, ens.Addrs(), &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	return stage{ens, s, NewCompany(t, ens.Addrs())}
}

func (st stage) contenders(t *testing.T, kinds ...Kind) []Contender {
	t.Helper()
	var all []Contender
	for _, kind := range kinds {
		all = append(all, st.company.Peer(t, kind.Library()).Contender(kind))
	}
	return all
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t *testing.T, p *Peer, kind Kind, path string) *Claim {
	t.Helper()
	return check.Have(p.Acquire(patient(t), kind, path))(t)
}

func release(t *testing.T, c *Claim) {
	t.Helper()
	check.OK(t, c.Release(patient(t)))
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-patient(t).Done():
		t.Fatalf("%s does not come", what)
	}
}

func TestPeers(t *testing.T) {
	st := newStage(t)
	for name, play := range map[string]func(*testing.T, stage){
		"contend": contend,
		"overlap": overlap,
		"claims":  claims,
		"revoke":  revocation,
		"crash":   crash,
		"expire":  expire,
		"barrier": barriers,
		"queue":   queues,
		"limit":   limits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, st)
		})
	}
}

// contend has each library contend with itself, and with the other where they can.
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

// overlap: what is not compatible is seen not to be.
func overlap(t *testing.T, st stage) {
	curator := acquire(t, st.company.Peer(t, Curator), CuratorMutex, "/broken")
	kazoo := acquire(t, st.company.Peer(t, Kazoo), KazooLock, "/broken")
	var room Room
	check.OK(t, room.Enter("Curator", false))
	check.False(t, room.Enter("kazoo", false) == nil, "the room does not see two holders")
	release(t, kazoo)
	release(t, curator)
}

// Programs that do not behave.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, script string
		ready        bool
		status       string // of its end; "" if it is to be good
	}{
		{"ends when it is told to", "echo ready; exec cat >/dev/null", true, ""},
		{"ends at once", "exit 3", false, "exit status 3"},
		{"ends with complaints", "echo ready; read line; echo no more >&2; exit 4", true, "exit status 4"},
		{"says nothing that is known", "echo ready; echo hello; exec cat", true, `says "hello"`},
		{"says half of it", "echo ready; echo acquired; exec cat", true, `says "acquired"`},
		{"speaks of nobody", "echo ready; echo acquired nobody; exec cat >/dev/null", true, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := check.Have(launch(Curator, exec.CommandContext(patient(t), "sh", "-c", row.script)))(t)
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

// claims: what one peer can be asked to do, but for holding in turn.
func claims(t *testing.T, st stage) {
	for _, row := range []struct {
		library Library
		lock    Kind
		ids     bool // it knows contenders by their ids, rather than their nodes
		others  []Kind
	}{
		{Curator, CuratorMutex, false, []Kind{CuratorRevocable, CuratorRead, CuratorWrite, CuratorLatch, CuratorSelector}},
		{Kazoo, KazooLock, true, []Kind{KazooPattern, KazooStandard, KazooRead, KazooLaterRead, KazooWrite, KazooElection}},
	} {
		t.Run(string(row.library), func(t *testing.T) {
			t.Parallel()
			ctx := patient(t)
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

			// A waiter that is told to give up.
			waiter, err := peer.Join(row.lock, dir+"/lock", 0)
			check.Must(t, err)
			for line := []string(nil); len(line) != 2; {
				line, err = peer.Line(ctx, row.lock, dir+"/lock")
				check.Must(t, err)
			}
			release(t, waiter)
			await(t, "the end", waiter.Ended())
			check.OK(t, waiter.Err())
			// A caller that leaves.
			hasty, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			check.Fails(peer.Acquire(hasty, row.lock, dir+"/lock"))(t, context.DeadlineExceeded)
			// One whose node is written by another client.
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

			// Every kind holds, and can be told to give up.
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

			// What is not possible.
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

// revocation: the holder that is meant is asked, and no other.
func revocation(t *testing.T, st stage) {
	peer := st.company.Peer(t, Curator)
	c := acquire(t, peer, CuratorRevocable, "/lock")
	other := acquire(t, peer, CuratorRevocable, "/other")
	check.Must(t, peer.Revoke(patient(t), c.Node()))
	await(t, "the request to release", c.Revoked())
	release(t, c)
	check.None(t, other.Revoked(), "the other was asked too")
	release(t, other)
}

// crash: a peer that crashes holds until its session is over.
func crash(t *testing.T, st stage) {
	for _, library := range []Library{Curator, Kazoo} {
		t.Run(string(library), func(t *testing.T) {
			t.Parallel()
			kind := map[Library]Kind{Curator: CuratorMutex, Kazoo: KazooLock}[library]
			survivor := st.company.Peer(t, library)
			victim := Start(t, library, st.ens.Addrs(), &Options{SessionTimeout: 2 * time.Second})
			at := "/crash-" + string(library)
			first := acquire(t, victim, kind, at)
			second := check.Have(survivor.Join(kind, at, 0))(t)
			check.OK(t, victim.Kill())
			await(t, "the end", first.Ended())
			check.Is(t, first.Err(), ErrEnded)
			check.Fails(victim.Acquire(patient(t), kind, at))(t, ErrEnded)
			await(t, "the grant", second.Acquired())
			release(t, second)
		})
	}
}

// expire: a peer whose session is over says so of all that it holds.
func expire(t *testing.T, st stage) {
	for library, kinds := range map[Library][]Kind{
		Curator: {CuratorMutex, CuratorWrite, CuratorLatch, CuratorSelector},
		Kazoo:   {KazooLock, KazooWrite, KazooElection},
	} {
		t.Run(string(library), func(t *testing.T) {
			t.Parallel()
			proxy := zktest.NewProxy(t, st.ens.Addrs()...)
			victim := Start(t, library, proxy.Addrs(), nil)
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

// barriers: a peer waits while a barrier stands, and the parties of a double barrier for each other.
func barriers(t *testing.T, st stage) {
	for library, kinds := range map[Library][2]Kind{Curator: {CuratorBarrier, CuratorDouble}, Kazoo: {KazooBarrier, KazooDouble}} {
		t.Run(string(library), func(t *testing.T) {
			t.Parallel()
			ctx, peer, at := patient(t), st.company.Peer(t, library), "/barrier-"+string(library)
			check.Must(t, peer.Raise(ctx, kinds[0], at))
			check.Fails(peer.acquire(ctx, kinds[0], at, trial))(t, context.DeadlineExceeded) // the end of a wait
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
			ctx := patient(t)
			c := acquire(t, st.company.Peer(t, kind.Library()), kind, "/queue-"+strings.ReplaceAll(string(kind), "/", "-"))
			for _, item := range []string{"a", "b"} {
				check.OK(t, c.Put(ctx, item, 100))
			}
			for _, item := range []string{"a", "b"} {
				if got, err := c.Take(ctx, time.Minute); got != item || err != nil {
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

// limits: kazoo's semaphore, whose contenders are in no line below its path.
func limits(t *testing.T, st stage) {
	ctx, peer, kind := patient(t), st.company.Peer(t, Kazoo), KazooSemaphore.Of(2)
	first, second := acquire(t, peer, kind, "/limits"), acquire(t, peer, kind, "/limits")
	check.Fails(peer.acquire(ctx, kind, "/limits", trial))(t, context.DeadlineExceeded) // the third of two
	stat, err := st.s.Exists(ctx, first.Node())
	check.True(t, err == nil && stat != nil, "%s: %v, %v", first.Node(), stat, err)
	release(t, first)
	release(t, acquire(t, peer, kind, "/limits"))
	release(t, second)
}
