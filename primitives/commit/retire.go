package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A Retired is a transaction that [Retire] has finished in the place of a site.
type Retired struct {
	Tx        Tx
	Committed bool   // its effects are missing at the site, unless the site had applied them
	Payload   []byte // of a committed transaction
}

// String returns the id and the outcome.
func (r Retired) String() string {
	if r.Committed {
		return r.Tx.ID + " committed"
	}
	return r.Tx.ID + " aborted"
}

// relist is the time after which Retire lists the remaining transactions again.
const relist = 10 * time.Second

// Retire finishes all transactions below parent, or only those that are named, in the place of a
// site that will not come back, so that they are removed. It is for operators. It returns the
// transactions that it has finished, also with an error. A transaction that is not named stays, but
// its coordinator may abort it if the site has not voted: it sees the site go when Retire returns.
//
// It acts as the site: where the site has not voted it votes No, which aborts the transaction. A
// Yes of the site stays, and Retire waits for the outcome: the transaction is decided as if the
// site were there. So Retire may take as long as the deadline and TakeoverAfter of a transaction
// whose coordinator is gone. If ctx ends first, the rest stays, and Retire may be called again.
//
// The effects of the committed transactions are not applied at the site: they are lost, if it has
// not applied them. A process that comes back as the site receives nothing of any of them. Later
// transactions must not name the site, else they wait for it until their deadline, and stay. While
// a process acts for the site, the error wraps [ErrPresent], and nothing is done.
func Retire(ctx context.Context, s *session.Session, parent, site string, only ...Tx) ([]Retired, error) {
	if err := client.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := client.Validate(recipe, s, func() error { return errors.Join(validateParent(s, parent), validateSite("site", site)) }); err != nil {
		return nil, err
	}
	done, err := retireSite(ctx, s, parent, site, only)
	return done, client.Wrap(client.Of(s), err, "commit: retire ", site, " of ", parent)
}

func retireSite(ctx context.Context, s *session.Session, parent, site string, only []Tx) (done []Retired, err error) {
	node := presenceNode(parent, site)
	if err := s.Sync(ctx, node); err != nil {
		return nil, err
	}
	if stat, err := s.Exists(ctx, node); err != nil || stat != nil {
		if err == nil {
			err = ErrPresent
		}
		return nil, err
	}
	left, err := unfinished(ctx, s, parent, site, only)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	p, err := Join(s, parent, site, nil)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	again := make(chan struct{}, 1)
	look := func() {
		select {
		case again <- struct{}{}:
		default: // a further look is due already
		}
	}
	for len(left) > 0 {
		stop := client.Of(s).After(relist, look)
		var ev Event
		select {
		case ev = <-p.Events():
		case <-again:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		stop()
		if err == nil {
			err = p.retire(ctx, ev, only, &done)
		}
		if err != nil {
			return done, err
		}
		left = slices.DeleteFunc(left, func(tx Tx) bool {
			return slices.ContainsFunc(done, func(r Retired) bool { return r.Tx == tx })
		})
		if ev == nil || len(left) == 0 {
			if left, err = unfinished(ctx, s, parent, site, only); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// meant reports whether a transaction is to be finished.
func meant(only []Tx, tx Tx) bool { return len(only) == 0 || slices.Contains(only, tx) }

// unfinished returns the transactions, of those that are meant, that the site has not finished.
func unfinished(ctx context.Context, s *session.Session, parent, site string, only []Tx) (left []Tx, err error) {
	all, err := List(ctx, s, parent)
	for _, status := range all {
		if meant(only, status.Tx()) && slices.ContainsFunc(status.Sites, func(at SiteStatus) bool { return at.Site == site && !at.Finished }) {
			left = append(left, status.Tx())
		}
	}
	return left, err
}

// retire handles an event, if there is one, in the place of the site. It leaves transactions as
// they are that are not meant.
func (p *Participant) retire(ctx context.Context, ev Event, only []Tx, done *[]Retired) (err error) {
	finish := func(r Retired) error {
		if !meant(only, r.Tx) {
			return nil
		}
		err := p.Finish(ctx, r.Tx)
		if err == nil {
			*done = append(*done, r)
		}
		return err
	}
	switch ev := ev.(type) {
	case Prepare:
		if meant(only, ev.Tx) {
			err = p.Vote(ctx, ev.Tx, No)
		}
	case Committed:
		err = finish(Retired{ev.Tx, true, ev.Payload})
	case Aborted:
		err = finish(Retired{ev.Tx, false, nil})
	case Left:
		return cmp.Or(ev.Err, ErrClosed)
	case Voted, Forgotten:
	}
	if client.IsAny(err, ErrDecided, ErrVoted, ErrNoTransaction, ErrStale) {
		return nil // the outcome follows, or the transaction is gone
	}
	return err
}
