package conn

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file is about operations that some versions of servers do not have (docs/adr/0058). In each
// epoch the session learns of them once, without an additional request: for ClickHouse Keeper from
// the handshake, for other servers from the first request that they refuse. Such an operation is
// replaced by another that keeps the promise, or is refused without a request.

// The reasons for which an operation is refused. Each wraps [fault.ErrUnimplemented] or
// [fault.ErrAuthFailed].
var (
	errAncient    = fmt.Errorf("%w: the server is ZooKeeper 3.4 or older; this library needs 3.5", fault.ErrUnimplemented)
	errNoTTL      = fmt.Errorf("%w: the server has no nodes with a TTL (extendedTypesEnabled)", fault.ErrUnimplemented)
	errKeeperTTL  = fmt.Errorf("%w: nodes with a TTL are not used on ClickHouse Keeper", fault.ErrUnimplemented)
	errKeeperSASL = fmt.Errorf("%w: ClickHouse Keeper has no SASL", fault.ErrAuthFailed)
)

// A dialect is an epoch's knowledge about its servers. The lock of the epoch guards it. It is empty
// before the first handshake; no call goes out before that.
type dialect struct {
	// keeper is set when the servers are ClickHouse Keeper. An operation that Keeper does not have
	// ends the session. Keeper resumes no session, so we never leave a connection to it for another
	// server.
	keeper bool

	ancient bool // set when a server did not have an operation of ZooKeeper 3.5
	modern  bool // set when a server has accepted the creation of a container
	noTTL   bool // set when a server refused a node with a TTL
}

// adapt changes a call for the servers, or returns an error if they have no operation that could
// replace it. It leaves a call that was adapted before as it is.
func (d *dialect) adapt(c *Call) error {
	if !d.keeper && !d.ancient && !d.noTTL {
		return nil
	}
	has := func(op wire.Op) bool { return c.Opcode == op || slices.Contains(c.Ops, op) }
	switch {
	case has(wire.OpCreateTTL) && d.keeper:
		return errKeeperTTL
	case has(wire.OpCreateTTL) && d.noTTL:
		return errNoTTL
	case d.ancient && (has(wire.OpCreateContainer) || has(wire.OpCreateTTL)):
		return errAncient
	case d.keeper && has(wire.OpCreateContainer):
		c.persist()
	}
	return nil
}

// removesWatches reports whether the servers may be able to remove a watch. A caller has a watch,
// so the first handshake is over.
func (d *dialect) removesWatches() bool { return !d.keeper && !d.ancient }

// persist replaces the containers that a call creates by persistent nodes. The session deletes
// these when they are empty: see tidy.go.
func (c *Call) persist() {
	_, w, err := wire.ParseRequest(c.Frame[4:])
	if err != nil {
		return // a request that the session has encoded itself
	}
	replace := func(w *wire.Request) {
		if w.Op == wire.OpCreateContainer {
			w.Op, w.Flags = wire.OpCreate, 0
			c.Litter = append(c.Litter, w.Path)
		}
	}
	replace(&w)
	for i := range w.Ops {
		replace(&w.Ops[i])
	}
	c.Opcode, c.Frame = w.Op, wire.AppendRequest(nil, 0, &w)
}

// Learn returns the error for a code, and records what the code reveals about the server. The epoch
// must not be locked.
func (e *Epoch) Learn(c *Call, code wire.Code) error {
	has := func(op wire.Op) bool { return c.Opcode == op || slices.Contains(c.Ops, op) }
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.dialect.keeper:
	case code == wire.CodeUnimplemented && has(wire.OpCreateTTL):
		// The server lacks either the operation or the option. A container shows which.
		e.dialect.noTTL = true
		return errNoTTL
	case code == wire.CodeUnimplemented && (has(wire.OpCreateContainer) || has(wire.OpRemoveWatches)),
		code == wire.CodeMarshalling && c.Opcode == wire.OpMulti && has(wire.OpCreateContainer) && !e.dialect.modern:
		e.dialect.ancient = true
		return errAncient
	}
	return e.session.Owner.ErrorOf(code)
}

// read records what the answer to a call reveals about the server. The epoch must not be locked.
func (e *Epoch) read(c *Call, code wire.Code) {
	if c.Opcode != wire.OpCreateContainer && !slices.Contains(c.Ops, wire.OpCreateContainer) {
		return
	}
	switch code { //nolint:exhaustive // the others may have another reason
	case wire.CodeOK, wire.CodeNodeExists, wire.CodeNoNode:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.dialect.modern = true
	}
}

// IsKeeper reports whether the servers are ClickHouse Keeper. The epoch must not be locked.
func (e *Epoch) IsKeeper() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dialect.keeper
}

// disown ends the session that ClickHouse Keeper has created instead of the one that the client
// named, or that of a guest. Otherwise the new session would live for a whole timeout. disown waits
// until Keeper hangs up, and only then reports that the named session is lost: the owner cuts the
// connection when it receives that report, and Close returns. The wait ends when the connection
// fails, which is at the latest when a handshake may take no longer. disown runs on the goroutine
// that reads.
func (l *connection) disown() {
	_, err := l.socket.Write(wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpCloseSession})) // or it times out
	for err == nil {
		_, err = l.reader.Next()
	}
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	if !l.guest {
		l.epoch.reject()
	}
}
