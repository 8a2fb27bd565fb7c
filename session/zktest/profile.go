package zktest

import (
	"slices"
	"time"
)

// A Profile is the server whose answers a [Server] gives. The zero value is ZooKeeper 3.8.0.
type Profile int

// The profiles. ClickHouse Keeper speaks ZooKeeper's protocol. Its profiles follow its
// documentation and sources, and the other profiles follow the answers of real servers.
const (
	ZooKeeper380 Profile = iota // ZooKeeper 3.8.0 and 3.8.1
	ZooKeeper35                 // ZooKeeper 3.5
	ZooKeeper382                // ZooKeeper from 3.8.2 on, as 3.8.6
	ZooKeeper39                 // ZooKeeper 3.9, as 3.9.5
	Keeper                      // ClickHouse Keeper before 26.7
	Keeper267                   // ClickHouse Keeper from 26.7 on, with its default features
	ZooKeeper34                 // ZooKeeper 3.4, which package session refuses
)

// Profiles returns the profiles of the servers that package session works with, the oldest version
// of each first.
func Profiles() []Profile {
	return []Profile{ZooKeeper35, ZooKeeper380, ZooKeeper382, ZooKeeper39, Keeper, Keeper267}
}

// String returns the name of the server and its version.
func (p Profile) String() string { return p.table().name }

// IsKeeper reports whether the server is ClickHouse Keeper.
func (p Profile) IsKeeper() bool { return p == Keeper || p == Keeper267 }

func (p Profile) valid() bool { return p >= 0 && int(p) < len(profiles) }

// table returns the differences of the profile. An invalid profile has the differences of the
// default.
func (p Profile) table() *differences {
	if !p.valid() {
		p = ZooKeeper380
	}
	return &profiles[p]
}

// differences are what servers of one version do otherwise than ZooKeeper 3.8.0.
type differences struct {
	name    string
	version string // as the four-letter words report it

	unknown []Op // operations that the server does not know
	hangsUp bool // an unknown operation ends the connection without an answer; else the answer is UNIMPLEMENTED

	rejectsMalformed bool // a write that cannot be read takes no zxid, unless it is a transaction
	deletesFirst     bool // a delete of a missing node reports that, also to a client that may not delete it
	ipv6             bool // in lists of permissions
	create2InMulti   bool // a create2 in a transaction is answered with a Stat (ZOOKEEPER-4026)
	eventZxid        bool // the header of a watch event has the zxid of the change (ZOOKEEPER-4655)
	tellsAnyone      bool // clients are notified of nodes that they may not read (CVE-2024-23944)
	existsNeedsRead  bool // exists is refused to a client that may not read the node, and sets no watch then
	answersCheck     bool // a check that succeeds outside of a transaction is answered
	refusesFlags     bool // the flags of containers and TTLs are refused in a create
	tellsContainers  bool // the Stat of a container has the smallest number as its owner
	countsDataSets   bool // the cversion of a parent counts the writes to its children
	keepsPzxid       bool // the pzxid of a parent does not move when a child is deleted
	noReadOnly       bool // the answer to a handshake ends before the readOnly byte
	neverResumes     bool // a handshake opens a session, whichever the client names
	readsKeepNothing bool // reads at a follower do not keep a session alive
	onlyDigest       bool // ACLs know world, auth and digest; world is dropped beside others

	least, most time.Duration // of a session timeout; 0 for the usual multiples of a tick
	usual       time.Duration // the timeout of a client that asks for 0; or 0
}

// profiles has the differences of each profile.
//
//nolint:gochecknoglobals // it is constant
var profiles = [...]differences{
	ZooKeeper380: {name: "ZooKeeper 3.8.0", version: "3.8.0-zktest, built on 2022-02-25 08:49 UTC"},
	ZooKeeper35: {
		name: "ZooKeeper 3.5", version: "3.5.10-zktest, built on 05/14/2022 07:17 GMT",
		unknown:     []Op{OpMultiRead, OpGetEphemerals, OpGetAllChildren, OpSetWatches2, OpAddWatch, OpWhoAmI},
		tellsAnyone: true, deletesFirst: true,
	},
	ZooKeeper34: {
		name: "ZooKeeper 3.4", version: "3.4.14-zktest, built on 03/06/2019 16:18 GMT",
		unknown: []Op{
			OpCreate2, OpCreateContainer, OpCreateTTL, OpDeleteContainer, OpCheckWatches, OpRemoveWatches, OpReconfig,
			OpMultiRead, OpGetEphemerals, OpGetAllChildren, OpSetWatches2, OpAddWatch, OpWhoAmI,
		},
		tellsAnyone: true,
	},
	ZooKeeper382: {
		name: "ZooKeeper 3.8.2+", version: "3.8.6-zktest, built on 2026-01-30 12:00 UTC",
		unknown: []Op{OpCheck}, create2InMulti: true, existsNeedsRead: true,
	},
	ZooKeeper39: {
		name: "ZooKeeper 3.9", version: "3.9.5-zktest, built on 2026-03-02 12:00 UTC",
		unknown: []Op{OpCheck}, create2InMulti: true, existsNeedsRead: true, eventZxid: true, rejectsMalformed: true, ipv6: true,
	},
	Keeper:    keeper("ClickHouse Keeper before 26.7", "v26.6.1.1-zktest", OpCreateContainer),
	Keeper267: keeper("ClickHouse Keeper 26.7+", "v26.7.1.1-zktest"),
}

// keeper returns the differences of ClickHouse Keeper. Operations behind a flag that is off by
// default are unknown: create2, createTTL, and the operations of persistent watches.
func keeper(name, version string, unknown ...Op) differences {
	return differences{
		name: name, version: version,
		unknown: append(unknown, OpCreate2, OpCreateTTL, OpDeleteContainer, OpCheckWatches, OpRemoveWatches, OpSetWatches2, OpAddWatch,
			OpGetEphemerals, OpGetAllChildren, OpWhoAmI, OpSASL, OpCreateSession),
		hangsUp: true, answersCheck: true, refusesFlags: slices.Contains(unknown, OpCreateContainer), tellsContainers: true,
		countsDataSets: true, keepsPzxid: true, noReadOnly: true, neverResumes: true, readsKeepNothing: true, onlyDigest: true,
		least: 10 * time.Second, most: 100 * time.Second, usual: 30 * time.Second,
	}
}

// knows reports whether the server knows the operation, as a request or a part of a transaction.
func (d *differences) knows(op Op, inMulti bool) bool {
	if op == OpCheck && inMulti {
		return true
	}
	return !slices.Contains(d.unknown, op)
}
