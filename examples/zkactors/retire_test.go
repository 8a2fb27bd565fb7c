package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestRetireCommand(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	begin := func(id string) *commit.Transaction {
		t.Helper()
		tx, err := commit.Begin(t.Context(), s, "/payments/"+id, &commit.Options{Sites: []string{"ledger"}, Deadline: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tx.Close)
		return tx
	}
	ledger, err := commit.Join(s, "/payments", "ledger", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	one := begin("one")
	prepare, ok := zktest.Await(t, ledger.Events(), func(ev commit.Event) bool { _, ok := ev.(commit.Prepare); return ok }).(commit.Prepare)
	if !ok {
		t.Fatal("not asked")
	}
	if err := ledger.Vote(t.Context(), prepare.Tx, commit.Yes); err != nil {
		t.Fatal(err)
	}
	if outcome, err := one.Wait(t.Context()); err != nil || !outcome.Committed {
		t.Fatal(outcome, err)
	}
	<-one.Done()
	runWith(t, srv, "retire --yes --site ledger /payments").want(t, 1, "", "a process acts for the site ledger")
	ledger.Close()
	two := begin("two")
	at := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	runIn(t, "n\n", true, append(at, "retire", "/payments", "--site", "ledger")...).want(t, 1, "", "Retire ledger, in 2 transactions? [y/N]")
	runWith(t, srv, "retire -y --site stock /payments").want(t, 1, "", "no transaction waits for the site stock")
	r := runWith(t, srv, "retire -y --site ledger /payments")
	r.want(t, 0, "one committed\n", "two coordinated undecided: ledger=none\n")
	r.want(t, 0, "two aborted\n", "one coordinated committed by coordinator: ledger=yes\n")
	if outcome, err := two.Wait(t.Context()); err != nil || outcome.Reason != commit.VotedNo {
		t.Error(outcome, err)
	}
	<-two.Done()
	three := begin("three")
	runWith(t, srv, "retire -y --json --site ledger /payments").want(t, 0, `"committed": false`, "three")
	<-three.Done()
	if all, err := commit.List(t.Context(), s, "/payments"); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
}
