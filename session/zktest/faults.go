package zktest

import (
	"path"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// Faults are the faults of the connections between clients and a server. A [Proxy]
// before a real server implements it, and so does the server in memory. So a table of
// faults is written once and runs against both.
//
// A session is named by its id; 0 means every session.
type Faults interface {
	// Addrs returns the addresses that clients are to use.
	Addrs() []string

	// Disconnect cuts the connections of the session. It may come back.
	Disconnect(session int64)

	// Refuse makes new connections fail, until it is called with false.
	Refuse(refuse bool)

	// Freeze stops what flows in the direction, without cutting the connection; also
	// for connections that the session, or with 0 any session, makes later. What is
	// sent meanwhile is kept.
	Freeze(session int64, dir Direction)

	// Thaw ends every freeze of the session; what was kept is delivered.
	Thaw(session int64)

	// DropRequest loses the next request that matches, before the server sees
	// it, and cuts the connection.
	DropRequest(m Match)

	// DropReply lets the server apply the next request that matches, loses
	// its reply, and cuts the connection.
	DropReply(m Match)

	// Delay holds the next request that matches back for d, and with it what
	// follows on that connection.
	Delay(m Match, d time.Duration)

	// Expire ends the session on the server now, as if it had timed out.
	Expire(session int64)

	// Requests returns how many requests have come from clients since the
	// start, or the last call of ResetRequests. Pings and handshakes are not
	// counted, nor is the closing of sessions.
	Requests() Counts

	// ResetRequests begins to count anew.
	ResetRequests()

	// AwaitFault waits until every DropRequest, DropReply and Delay that was
	// asked for has hit a request. It fails after the timeout.
	AwaitFault(timeout time.Duration) error
}

// A Direction is one of the two ways of a connection, or both.
type Direction int

// The directions.
const (
	Both     Direction = iota
	ToServer           // from the client to the server
	ToClient           // from the server to the client
	// ToClientButEvents stops replies, and lets watch notifications pass. So events overtake
	// replies that were sent before them, which no server does: a client may see an event of a
	// watch that it does not know yet to stand.
	ToClientButEvents
)

// A Match selects requests. The zero Match selects the next request of any
// session but pings, syncs, checks, and the opening and closing of sessions.
type Match struct {
	// Op selects by operation; 0 selects any but sync and check.
	Op Op

	// Path selects by path, as [path.Match] does; "" selects any. A multi
	// matches if one of its operations does.
	Path string

	// Session selects by session; 0 selects any.
	Session int64

	// Skip passes over that many matching requests first.
	Skip int
}

// MatchPath reports whether p is selected.
func (m Match) matchPath(p string) bool {
	if m.Path == "" {
		return true
	}
	ok, err := path.Match(m.Path, p)
	return err == nil && ok
}

// An Op is an operation of the protocol, by its number there.
type Op = wire.Op

// The operations.
const (
	OpCreate          = wire.OpCreate
	OpDelete          = wire.OpDelete
	OpExists          = wire.OpExists
	OpGetData         = wire.OpGetData
	OpSetData         = wire.OpSetData
	OpGetACL          = wire.OpGetACL
	OpSetACL          = wire.OpSetACL
	OpGetChildren     = wire.OpGetChildren
	OpSync            = wire.OpSync
	OpPing            = wire.OpPing
	OpGetChildren2    = wire.OpGetChildren2
	OpCheck           = wire.OpCheck // also a transaction that has only checks, as sessions send for heartbeats
	OpMulti           = wire.OpMulti
	OpCreate2         = wire.OpCreate2
	OpReconfig        = wire.OpReconfig
	OpCheckWatches    = wire.OpCheckWatches
	OpRemoveWatches   = wire.OpRemoveWatches
	OpCreateContainer = wire.OpCreateContainer
	OpDeleteContainer = wire.OpDeleteContainer
	OpCreateTTL       = wire.OpCreateTTL
	OpMultiRead       = wire.OpMultiRead
	OpAuth            = wire.OpAuth
	OpSetWatches      = wire.OpSetWatches
	OpSASL            = wire.OpSASL
	OpGetEphemerals   = wire.OpGetEphemerals
	OpGetAllChildren  = wire.OpGetAllChildrenNumber
	OpSetWatches2     = wire.OpSetWatches2
	OpAddWatch        = wire.OpAddWatch
	OpWhoAmI          = wire.OpWhoAmI
	OpCreateSession   = wire.OpCreateSession
	OpCloseSession    = wire.OpCloseSession
)

// Counts are numbers of requests by operation.
type Counts map[Op]int
