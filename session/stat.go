package session

import "github.com/zkactors/zkactors/session/internal/wire"

// A Stat describes a node: all that ZooKeeper records of it beside its data. The names are
// ZooKeeper's.
type Stat struct {
	Czxid          int64 // of the transaction that created the node
	Mzxid          int64 // of the one that changed its data last
	Pzxid          int64 // of the one that changed its children last
	Ctime          int64 // when it was created, in ms since 1970, by the server's clock
	Mtime          int64 // when its data was changed last
	Version        int32 // counts changes of its data
	Cversion       int32 // counts changes of its children
	Aversion       int32 // counts changes of its ACL
	EphemeralOwner int64 // the session that owns it, 0 if none does
	DataLength     int32
	NumChildren    int32
}

func statOf(s *wire.Stat) *Stat {
	stat := Stat(*s)
	return &stat
}
