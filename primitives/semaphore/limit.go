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

// Limit returns the limit that is recorded of the semaphore at path, as the server that
// the session is connected to knows it. The error wraps [session.ErrNoNode] if there is
// no such semaphore, and [ErrLimit] if the record is not a limit.
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

// SetLimit records the limit of the semaphore at path, whatever it was, and whether or not
// there is one yet. It returns when that is done: waiters that have room now proceed by
// themselves. Holders keep what they hold, so after the limit was lowered more may be held for
// a while. A waiter whose weight is over the new limit is told [Lost] with [ErrLimit]. If
// there is no such semaphore yet, the path is made to stay; otherwise it goes with its last
// leases, some time after them, and the limit with it. All contenders in line read it then, so
// it is not for every second. A contender that comes later and still asks for the old limit is
// refused, unless with [Options.AnyLimit].
//
// The error wraps [session.ErrUnknownOutcome] if ctx ends or the session expires while
// the reply is outstanding. It does so too if the reply is lost and another client has
// set another limit meanwhile.
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

// setLimit tries once, and tells whether the failure is one to try again after.
func setLimit(ctx context.Context, s *session.Session, path string, limit int) (again bool, err error) {
	// What a follower that lags still says may be what is to be set, and was replaced.
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
	record, _ := parseRecord(string(data)) // what is none is replaced
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

// reconsider resolves a write of unknown outcome. A limit that was set since is ours, or
// was set after it, or instead of it; to set ours once more might undo the limit of
// another client.
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

// passing reports whether a write may be tried again in the same session.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && session.Passing(err) && !client.Over(err)
}

// A Holder holds a lease.
type Holder struct {
	Node    string // the path of its node
	Weight  int
	Data    []byte // its [Options.Data]
	Session int64  // the session that it holds it through
}

// Holders returns the holders of leases of the semaphore at path, in line order, as the
// server that the session is connected to knows it: contenders for which there is room,
// whether or not they have noticed yet, and those that have held since before the limit was
// lowered. There are none if there is no such path. A contender that leaves while they are
// read is left out.
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
	limit, err := Limit(ctx, s, path) // after the names: as those who stand in line read it
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
