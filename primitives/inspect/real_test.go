package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func openReal(t *testing.T, addrs []string) *session.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := check.Have(session.Open(ctx, addrs, nil))(t)
	t.Cleanup(s.Close)
	return s
}

func ok(t *testing.T, err error) {
	t.Helper()
	check.Must(t, err)
}

// shape returns what is known of a thing that others have made.
func shape(t inspect.Thing) string {
	var all []string
	for _, c := range t.Contenders {
		word := c.Wants
		if c.Holds {
			word += "!"
		}
		all = append(all, word)
	}
	state := fmt.Sprintf("%s %s: %s", t.Layout, t.Kind, strings.Join(all, " "))
	if t.Queue != nil {
		state += fmt.Sprint(t.Queue.Items)
	}
	if t.Double != nil {
		state += fmt.Sprint(len(t.Double.Inside))
	}
	return strings.TrimSpace(state)
}

// Recipes of Curator and kazoo, and ours beside them, on a real server.
func TestRealCrowd(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	company := peers.NewCompany(t, ens.Addrs())
	s, operator := openReal(t, ens.Addrs()), openReal(t, ens.Addrs())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	curator, kazoo := company.Peer(t, peers.Curator), company.Peer(t, peers.Kazoo)
	peer := map[peers.Library]*peers.Peer{peers.Curator: curator, peers.Kazoo: kazoo}
	hold := func(kind peers.Kind, path string) *peers.Claim {
		claim, err := peer[kind.Library()].Acquire(ctx, kind, path)
		ok(t, err)
		t.Cleanup(func() { _ = claim.Release(context.WithoutCancel(ctx)) })
		return claim
	}
	wait := func(kind peers.Kind, path string) {
		claim, err := peer[kind.Library()].Join(kind, path, 0)
		ok(t, err)
		t.Cleanup(func() { _ = claim.Release(context.WithoutCancel(ctx)) })
	}
	ours := func(path string, layout lock.Layout) {
		l, err := lock.NewWrite(s, path, &lock.Options{Layout: layout})
		ok(t, err)
		t.Cleanup(l.Close)
	}
	crowd := map[string]string{
		"/crowd/curator-mutex": "standard lock: exclusive! write", "/crowd/curator-rw": "curator lock: read! write",
		"/crowd/curator-latch": "curator election: lead! lead", "/crowd/curator-semaphore": "curator semaphore: lease! lease! lease",
		"/crowd/curator-queue": "curator queue: 2", "/crowd/kazoo-lock": "kazoo lock: exclusive! exclusive",
		"/crowd/kazoo-semaphore": "kazoo semaphore: lease! lease! lease", "/crowd/kazoo-queue": "kazoo queue: 2",
		"/crowd/kazoo-locking-queue": "kazoo queue: 2", "/crowd/kazoo-barrier": "barrier:",
		"/crowd/curator-double": "published double barrier: 1", "/crowd/kazoo-double": "published double barrier: 1",
	}
	hold(peers.CuratorMutex, "/crowd/curator-mutex")
	ours("/crowd/curator-mutex", lock.Standard)
	hold(peers.CuratorRead, "/crowd/curator-rw")
	ours("/crowd/curator-rw", lock.Curator)
	hold(peers.KazooLock, "/crowd/kazoo-lock")
	ours("/crowd/kazoo-lock", lock.Kazoo)
	hold(peers.CuratorLatch, "/crowd/curator-latch")
	c, err := election.New(s, "/crowd/curator-latch", &election.Options{Layout: election.Curator})
	ok(t, err)
	defer c.Close()
	for kind, path := range map[peers.Kind]string{peers.CuratorSemaphore.Of(2): "/crowd/curator-semaphore", peers.KazooSemaphore.Of(2): "/crowd/kazoo-semaphore"} {
		hold(kind, path)
		hold(kind, path)
		wait(kind, path)
	}
	for kind, path := range map[peers.Kind]string{
		peers.CuratorQueue: "/crowd/curator-queue", peers.KazooQueue: "/crowd/kazoo-queue", peers.KazooLockingQueue: "/crowd/kazoo-locking-queue",
	} {
		claim := hold(kind, path)
		ok(t, claim.Put(ctx, "a", 100))
		ok(t, claim.Put(ctx, "b", 100))
	}
	ok(t, kazoo.Raise(ctx, peers.KazooBarrier, "/crowd/kazoo-barrier"))
	hold(peers.CuratorDouble.Of(1), "/crowd/curator-double")
	hold(peers.KazooDouble.Of(1), "/crowd/kazoo-double")

	w, err := inspect.Watch(operator, "/crowd", nil)
	ok(t, err)
	defer w.Close()
	var seen map[string]string
	matches := func(survey *inspect.Survey) bool {
		seen = make(map[string]string)
		for _, thing := range survey.Things {
			seen[thing.Path] = shape(thing)
		}
		for path, want := range crowd {
			if seen[path] != want {
				return false
			}
		}
		return len(seen) == len(crowd)
	}
	for {
		var survey *inspect.Survey
		select {
		case survey = <-w.Surveys():
		case <-ctx.Done():
			for path, want := range crowd {
				check.Equal(t, seen[path], want, path)
			}
			t.Fatal(len(seen), "things")
		}
		if survey != nil && matches(survey) {
			break
		}
	}
	survey, err := inspect.Look(ctx, operator, "/crowd", nil)
	ok(t, err)
	if !matches(survey) {
		t.Error(seen)
	}
	for _, thing := range survey.Things {
		for _, c := range thing.Contenders {
			check.True(t, c.Session != "" && !c.Since.IsZero() && c.Czxid != 0, "%s: %+v", thing.Path, c)
		}
	}
}
