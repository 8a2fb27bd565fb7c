package priority

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/linemodel"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file has claims of a line with priorities overtaken by those of another.

const (
	oursPriority   = "_c_00000000-0000-4000-8000-000000000000-p1000-write-0000000000"
	theirsPriority = "_c_00000001-0000-4000-8000-000000000000-p1000-write-0000000001"

	most = 100 // requests
)

// claimedBy returns a line of two writers, one of which holds, and the handle of the first.
func claimedBy(holder string) (*zkmodel.World, *Lock) {
	holds := znode.Join(linemodel.Root, holderNode)
	w := zkmodel.New(zkmodel.Faults{}, 2,
		zkmodel.Node{Path: linemodel.Root, Czxid: 1, Data: marker + "\n" + holder},
		zkmodel.Node{Path: znode.Join(linemodel.Root, oursPriority), Czxid: 2, Owner: 1},
		zkmodel.Node{Path: znode.Join(linemodel.Root, theirsPriority), Czxid: 3, Owner: 2},
		zkmodel.Node{Path: holds, Czxid: 4, Owner: 1, Data: holder},
	)
	return w, New(w.Sessions[0], linemodel.Root, Options{Kind: nodes.Write})
}

// serve has the server answer at most so many requests of ours, and returns how many it has.
func serve(w *zkmodel.World, limit int) (n int) {
	for ; n < limit && !w.Sessions[0].Idle(); n++ {
		w.Apply(zkmodel.Action{Kind: "serve"})
	}
	return n
}

// TestDoubtedClaimOfAnother: a claim of unknown outcome is repeated, and another holds by now.
func TestDoubtedClaimOfAnother(t *testing.T) {
	w, p := claimedBy(theirsPriority)
	got := int64(-1)
	p.Take(w.Sessions[0].Async(0), oursPriority, true, func(zxid int64, _ bool, err error) {
		got = zxid
		check.True(t, err != nil, "no error")
	})
	serve(w, most)
	check.Equal(t, got, 0, "claimed at what another has")
}

// TestUnclaimOvertaken: an operator deletes what we have claimed, and another claims, at any
// moment of our departure, which leaves that alone.
func TestUnclaimOvertaken(t *testing.T) {
	for before := 0; ; before++ {
		w, p := claimedBy(oursPriority)
		p.Take(w.Sessions[0].Async(0), oursPriority, false, func(_ int64, _ bool, err error) {
			check.True(t, err != nil, "claimed twice")
		})
		serve(w, most)
		p.Withdraw(w.Sessions[0].Async(0), oursPriority, "", func(error) {})
		if serve(w, before) < before {
			return
		}
		var ops []session.Op
		if w.Node(znode.Join(p.path, holderNode)) != nil {
			ops = append(ops, session.DeleteOp(znode.Join(p.path, holderNode), session.AnyVersion))
		}
		ops = append(ops, session.SetOp(p.path, []byte(marker+"\n"+theirsPriority), session.AnyVersion),
			session.CreateOp(znode.Join(p.path, holderNode), []byte(theirsPriority), session.Ephemeral))
		w.Sessions[1].Async(0).Multi(ops, func(_ []session.OpResult, err error) {
			check.OK(t, err)
		})
		w.Apply(zkmodel.Action{Kind: "serve", I: 1})
		serve(w, most)
		n := w.Node(znode.Join(p.path, holderNode))
		check.True(t, n != nil && w.Node(p.node(oursPriority)) == nil, "overtaken after %d requests: the holder is %v", before, n)
	}
}

// TestMarksOvertaken: another writes to what is to be marked, at any moment: to the path of an
// unused line, and to the node of a holder.
func TestMarksOvertaken(t *testing.T) {
	for before := range 3 {
		w := zkmodel.New(zkmodel.Faults{}, 1, zkmodel.Node{Path: linemodel.Root, Czxid: 1})
		p, settled := New(w.Sessions[0], linemodel.Root, Options{Kind: nodes.Write}), false
		p.settle(w.Sessions[0].Async(0), func(path *session.Stat, err error) { settled = path != nil && err == nil })
		serve(w, before)
		w.SetData(p.path, marker)
		serve(w, most)
		check.True(t, settled, "overtaken after %d requests: the line is not settled", before)

		w, p = claimedBy(theirsPriority)
		asked := false
		timers := &owned.Set{Clock: w.Sessions[0]}
		p.requestRevoke(timers, w.Sessions[0].Async(0), theirsPriority, func(marked bool) { asked = marked })
		serve(w, before)
		w.SetData(p.node(theirsPriority), "written")
		serve(w, most)
		check.False(t, !asked || before < 2 && !isMarked(w.Node(p.node(theirsPriority)).Data), "overtaken after %d requests: the holder is not asked", before)
	}
}

// TestAnswerOfEarlierAttempt: a holder that an earlier attempt has asked is asked again in the
// attempt that asks now, and has its time from then on.
func TestAnswerOfEarlierAttempt(t *testing.T) {
	_, p := claimedBy(theirsPriority)
	p.request(1, oursPriority)
	p.request(2, theirsPriority)
	p.recordAsked(1, oursPriority, true)
	_, before := p.request(2, oursPriority)
	check.False(t, before, "asked by an attempt that is over")
}

// A server creates what it is asked for, unless created is an error. It does transactions, or
// refuses their first operation.
type server struct {
	client.Async
	created error
	refuses *error
}

func (s server) Create(path string, _ []byte, _ session.CreateMode, answer func(string, error)) {
	answer(path, s.created)
}

func (s server) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	results := make([]session.OpResult, len(ops))
	results[0].Err = *s.refuses
	answer(results, *s.refuses)
}

// TestClaimOfTheReader: after a downgrade the claim is the reader's, so that one transaction gives
// it up, also when an earlier request has done it.
func TestClaimOfTheReader(t *testing.T) {
	const writer, reader = "_c_00000000-0000-0000-0000-000000000000-p1000-write-0000000000", "_c_00000000-0000-0000-0000-000000000000-p1000-read-0000000000"
	for _, refused := range []error{nil, session.ErrNodeExists} {
		var refuses error
		requests, p := server{refuses: &refuses}, New(nil, "/l", Options{})
		p.Take(requests, writer, false, func(_ int64, _ bool, err error) { check.OK(t, err) })
		refuses = refused
		p.Change(requests, writer, reader, func(err error) { check.OK(t, err) })
		if c := p.claims.Claim(); !c.Held || c.Node != reader {
			t.Errorf("%v: %+v", refused, c)
		}
	}
}
