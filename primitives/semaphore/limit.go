package semaphore

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// Limit returns the recorded limit of the semaphore at path, as the session's server knows it. The
// error wraps [session.ErrNoNode] if there is no such semaphore, and [ErrLimit] if the record is
// not a limit.
func Limit(ctx context.Context, s *session.Session, path string) (int, error) {
	if err := validatePlace(s, path); err != nil {
		return 0, err
	}
	data, _, err := s.Get(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("limit: %w", err)
	}
	record, err := parseRecord(string(data))
	if err != nil {
		return 0, fmt.Errorf("limit of semaphore %s: %w", path, err)
	}
	return record.Limit, nil
}

// SetLimit records the limit of the semaphore at path, whether or not there is one yet. It returns
// when the limit is recorded. Waiters that have room now proceed by themselves. Holders keep their
// leases, so after a lower limit more may be held for a while. A waiter whose
// weight exceeds the new limit receives [Failed] with [ErrLimit]. A contender that comes later and
// asks for the old limit is refused, unless it has [Options.AnyLimit].
//
// If there is no such semaphore yet, SetLimit creates a persistent path. Otherwise the path goes
// some time after its last leases, and the limit with it. All contenders in line read the new
// limit, so do not call SetLimit every second.
//
// SetLimit replaces no data that is not a limit, which may be another recipe's: then the error
// wraps [ErrLimit]. If it is a limit that was written wrong by hand, write it anew by hand.
//
// The error wraps [session.ErrUnknownOutcome] if ctx ends or the session expires before the reply.
// It also does if the reply is lost and another client has set another limit meanwhile.
func SetLimit(ctx context.Context, s *session.Session, path string, limit int) error {
	err := validatePlace(s, path)
	if err == nil {
		err = validateLimit(limit)
	}
	if err != nil {
		return err
	}
	var pauses owned.Set
	defer pauses.End()
	for {
		again, err := setLimit(ctx, s, path, limit)
		if again && err != nil && pauses.Wait(ctx, err) == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("set limit of semaphore %s: %w", path, err)
		}
		return nil
	}
}

// setLimit tries once, and reports whether it may be tried again after its failure.
func setLimit(ctx context.Context, s *session.Session, path string, limit int) (again bool, err error) {
	// A follower that lags may still show the limit that is to be set, although it was replaced.
	if err := s.Sync(ctx, path); err != nil {
		return false, err
	}
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, session.ErrNoNode):
		dir, _ := znode.Split(path)
		if err := s.EnsurePath(ctx, dir); err != nil {
			return false, err
		}
		_, err = s.Create(ctx, path, []byte(recordedLimit{Limit: limit, Unit: true}.String()), session.Persistent)
		if passing(ctx, err) { // of unknown outcome
			return reconsider(ctx, s, path, limit, err, func(now *session.Stat) bool { return now.Version > 0 })
		}
		return errors.Is(err, session.ErrNodeExists) || errors.Is(err, session.ErrNoNode), err
	case err != nil:
		return false, err
	}
	var record recordedLimit
	if len(data) > 0 {
		if record, err = parseRecord(string(data)); err != nil { // it may be another's
			return false, err
		}
	}
	record.Limit = limit
	if string(data) == record.String() {
		return false, nil
	}
	_, err = s.Set(ctx, path, []byte(record.String()), stat.Version)
	if passing(ctx, err) { // of unknown outcome
		return reconsider(ctx, s, path, limit, err, func(now *session.Stat) bool {
			return now.Czxid == stat.Czxid && now.Version != stat.Version
		})
	}
	return errors.Is(err, session.ErrBadVersion) || errors.Is(err, session.ErrNoNode), err
}

// reconsider resolves a write of unknown outcome. If a limit was set since, it is ours, or another
// client's, set after ours or instead of it. Then setting ours once more might undo the limit of
// that client.
func reconsider(ctx context.Context, s *session.Session, path string, limit int, err error, since func(now *session.Stat) bool) (again bool, _ error) {
	data, now, readErr := s.Get(ctx, path)
	switch {
	case errors.Is(readErr, session.ErrNoNode):
		return true, err
	case readErr != nil:
		return false, err
	}
	record, _ := parseRecord(string(data))
	switch {
	case record.Limit == limit:
		return false, nil
	case since(now):
		return false, err
	}
	return true, err
}

// passing reports whether a write may be repeated in the same session.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && session.Passing(err) && !client.Over(err)
}

// A Holder holds a lease.
type Holder struct {
	Node    string // the path of its node
	Weight  int
	Data    []byte // its [Options.Data]
	Session int64  // the session that owns its node
}

// Holders returns the holders of leases of the semaphore at path, in the order of the line, as the
// session's server knows them. These are the contenders for which there is room, whether or not
// they have noticed yet, and those that have held since before a lower limit. There are none if the
// path does not exist. A contender that leaves during the call is left out.
func Holders(ctx context.Context, s *session.Session, path string) ([]Holder, error) {
	if err := validatePlace(s, path); err != nil {
		return nil, err
	}
	names, _, err := s.Children(ctx, leasesOf(path))
	if errors.Is(err, session.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("holders: %w", err)
	}
	limit, err := Limit(ctx, s, path) // after the names, as the contenders read it
	if err != nil {
		return nil, fmt.Errorf("holders: %w", err)
	}
	standing := sortLeases(names)
	paths := recipe.Map(standing, func(c nodes.Contender) string { return znode.Join(leasesOf(path), c.Name) })
	read, err := recipe.Read(ctx, s, paths)
	if err != nil {
		return nil, fmt.Errorf("holders of semaphore %s: %w", path, err)
	}
	var all []Holder
	sum := 0
	for i, r := range read {
		switch {
		case errors.Is(r.Err, session.ErrNoNode):
			continue
		case r.Err != nil:
			return nil, fmt.Errorf("holders: %w", r.Err)
		}
		_, weight, _ := nodes.ParseLease(standing[i].Name)
		sum = min(sum+weight, nodes.MaxLimit+1)
		if announced := r.Stat.Version > 0; announced || sum <= limit {
			all = append(all, Holder{paths[i], weight, r.Data, r.Stat.EphemeralOwner})
		}
	}
	return all, nil
}
