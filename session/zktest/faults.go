package zktest

import (
	"path"
	"time"
)

// Faults is what can be done to the connections between clients and a server.
// A [Proxy] before a real server implements it, and so does the server in
// memory, so that a table of faults is written once and runs against both.
//
// A session is named by its id; 0 means every session.
type Faults interface {
	// Addrs returns the addresses that clients are to use.
	Addrs() []string

	// Disconnect cuts the connections of the session. It may come back.
	Disconnect(session int64)

	// Refuse makes new connections fail, until it is called with false.
	Refuse(refuse bool)

	// Freeze stops what flows in the direction, without cutting the
	// connection; also for connections that the session, or with 0 anybody,
	// makes later. What is sent meanwhile is kept.
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
	// ToClientButEvents stops replies, and lets watch notifications pass.
	ToClientButEvents
)

// A Match selects requests. The zero Match selects the next request of any
// session but pings, syncs, and the opening and closing of sessions.
type Match struct {
	// Op selects by operation; 0 selects any but sync.
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
type Op int32

// The operations.
const (
	OpCreate          Op = 1
	OpDelete          Op = 2
	OpExists          Op = 3
	OpGetData         Op = 4
	OpSetData         Op = 5
	OpGetACL          Op = 6
	OpSetACL          Op = 7
	OpGetChildren     Op = 8
	OpSync            Op = 9
	OpPing            Op = 11
	OpGetChildren2    Op = 12
	OpCheck           Op = 13
	OpMulti           Op = 14
	OpCreate2         Op = 15
	OpReconfig        Op = 16
	OpCheckWatches    Op = 17
	OpRemoveWatches   Op = 18
	OpCreateContainer Op = 19
	OpDeleteContainer Op = 20
	OpCreateTTL       Op = 21
	OpMultiRead       Op = 22
	OpAuth            Op = 100
	OpSetWatches      Op = 101
	OpSASL            Op = 102
	OpGetEphemerals   Op = 103
	OpGetAllChildren  Op = 104
	OpSetWatches2     Op = 105
	OpAddWatch        Op = 106
	OpWhoAmI          Op = 107
	OpCreateSession   Op = -10
	OpCloseSession    Op = -11
)

// Counts are numbers of requests by operation.
type Counts map[Op]int
