package semaphore

import (
	"errors"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// This file has the nodes beside the line: where the limit is recorded, and how these nodes are
// created.
//
//	<path>         a container: "<limit> unit", or "<limit>"; persistent if SetLimit made it
//	<path>/leases  the line, a container
//	<path>/numbers the numbers of leases, see number.go; a container
//
// If all leases have the weight 1, their number decides whether there is room. "unit" records that
// they have. It is written when the semaphore is created, and removed for good before a contender
// of another weight joins the line. A limit without that word is safe, whichever client wrote it.

func leasesOf(path string) string { return znode.Join(path, "leases") }

func rule(limit int, opts Options) admission {
	return admission{Limit: limit, Any: opts.AnyLimit, Weight: opts.Weight, Numbered: opts.Numbered}
}

// A store has the nodes of a semaphore beside the line, as a lease with the rule uses them. It is
// the parent and the condition of the lease's recipe.
type store struct {
	path string
	rule admission
}

// recipeOf returns the recipe of a lease. The rule is the admission, or a nested one.
func recipeOf(path string, data []byte, l admission, rule line.Rule) *contender.Recipe {
	s := &store{path, l}
	r := &contender.Recipe{Name: "semaphore", Path: path, Dir: s.dir(), Data: data, Rule: rule, Parent: s, Condition: s}
	if l.Numbered {
		r.Claim = &numbers{path: path, rule: rule, limit: l.Limit}
	}
	return r
}

func (s *store) dir() string { return leasesOf(s.path) }

// Warmth implements [contender.Parent]. A lease of a greater weight has a name of its own, because
// for it "unit" must have been removed.
func (s *store) Warmth() string {
	if s.rule.Weight > 1 {
		return s.dir() + " weighted"
	}
	return s.dir()
}

// Read implements [contender.Condition]: it reads the record, and fails if other recipes use the
// path.
func (s *store) Read(requests client.Async, answer func(data string, err error)) {
	requests.Get(s.path, func(data []byte, stat *session.Stat, err error) {
		if err != nil || stat.NumChildren <= 1 {
			answer(conditionOf(data, stat), err)
			return
		}
		s.vacant(requests, false, func(err error) { answer(conditionOf(data, stat), err) })
	})
}

// Node implements [contender.Followed].
func (s *store) Node() string { return s.path }

// Of implements [contender.Followed].
func (s *store) Of(node session.Reading) string { return conditionOf(node.Data, node.Stat) }

// Check implements [contender.Followed].
func (s *store) Check(children []string) error {
	return line.Vacant(nodes.OfSemaphore, children, isCurators)
}

// conditionOf returns the condition of the rule: the record, and the zxid of its newest change.
func conditionOf(record []byte, stat *session.Stat) string {
	if stat == nil {
		return string(record)
	}
	return string(record) + "@" + strconv.FormatInt(stat.Mzxid, 10)
}

// parseCondition parses the result of conditionOf.
func parseCondition(data string) (r recordedLimit, since int64, err error) {
	record := data
	if at := strings.LastIndexByte(data, '@'); at >= 0 {
		record = data[:at]
		since, _ = strconv.ParseInt(data[at+1:], 10, 64)
	}
	r, err = parseRecord(record)
	return r, since, err
}

// vacant answers with an error if contenders of another layout hold leases, or stand at the path,
// or if a new contender finds the children of another recipe. A contender in line was first.
// Curator's semaphore has "locks" beside "leases". Its waiter stands among the leases until their
// nodes, including those behind it, are within the limit: with a waiter of ours behind it, each
// would wait for the other.
func (s *store) vacant(requests client.Async, isNew bool, answer func(error)) {
	requests.Children(s.path, func(names []string, _ *session.Stat, err error) {
		if err == nil {
			err = s.Check(names)
		}
		if err == nil && isNew {
			err = line.Foreign(nodes.Foreign(nodes.OfSemaphore, names))
		}
		if err != nil {
			answer(err)
			return
		}
		contender.Refuse(requests, s.path, names, answer)
	})
}

func isCurators(name string) bool { return name == "locks" }

// Inspect implements [contender.Parent]: it reads whether the line exists, and whether its record
// suits us. It writes a missing record.
func (s *store) Inspect(requests client.Async, isNew bool, answer func(dir *session.Stat, err error)) {
	requests.Get(s.path, func(data []byte, stat *session.Stat, err error) {
		if errors.Is(err, session.ErrNoNode) {
			answer(nil, nil)
			return
		}
		suits := ""
		if err == nil {
			suits, err = suit(s.rule, data, stat, isNew)
		}
		record := func() {
			requests.Set(s.path, []byte(suits), stat.Version, func(_ *session.Stat, err error) {
				if err == nil || errors.Is(err, session.ErrBadVersion) || errors.Is(err, session.ErrNoNode) {
					s.Inspect(requests, isNew, answer)
					return
				}
				answer(nil, err)
			})
		}
		switch {
		case err != nil:
			answer(nil, err)
		case len(data) == 0 && stat.NumChildren > 0: // of whom?
			s.vacant(requests, isNew, func(err error) {
				if err != nil {
					answer(nil, err)
					return
				}
				record()
			})
		case suits != string(data):
			record()
		default:
			requests.Exists(s.dir(), func(dir *session.Stat, err error) {
				others := stat.NumChildren
				if dir != nil {
					others--
				}
				if err != nil || others == 0 {
					answer(dir, err)
					return
				}
				s.vacant(requests, isNew, func(err error) { answer(dir, err) })
			})
		}
	})
}

// suit returns the record that suits the lease, given the present data of the path: the same if
// that suits.
func suit(l admission, data []byte, stat *session.Stat, isNew bool) (string, error) {
	if len(data) == 0 { // the node was created as the parent of another
		return recordedLimit{Limit: l.Limit, Unit: l.Weight == 1 && stat.NumChildren == 0}.String(), nil
	}
	record, err := parseRecord(string(data))
	if err == nil {
		err = l.Check(record, isNew)
	}
	if err != nil || l.Weight == 1 || !record.Unit {
		return string(data), err
	}
	record.Unit = false
	return record.String(), nil
}

// Make implements [contender.Parent]. It reports made only if it has created all nodes: otherwise
// the line has to be inspected.
func (s *store) Make(requests client.Async, answer func(made bool, err error)) {
	record := recordedLimit{Limit: s.rule.Limit, Unit: s.rule.Weight == 1}
	recipe.MakeContainer(requests, s.path, record.String(), func(mine bool, err error) {
		if err != nil {
			answer(false, err)
			return
		}
		client.MakeContainer(requests, s.dir(), "", func(err error) {
			switch {
			// the path is gone, and must not be created without a record
			case errors.Is(err, session.ErrNoNode):
				s.Make(requests, answer)
			case errors.Is(err, session.ErrNodeExists):
				answer(false, nil)
			// the server checks the parent's ACL before it looks for the node
			case errors.Is(err, session.ErrNoAuth):
				requests.EnsurePath(s.dir(), func(_ bool, err error) { answer(false, err) })
			default:
				answer(mine && err == nil, err)
			}
		})
	})
}
