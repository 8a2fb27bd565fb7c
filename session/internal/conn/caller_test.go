package conn

import (
	"errors"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A still is the owner of epochs whose session has no users.
type still struct{}

func (still) Tell(Report)                          {}
func (still) Fired(*Epoch, wire.Event)             {}
func (still) Name(_, _ string, err error) error    { return err }
func (still) Observe(string, time.Duration, error) {}
func (still) ErrorOf(code wire.Code) error         { return errorsOf[code] }

var errorsOf = map[wire.Code]error{
	wire.CodeNoNode:      fault.ErrNoNode,
	wire.CodeNoAuth:      fault.ErrNoAuth,
	wire.CodeTooLarge:    fault.ErrTooLarge,
	wire.CodeThrottledOp: fault.ErrBusy,
	wire.CodeMarshalling: errors.New("malformed"),
}

func inDoubt(err error) bool { return fault.IsAny(err, fault.ErrUnknownOutcome, fault.ErrBusy) }

// A probe is a call as a session makes them, in one epoch.
type probe struct {
	Call

	s       *Session
	asked   []wire.Request // the operations of a transaction
	results []wire.Result
	answer  func(p *probe, err error)
}

func (p *probe) Answer(err error) { p.answer(p, err) }
func (p *probe) Parent(operation int) string {
	dir, _ := znode.Split(p.asked[operation].Path)
	return dir
}

func (*probe) Ephemerals(func(string) bool) {}

func (p *probe) Unsent(why error) {
	p.s.Order.Put(func() {
		p.Err = why
		p.Run()
	})
}

func (p *probe) Take(reply *wire.Reply) (failed error) {
	p.results = append(p.results, reply.Results...)
	for i, r := range reply.Results {
		switch {
		case r.Op == wire.OpError && r.Code != wire.CodeOK && r.Code != wire.CodeRuntimeInconsistency && failed == nil:
			failed = p.s.Owner.ErrorOf(r.Code)
		case r.Op != wire.OpError && i < len(p.asked) && p.asked[i].Op.IsCreate():
			p.Owns(r.Path)
		}
	}
	return failed
}

// request makes a request of a caller with a lane, or none.
func (b *bench) request(lane *Lane, joins bool, w *wire.Request, answer func(p *probe, err error)) *probe {
	p := &probe{s: b.s, asked: w.Ops, answer: answer}
	p.Of, p.Opcode, p.Target, p.Lane, p.Joins = p, w.Op, w.Path, lane, joins
	p.Write, p.Absent, p.Began = IsWrite(w.Op), w.Op == wire.OpExists, b.s.Clock.Now()
	for _, o := range w.Ops {
		p.Ops = append(p.Ops, o.Op)
		if o.Op.IsCreate() {
			p.Ephemeral += len(o.Path) + len("0000000000") + 1
		}
	}
	p.Frame = wire.AppendRequest(nil, 0, w)
	if err := b.e.Submit(&p.Call); err != nil {
		p.Refuse(b.s, err)
	}
	return p
}

// multi makes a transaction that may share another with those of others.
func (b *bench) multi(lane *Lane, answer func(p *probe, err error), ops ...wire.Request) *probe {
	return b.request(lane, true, &wire.Request{Op: wire.OpMulti, Ops: ops}, answer)
}

// remove deletes a node, in a transaction that may be one with those of others.
func (b *bench) remove(lane *Lane, node string, answer func(p *probe, err error)) *probe {
	return b.request(lane, true, &wire.Request{Op: wire.OpDelete, Path: node, Version: -1}, answer)
}

// children reads the children of a node.
func (b *bench) children(lane *Lane, path string, answer func(p *probe, err error)) {
	b.request(lane, false, &wire.Request{Op: wire.OpGetChildren2, Path: path}, answer)
}

func createOp(path string, data []byte, sequential bool) wire.Request {
	w := wire.Request{Op: wire.OpCreate, Path: path, Data: data, Flags: 1, ACL: []wire.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}}
	if sequential {
		w.Flags = 3
	}
	return w
}

func setOp(path string) wire.Request {
	return wire.Request{Op: wire.OpSetData, Path: path, Version: -1}
}
