package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRetireTransaction: a transaction whose sites have never joined is ended, and so is one with a
// site that has voted and is gone. The consequences are printed first.
func TestRetireTransaction(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	begin := func(id string, sites ...string) *commit.Transaction {
		t.Helper()
		tx, err := commit.Begin(t.Context(), s, "/payments/"+id, &commit.Options{Sites: sites, Deadline: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tx.Close)
		return tx
	}
	stock, err := commit.Join(s, "/payments", "stock", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	one, two := begin("one", "stock", "ledger", "mail"), begin("two", "ledger")
	prepare, ok := zktest.Await(t, stock.Events(), func(ev commit.Event) bool { _, ok := ev.(commit.Prepare); return ok }).(commit.Prepare)
	if !ok {
		t.Fatal("not asked")
	}
	if err := stock.Vote(t.Context(), prepare.Tx, commit.Yes); err != nil {
		t.Fatal(err)
	}
	stock.Close()
	at := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	r := runIn(t, "n\n", true, append(at, "retire", "/payments", "--transaction", "one")...)
	for _, want := range []string{
		"  stock: it has voted yes, and does not receive the outcome", "  ledger: it has not voted: its vote is No",
		"sees these sites go: two ", "Retire ledger, mail, stock? [y/N]",
	} {
		r.want(t, 1, "", want)
	}
	runWith(t, srv, "retire -y --transaction three /payments").want(t, 1, "", "there is no transaction three")
	r = runWith(t, srv, "retire -y --transaction one /payments")
	r.want(t, 0, "one aborted\n", "ledger")
	if strings.Contains(r.stdout, "two") {
		t.Error(r.stdout)
	}
	runWith(t, srv, "retire -y --site ledger /payments").want(t, 0, "two aborted\n", "ledger")
	if outcome, err := one.Wait(t.Context()); err != nil || outcome.Reason != commit.VotedNo {
		t.Error(outcome, err)
	}
	for _, tx := range []*commit.Transaction{one, two} {
		<-tx.Done()
	}
	if all, err := commit.List(t.Context(), s, "/payments"); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
}

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
