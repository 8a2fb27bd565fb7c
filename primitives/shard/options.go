package shard

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters of [Join]. A nil *Options is equivalent to a zero Options.
type Options struct {
	// ID names the member; it must be the name of a node. A member that comes back with its ID gets
	// its shards back, so choose one that outlives the process, as of its host. The default is
	// "host:pid".
	ID string

	// Weight says how many shards the member is to have, in relation to the others; 1 by default.
	Weight int

	// Zone is for a Placement of yours; [Balanced] does not look at it. It is UTF-8.
	Zone string

	// GiveWithin is the time in which the member gives a shard that is revoked. It loses the shard
	// then. The default is 30 seconds.
	GiveWithin time.Duration

	// AtOnce is the number of shards that are revoked at once, at most. The default is 16.
	AtOnce int

	// ConflictAfter is the time for which a member with the same ID counts as a ghost of a crashed
	// process, whose end is waited for; then the member leaves with [ErrDuplicate]. The default is
	// twice the timeout of the session.
	ConflictAfter time.Duration

	// Placement places the shards; [Balanced] by default. It must be the same in all members.
	Placement Placement
}

// The default values.
const (
	defaultGiveWithin = 30 * time.Second
	defaultAtOnce     = 16
)

// The largest values. A plan with the records of all members, which may be written in one
// transaction, fits a request then if there are no more than some 2,000 members.
const (
	mostShards = 50_000
	mostWeight = 1_000_000
	mostID     = 256 // bytes
	mostZone   = 100
)

func (o *Options) withDefaults() Options {
	d := client.Options(o)
	if d.ID == "" {
		d.ID = strings.ReplaceAll(string(contender.Identity(nil)), "/", "_")
	}
	d.Weight = cmp.Or(d.Weight, 1)
	d.GiveWithin = cmp.Or(d.GiveWithin, defaultGiveWithin)
	d.AtOnce = cmp.Or(d.AtOnce, defaultAtOnce)
	if d.Placement == nil {
		d.Placement = Balanced
	}
	return d
}

// validate refuses what cannot be done, before any I/O.
func validate(s *session.Session, path string, n int, o Options) error {
	return recipe.Check(s, "shard", path, func(valid bool) (errs []error) {
		refuse := func(is bool, what string, args ...any) {
			if is {
				errs = append(errs, fmt.Errorf("shard: %w: %s", session.ErrInvalidArgument, fmt.Sprintf(what, args...)))
			}
		}
		refuse(n <= 0 || n > mostShards, "n: %d shards: must be from 1 to %d", n, mostShards)
		if err := validID(path, o.ID); valid && err != nil {
			errs = append(errs, fmt.Errorf("shard: Options.ID: %w", err))
		}
		refuse(o.Weight < 0 || o.Weight > mostWeight, "Options.Weight %d: must be from 1 to %d", o.Weight, mostWeight)
		refuse(len(o.Zone) > mostZone || !utf8.ValidString(o.Zone), "Options.Zone %q: must be text of at most %d bytes", o.Zone, mostZone)
		refuse(o.GiveWithin < 0, "Options.GiveWithin %v: must not be negative", o.GiveWithin)
		refuse(o.AtOnce < 0, "Options.AtOnce %d: must not be negative", o.AtOnce)
		refuse(o.ConflictAfter < 0, "Options.ConflictAfter %v: must not be negative", o.ConflictAfter)
		return errs
	})
}

func validID(path, id string) error {
	if len(id) > mostID {
		return fmt.Errorf("%w: it has %d bytes, the limit is %d", session.ErrInvalidArgument, len(id), mostID)
	}
	if strings.Contains(id, "/") {
		return fmt.Errorf("%w: %q has a / in it", session.ErrInvalidArgument, id)
	}
	return session.ValidatePath(znode.Join(path, id))
}
