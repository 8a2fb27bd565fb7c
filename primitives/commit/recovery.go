package commit

import (
	"context"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// Resume returns a handle for every transaction below parent, for a coordinator that restarts. The
// handles receive existing votes again. Resuming a transaction that has a coordinator does no harm:
// the first to record an outcome wins. Decided transactions are resumed too, so that the nodes that
// an earlier coordinator has left are removed. The deadlines begin anew. A transaction that the
// sites decide and remove before its handle has read the outcome ends with [ErrForgotten]. Nodes
// that are not transactions, or may not be read, are ignored.
//
// If the error is not nil, no handle is returned and none is left open.
func Resume(ctx context.Context, s *session.Session, parent string) ([]*Transaction, error) {
	found, err := surveyAll(ctx, s, "resume", parent, false)
	if err != nil {
		return nil, err
	}
	handles := make([]*Transaction, len(found.records))
	for i, r := range found.records {
		t := newTransaction(client.Of(s), parent, r, znode.NewGUID())
		t.run(resumed(r), resumption())
		handles[i] = t
	}
	return handles, nil
}

// A Status is the state of a transaction, as [List] shows it.
type Status struct {
	ID      string
	GUID    string // no other transaction has it
	Mode    Mode
	Payload []byte
	Sites   []SiteStatus // in the order in which they were named
	Outcome *Outcome     // nil while the transaction is undecided

	// Coordinated says that a coordinator is connected.
	Coordinated bool
}

// A SiteStatus is the state of a site in a transaction, as [List] shows it.
type SiteStatus struct {
	Site     string
	Vote     Vote
	Data     []byte // of the vote
	Finished bool   // the vote is gone then
	Present  bool   // a process acts for the site
}

// Tx returns the name that the sites' events have for the transaction.
func (s Status) Tx() Tx { return Tx{s.ID, s.GUID} }

// String implements [fmt.Stringer].
func (s Status) String() string {
	outcome := "undecided"
	if s.Outcome != nil {
		outcome = s.Outcome.String()
	}
	var sites strings.Builder
	for _, site := range s.Sites {
		state := site.Vote.String()
		if site.Finished {
			state = "finished"
		}
		fmt.Fprintf(&sites, " %s=%s", site.Site, state)
	}
	return fmt.Sprintf("%s %v %s:%s", s.ID, s.Mode, outcome, sites.String())
}

// List shows the transactions in progress below parent, for operators, in the order of their ids. A
// transaction that ends meanwhile may be shown or not. Nodes that are not transactions, or may not
// be read, are ignored.
func List(ctx context.Context, s *session.Session, parent string) ([]Status, error) {
	found, err := surveyAll(ctx, s, "list", parent, true)
	if err != nil {
		return nil, err
	}
	return found.shown, nil
}
