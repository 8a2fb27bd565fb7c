package session

import (
	"bytes"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file converts replies into results.

func nothing(*call, *wire.Reply) (struct{}, error) { return struct{}{}, nil }

func statIn(_ *call, r *wire.Reply) (*Stat, error) { return statOf(&r.Stat), nil }

func readingIn(c *call, r *wire.Reply) (Reading, error) {
	return Reading{Zxid: c.zxid, Stat: statOf(&r.Stat), Data: bytes.Clone(r.Data), Names: r.Names}, nil
}

func createdIn(c *call, r *wire.Reply) (string, error) {
	e := c.epoch.Load()
	if c.ephemeral > 0 {
		c.owns(r.Path)
	}
	return e.session.relative(r.Path), nil
}

func deletedIn(c *call, _ *wire.Reply) (struct{}, error) {
	c.epoch.Load().ephemerals.disown(c.target)
	return struct{}{}, nil
}

type aclResult struct {
	acl  []ACL
	stat *Stat
}

func aclIn(_ *call, r *wire.Reply) (aclResult, error) {
	acl := make([]ACL, len(r.ACL))
	for i, a := range r.ACL {
		acl[i] = ACL{Perms: Perms(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return aclResult{acl, statOf(&r.Stat)}, nil
}

// resultsIn converts the results of a transaction. The error is that of the operation that
// failed it.
func resultsIn(c *call, reply *wire.Reply) ([]OpResult, error) {
	ops, replies := c.asked, reply.Results
	e := c.epoch.Load()
	s := e.session
	results := make([]OpResult, len(ops))
	var failed error
	for i := range replies {
		r := &replies[i]
		switch {
		case r.Op == wire.OpError:
			// What another's failure undid, or kept from being tried, has not failed.
			if r.Code != wire.CodeOK && r.Code != wire.CodeRuntimeInconsistency {
				results[i].Err = ops[i].refused(errOf(r.Code))
				if failed == nil {
					failed = &OpError{Op: "multi", Path: ops[i].path, Err: results[i].Err}
				}
			}
			continue
		case r.Path != "":
			results[i].Path, results[i].company = s.relative(r.Path), c.company
		}
		if r.HasStat {
			results[i].Stat = statOf(&r.Stat)
		}
		switch {
		case ops[i].kind == opKindCreate && ops[i].mode.IsEphemeral():
			c.owns(r.Path)
		case ops[i].kind == opKindDelete:
			e.ephemerals.disown(s.absolute(ops[i].path))
		}
	}
	return results, failed
}

// owns notes what the call has created, in the place of what was reserved for it: its answer may have to wait.
func (c *call) owns(path string) {
	e := c.epoch.Load()
	e.ephemerals.own(path, c.zxid, confirmed)
	e.ephemerals.release(c.ephemeral)
	c.ephemeral = 0
	e.audit()
}
