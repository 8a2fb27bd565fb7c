package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/session"
)

// Resume returns a handle for every transaction below parent, for a coordinator that restarts. Votes
// that are there are received again. Resuming a transaction that has a coordinator does no harm:
// the first to record an outcome wins. Decided transactions are resumed too, so that what an
// earlier coordinator left behind is removed. The deadlines begin anew. A transaction that the sites
// decide and remove before its handle has read the outcome ends with [ErrForgotten].
//
// If the error is not nil, no handle is returned and none is left open.
func Resume(ctx context.Context, s *session.Session, parent string) ([]*Transaction, error) {
	all, err := scan(ctx, s, parent)
	if err != nil {
		return nil, fmt.Errorf("commit: resume %s: %w", parent, err)
	}
	handles := make([]*Transaction, len(all))
	for i, r := range all {
		t := newTransaction(s, parent, r)
		t.start(resumed(r), resumption())
		handles[i] = t
	}
	return handles, nil
}

// A Status is what [List] shows of a transaction.
type Status struct {
	ID      string
	Mode    Mode
	Payload []byte
	Sites   []SiteStatus // in the order in which they were named
	Outcome *Outcome     // nil while the transaction is undecided

	// Coordinated says that a coordinator is connected.
	Coordinated bool
}

// A SiteStatus is what [List] shows of a site in a transaction.
type SiteStatus struct {
	Site     string
	Vote     Vote
	Data     []byte // of the vote
	Finished bool   // the vote is gone then
	Present  bool   // a process acts for the site
}

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
// transaction that ends meanwhile may be shown or not.
func List(ctx context.Context, s *session.Session, parent string) ([]Status, error) {
	all, err := scan(ctx, s, parent)
	if err != nil {
		return nil, fmt.Errorf("commit: list %s: %w", parent, err)
	}
	present, _, err := s.Children(ctx, session.Join(parent, presences))
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		return nil, fmt.Errorf("commit: list %s: %w", parent, err)
	}
	var shown []Status
	for _, r := range all {
		status, err := r.status(ctx, s, parent, present)
		switch {
		case errors.Is(err, session.ErrNoNode): // it has ended
		case err != nil:
			return nil, fmt.Errorf("commit: list %s: %w", parent, err)
		default:
			shown = append(shown, status)
		}
	}
	return shown, nil
}

// status reads the ballots of a transaction.
func (r *record) status(ctx context.Context, s *session.Session, parent string, present []string) (Status, error) {
	at := place{parent, r.id, r.GUID}
	names, _, err := s.Children(ctx, at.dir())
	if err != nil {
		return Status{}, err
	}
	b := parse(names)
	status := Status{ID: r.id, Mode: r.Mode, Payload: r.Payload, Outcome: r.Outcome, Coordinated: b.coordinators > 0}
	for _, site := range r.Sites {
		ours, there := b.of[site]
		shown := SiteStatus{Site: site, Vote: ours.vote, Finished: !there, Present: slices.Contains(present, site)}
		if ours.data {
			shown.Data, _, err = s.Get(ctx, at.ballot(ours.name(site)))
			if errors.Is(err, session.ErrNoNode) {
				shown.Finished, err = true, nil
			}
			if err != nil {
				return Status{}, err
			}
		}
		status.Sites = append(status.Sites, shown)
	}
	return status, nil
}

// scan reads the records of all transactions below parent, as they are when it is called or later.
func scan(ctx context.Context, s *session.Session, parent string) ([]*record, error) {
	if err := validateSession(s); err != nil {
		return nil, err
	}
	if err := validateParent(s, parent); err != nil {
		return nil, err
	}
	if err := s.Sync(ctx, parent); err != nil {
		return nil, err
	}
	names, _, err := s.Children(ctx, parent)
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		return nil, err
	}
	var all []*record
	for _, id := range transactions(names) {
		data, _, err := s.Get(ctx, session.Join(parent, id))
		if errors.Is(err, session.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r, err := decode(id, data)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
