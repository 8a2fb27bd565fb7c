package election

import (
	"fmt"
	"math"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

const defaultLeadGrace = 10 * time.Second

// Options are optional parameters for [New]. A nil *Options is equivalent to a zero
// Options.
type Options struct {
	// Data is shown to every observer while this candidate leads: its address, for example. The
	// default, nil, is host:pid of the process. Data that is empty, but not nil, stays empty.
	Data []byte

	// Layout decides the names of nodes. The default is [Standard].
	Layout Layout

	// With IgnoreLeader the candidate does not follow the leader: [LeaderChanged] reports only its
	// own terms, and [Candidate.Leader] knows no other leader. Without it, every candidate reads
	// the leader's node at each change. With it, only the candidate directly behind the leader
	// does, so the cost of a succession does not depend on the number of candidates.
	IgnoreLeader bool

	// LeadGrace is the time that a function of [Candidate.Lead] has to return after the end of its
	// context, before [Overrun] is emitted. The default is 10 s.
	LeadGrace time.Duration
}

// ObserveOptions are optional parameters for [Observe] and [Candidates]. A nil
// *ObserveOptions is equivalent to a zero ObserveOptions.
type ObserveOptions struct {
	// Layout is the layout of the candidates. The default is [Standard].
	Layout Layout
}

func (o *Options) withDefaults() Options {
	v := client.Options(o)
	v.Data = contender.Identity(v.Data)
	if v.LeadGrace == 0 {
		v.LeadGrace = defaultLeadGrace
	}
	return v
}

// validate refuses bad arguments, before any I/O.
func validate(s *session.Session, path string, opts Options) error {
	return recipe.Check(s, "election", path, func(valid bool) (errs []error) {
		if valid {
			if err := fits(s, path, opts); err != nil {
				errs = append(errs, fmt.Errorf("election: Options.Data: %w", err))
			}
		}
		if opts.Layout < Standard || opts.Layout > CuratorSelector {
			errs = append(errs, fmt.Errorf("election: Options.Layout: %w: there is no layout %d", session.ErrInvalidArgument, opts.Layout))
		}
		if opts.LeadGrace < 0 {
			errs = append(errs, fmt.Errorf("election: Options.LeadGrace: %w: %v is negative", session.ErrInvalidArgument, opts.LeadGrace))
		}
		return errs
	})
}

// fits returns an error if the largest transaction of a candidate is too large to be sent.
func fits(s *session.Session, path string, opts Options) error {
	node := znode.GUIDName(znode.NewGUID(), "__lock__-2147483648")
	r := record{Node: node, Acknowledged: true, Succeeds: true, Successor: node, Term: math.MaxInt64, Data: string(opts.Data)}
	own, leader := znode.Join(znode.Join(path, candidatesNode), node), znode.Join(path, leaderNode)
	b := bid{dir: znode.Join(path, candidatesNode), leader: leader, successors: znode.Join(path, successorsNode), record: r}.succeeding(r, 0)
	return client.Of(s).Fits(append(b.Take(), session.DeleteOp(own, 0))...)
}
