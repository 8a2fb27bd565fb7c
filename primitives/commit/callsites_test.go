package commit_test

import (
	"context"
	"time"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
)

// This file holds the promised call sites. It need only compile.

var _ = func(ctx context.Context, s *session.Session, order []byte) error {
	tx, err := commit.Begin(ctx, s, "/app/tx/order-42", &commit.Options{
		Sites: []string{"inventory", "payments"}, Payload: order, Deadline: time.Minute, Mode: commit.Coordinated, // or commit.Peer
	})
	if err != nil {
		return err
	}
	for ev := range tx.Events() { // Voted{Site, Vote}, then Committed | Aborted{Reason}
		switch ev := ev.(type) {
		case commit.Voted:
			_, _ = ev.Site, ev.Vote
		case commit.Committed:
		case commit.Aborted:
			_ = ev.Reason
		case commit.Left:
			_ = ev.Err
		case commit.Prepare, commit.Forgotten: // sites only
		}
	}
	outcome, err := tx.Wait(ctx)
	_ = outcome
	return err
}

var _ = func(ctx context.Context, s *session.Session) error {
	p, err := commit.Join(s, "/app/tx", "payments", nil) // this site, for every transaction that names it
	if err != nil {
		return err
	}
	for ev := range p.Events() {
		switch ev := ev.(type) {
		case commit.Prepare:
			err = p.Vote(ctx, ev.Tx, commit.Yes) // ev.Payload; or commit.No
		case commit.Committed:
			err = p.Finish(ctx, ev.Tx) // applied; the transaction is removed when all have finished
		case commit.Aborted:
			err = p.Finish(ctx, ev.Tx)
		case commit.Voted, commit.Forgotten, commit.Left:
		}
	}
	return err
}

var _ = func(ctx context.Context, s *session.Session) error {
	_, err := commit.Resume(ctx, s, "/app/tx")
	if err != nil {
		return err
	}
	_, err = commit.List(ctx, s, "/app/tx")
	return err
}
