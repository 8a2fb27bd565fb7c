package lock

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A contested server has no record when it is read, and refuses writes of it.
type contested struct {
	client.Async
	refusals []error  // of writes, in turn; when none is left, they are done
	writes   []func() // their answers, which never come while they are sent
	removals []session.Removal
}

func (c *contested) Exists(_ string, answer func(*session.Stat, error)) {
	answer(&session.Stat{Czxid: 7}, nil)
}

func (c *contested) Get(_ string, answer func([]byte, *session.Stat, error)) {
	answer(nil, nil, session.ErrNoNode)
}

func (c *contested) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	results, err := make([]session.OpResult, len(ops)), error(nil)
	if len(c.refusals) > 0 {
		err, c.refusals = c.refusals[0], c.refusals[1:]
	}
	if results[1].Err = err; session.InDoubt(err) {
		results = nil
	}
	c.writes = append(c.writes, func() { answer(results, err) })
}

func (c *contested) Remove(r session.Removal, answer func(error)) (cancel func()) {
	c.removals = append(c.removals, r)
	answer(nil)
	return func() {}
}

// take returns the answer to the claim of a contender.
func (c *contested) take(d *delayer, node string) (czxid int64, err error) {
	d.Take(c, node, false, func(at int64, _ bool, failed error) { czxid, err = at, failed })
	for len(c.writes) > 0 {
		answer := c.writes[0]
		c.writes = c.writes[1:]
		answer()
	}
	return czxid, err
}

// TestRecordMeanwhile: a contender that finds another's record when it writes its own reads again.
func TestRecordMeanwhile(t *testing.T) {
	for _, refusal := range []error{session.ErrNodeExists, session.ErrBadVersion} {
		czxid, err := (&contested{refusals: []error{refusal}}).take(newDelayer("/l/disk", 1), "n")
		check.True(t, czxid == 7 && err == nil, "after %v: %d, %v", refusal, czxid, err)
	}
	_, err := (&contested{refusals: []error{session.ErrNoAuth}}).take(newDelayer("/l/disk", 1), "n")
	check.Is(t, err, session.ErrNoAuth)
}

// TestRecordInDoubt: a contender that leaves while it is not known whether its record was written
// removes that first, if it is its own, and then its node.
func TestRecordInDoubt(t *testing.T) {
	d, c := newDelayer("/l/disk", 1), &contested{refusals: []error{session.ErrUnknownOutcome}}
	_, err := c.take(d, "n")
	check.Is(t, err, session.ErrUnknownOutcome)
	answers := 0
	d.Withdraw(c, "n", "", func(error) { answers++ })
	check.Equal(t, answers, 1, "answers")
	check.Require(t, len(c.removals) == 1 && c.removals[0].Then != nil, "removals: %v", c.removals)
	r := c.removals[0]
	check.True(t, r.Path == d.record && r.Then.Path == d.dir+"/n", "%s is removed, and then %s", r.Path, r.Then.Path)
	check.True(t, r.Says(delayRecord{node: "n"}.bytes()), "its own record is left")
	check.False(t, r.Says(delayRecord{node: "m"}.bytes()), "another's record is removed")
	d.write(turn{requests: c, node: "n"}, session.Op{})
	check.Len(t, c.writes, 0, "writes of a contender that has left")
}
