package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session/zktest"
)

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

// Recipes of Curator and kazoo, of each generation and of both, and ours beside them, on a real
// server.
func TestRealCrowd(t *testing.T) {
	peers.Meet(t, map[string]peers.Play{"crowd": crowd}, map[string]peers.Play{"crowd": crowd})
}

func crowd(t *testing.T, ens *zktest.Ensemble, company *peers.Company) {
	t.Helper()
	s, operator := kit.Open(t, ens.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)
	ctx := check.Patient(t)
	all := map[peers.Library][]*peers.Peer{peers.Curator: company.Peers(t, peers.Curator), peers.Kazoo: company.Peers(t, peers.Kazoo)}
	asked := 0
	peer := func(kind peers.Kind) *peers.Peer { // of one generation after the other
		asked++
		return all[kind.Library()][asked%len(all[kind.Library()])]
	}
	root := company.At("/crowd")
	hold := func(kind peers.Kind, name string) *peers.Claim {
		claim, err := peer(kind).Acquire(ctx, kind, root+name)
		check.Must(t, err)
		t.Cleanup(func() { _ = claim.Release(context.WithoutCancel(ctx)) })
		return claim
	}
	wait := func(kind peers.Kind, name string) {
		claim, err := peer(kind).Join(kind, root+name, 0)
		check.Must(t, err)
		t.Cleanup(func() { _ = claim.Release(context.WithoutCancel(ctx)) })
	}
	ours := func(name string, layout lock.Layout) {
		l, err := lock.NewWrite(s, root+name, &lock.Options{Layout: layout})
		check.Must(t, err)
		t.Cleanup(l.Close)
	}
	crowd := map[string]string{
		"/curator-mutex": "standard lock: exclusive! write", "/curator-rw": "curator lock: read! write",
		"/curator-downgraded": "curator lock: read! write",
		"/curator-latch":      "curator election: lead! lead", "/curator-semaphore": "curator semaphore: lease! lease! lease",
		"/curator-queue": "curator queue: 2", "/kazoo-lock": "kazoo lock: exclusive! exclusive",
		"/kazoo-semaphore": "kazoo semaphore: lease! lease! lease", "/kazoo-queue": "kazoo queue: 2",
		"/kazoo-locking-queue": "kazoo queue: 2", "/kazoo-barrier": "barrier:",
		"/curator-double": "published double barrier: 1", "/kazoo-double": "published double barrier: 1",
	}
	hold(peers.CuratorMutex, "/curator-mutex")
	ours("/curator-mutex", lock.Standard)
	hold(peers.CuratorRead, "/curator-rw")
	ours("/curator-rw", lock.Curator)
	hold(peers.CuratorDowngraded, "/curator-downgraded")
	ours("/curator-downgraded", lock.Curator)
	hold(peers.KazooLock, "/kazoo-lock")
	ours("/kazoo-lock", lock.Kazoo)
	hold(peers.CuratorLatch, "/curator-latch")
	c, err := election.New(s, root+"/curator-latch", &election.Options{Layout: election.Curator})
	check.Must(t, err)
	defer c.Close()
	for kind, path := range map[peers.Kind]string{peers.CuratorSemaphore.Of(2): "/curator-semaphore", peers.KazooSemaphore.Of(2): "/kazoo-semaphore"} {
		hold(kind, path)
		hold(kind, path)
		wait(kind, path)
	}
	for kind, path := range map[peers.Kind]string{
		peers.CuratorQueue: "/curator-queue", peers.KazooQueue: "/kazoo-queue", peers.KazooLockingQueue: "/kazoo-locking-queue",
	} {
		claim := hold(kind, path)
		check.Must(t, claim.Put(ctx, "a", 100))
		check.Must(t, claim.Put(ctx, "b", 100))
	}
	check.Must(t, peer(peers.KazooBarrier).Raise(ctx, peers.KazooBarrier, root+"/kazoo-barrier"))
	hold(peers.CuratorDouble.Of(1), "/curator-double")
	hold(peers.KazooDouble.Of(1), "/kazoo-double")

	w, err := inspect.Watch(operator, root, nil)
	check.Must(t, err)
	defer w.Close()
	var seen map[string]string
	matches := func(survey *inspect.Survey) bool {
		seen = make(map[string]string)
		for _, thing := range survey.Things {
			seen[strings.TrimPrefix(thing.Path, root)] = shape(thing)
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
	survey, err := inspect.Look(ctx, operator, root, nil)
	check.Must(t, err)
	if !matches(survey) {
		t.Error(seen)
	}
	for _, thing := range survey.Things {
		for _, c := range thing.Contenders {
			check.True(t, c.Session != "" && !c.Since.IsZero() && c.Czxid != 0, "%s: %+v", thing.Path, c)
		}
	}
}
