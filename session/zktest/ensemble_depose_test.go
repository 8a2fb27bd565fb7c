package zktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

// A leader that has been deposed and does not know it goes on answering syncs,
// while its successor serves. This is why a session must not count them.
func TestEnsembleDeposedLeaderAnswers(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	const runs = 4
	// The old leader continues for 60 s. An election takes 1 or 2, and more on a busy machine.
	e := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.TickTime(500*time.Millisecond), zktest.SyncLimit(120))
	ctx, cancel := context.WithTimeout(t.Context(), runs*patience)
	defer cancel()
	for run := range runs {
		old := e.Leader()
		conn := dial(t, patience, e.Addr(old))
		e.Depose(old)
		deposed := time.Now()
		for e.Leader() == old {
			check.Require(t, ctx.Err() == nil, "no new leader")
		}
		elected := time.Since(deposed)
		check.Have(conn.Sync("/"))(t)
		t.Logf("run %d: server %d deposed, the next leader served after %v, the old one still answered after %v", run, old, elected, time.Since(deposed))
		conn.Close()
		e.Heal()
		for i := range e.Size() {
			check.Must(t, e.AwaitServing(ctx, i))
		}
	}
}

// What a leader sends to a follower is held up, while the follower's requests
// reach the leader; then it arrives, and nothing reaches the leader any more.
func TestEnsembleHeldOneWay(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	e := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(50))
	leader, follower := e.Leader(), e.Followers()[0]
	near, far := dial(t, 20*time.Second, e.Addr(leader)), dial(t, 20*time.Second, e.Addr(follower))
	reader := dial(t, 20*time.Second, e.Addr(follower)) // its reads do not wait for far's writes
	await := func(conn *zk.Conn, path string) {
		t.Helper()
		exists, _, created, err := conn.ExistsW(path)
		check.Must(t, err)
		if exists {
			return
		}
		select {
		case ev := <-created:
			check.Require(t, ev.Type == zk.EventNodeCreated, "%v", ev)
		case <-time.After(patience):
			t.Fatalf("no %s within %v", path, patience)
		}
	}
	create := func(conn *zk.Conn, path string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			done <- err
		}()
		return done
	}

	e.HoldOneWay(leader, follower)
	held := create(far, "/held")
	await(near, "/held") // the request reached the leader
	if exists, _, err := reader.Exists("/held"); exists || err != nil {
		t.Fatalf("the follower has heard of the node: %v, %v", exists, err)
	}
	check.None(t, held, "the follower has answered")

	e.CutOneWay(follower, leader)
	check.Must(t, <-create(near, "/later"))
	e.ReleaseOneWay(leader, follower)
	check.Must(t, <-held)
	await(reader, "/later") // what was kept arrives, and what is sent now
	lost := create(far, "/lost")
	check.True(t, <-lost != nil, "a request passed the cut")
	e.HealLink(leader, follower)
}
