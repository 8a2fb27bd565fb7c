package inspect

import "time"

// A Kind says of which recipe a [Thing] is.
type Kind string

// The kinds.
const (
	Lock          Kind = "lock"
	Semaphore     Kind = "semaphore"
	Election      Kind = "election"
	Queue         Kind = "queue"
	Barrier       Kind = "barrier"
	DoubleBarrier Kind = "double barrier"
	Transactions  Kind = "transactions"
	Group         Kind = "group"
	Service       Kind = "service" // of discovery; its instances are Members
	Latch         Kind = "latch"   // Held of its Limit have arrived
	Once          Kind = "once"    // a function that runs once; its outcome is in Values
	Shards        Kind = "shards"  // the Data of each of its Members is the number of shards that it is to own
	Values        Kind = "values"  // of a configuration, or of names: their nodes are alike
	Unreadable    Kind = "unreadable"
)

// A Survey shows the recipes at a path and below it.
type Survey struct {
	Path   string    `json:"path"`
	Taken  time.Time `json:"taken"`  // when it was complete, by the clock of this process
	Exists bool      `json:"exists"` // there is a node at the path

	// Things are in the order of their paths.
	Things []Thing `json:"things"`

	// Truncated says that there were more nodes than [Options.MaxNodes].
	Truncated bool `json:"truncated,omitempty"`
}

// A Thing is one recipe at one path.
type Thing struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`

	// Layout is "standard", "curator", "kazoo", "prioritized", "published", or "mixed" where
	// contenders of several layouts stand that do not respect each other. A service is "curator" or
	// "serverset". It is "" for a recipe that has only one layout.
	Layout string `json:"layout,omitempty"`

	// Contenders stand in line for a lock, a semaphore or an election, the first in line first.
	Contenders []Contender `json:"contenders,omitempty"`

	// Line is the number of contenders in line, by their names. [Options.MaxWaiters] bounds how
	// many of them Contenders has.
	Line int `json:"line,omitempty"`

	// Limit is the limit of a semaphore, 0 if it is unknown; or the number of shards, or of the
	// arrivals that open a latch. Held is the sum of the weights that are held, or the number of
	// shards that have an owner, or of arrivals. Room is the rest of the limit, and negative if the
	// limit was lowered below Held.
	Limit int `json:"limit,omitempty"`
	Held  int `json:"held,omitempty"`
	Room  int `json:"room,omitempty"`

	Leader  *Leader     `json:"leader,omitempty"`  // of an election, nil if there is none
	Queue   *QueueState `json:"queue,omitempty"`   // of a queue
	Barrier *Raised     `json:"barrier,omitempty"` // of a barrier that stands
	Double  *Rounds     `json:"double,omitempty"`  // of a double barrier

	Transactions []Transaction `json:"transactions,omitempty"`
	Members      []Entry       `json:"members,omitempty"` // of a group, of a service, or of shards
	Values       []Entry       `json:"values,omitempty"`

	// Forbidden says that the session may not read all of it. Problem names that part, or says why
	// else it could not be read.
	Forbidden bool   `json:"forbidden,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

// A Contender stands in line.
type Contender struct {
	Node     string    `json:"node"`               // the path of its node
	Wants    string    `json:"wants"`              // "exclusive", "read", "write", "lease" or "lead"
	Identity string    `json:"identity,omitempty"` // the data of its node, without a mark of revocation
	Session  string    `json:"session,omitempty"`  // the id of its session, as the server's log prints it
	Since    time.Time `json:"since"`              // when its node was created, by the server's clock
	Holds    bool      `json:"holds,omitempty"`
	Revoked  bool      `json:"revoked,omitempty"` // it was asked to release

	Priority int `json:"priority,omitempty"`
	Weight   int `json:"weight,omitempty"` // of a lease

	// Czxid tells its node apart from all others. It is the fencing token of a lock in line order.
	Czxid int64 `json:"czxid"`

	// Claim is the path of the node that says that it holds, if there is one beside its own.
	Claim string `json:"claim,omitempty"`

	// Forbidden says that its data could not be read.
	Forbidden bool `json:"forbidden,omitempty"`

	// NoSession says that its node has no session with which it goes, as in a copied tree: it
	// stands until it is deleted.
	NoSession bool `json:"noSession,omitempty"`
}

// A Leader leads an election.
type Leader struct {
	Node         string    `json:"node"`
	Identity     string    `json:"identity,omitempty"`
	Term         int64     `json:"term"`
	Since        time.Time `json:"since"`
	Acknowledged bool      `json:"acknowledged,omitempty"`
	Successor    string    `json:"successor,omitempty"` // the candidate to which it hands over
}

// A QueueState is the state of a queue.
type QueueState struct {
	Items   int `json:"items"`             // all of them
	Delayed int `json:"delayed,omitempty"` // of these are not due, or have been delayed
	Buckets int `json:"buckets,omitempty"` // in which they stand

	// Oldest is when the oldest item was put: claimed items count, delayed ones do not. Of a queue
	// with priorities only the first sixteen buckets are searched. It is zero if there is no such
	// item.
	Oldest time.Time `json:"oldest,omitzero"`

	// Claimed is the number of items that consumers have claimed, and Claims has the first of these
	// claims.
	Claimed int     `json:"claimed"`
	Claims  []Claim `json:"claims,omitempty"`

	Paused bool `json:"paused,omitempty"` // nothing is claimed or taken
	Dead   int  `json:"dead,omitempty"`   // dead letters below its path; they are a queue of their own too

	Waiting   int `json:"waiting,omitempty"`   // consumers that wait for items
	Producers int `json:"producers,omitempty"` // that wait for room
}

// A Claim reserves an item of a queue for a consumer.
type Claim struct {
	Item     string    `json:"item"` // its id
	Consumer string    `json:"consumer,omitempty"`
	Session  string    `json:"session,omitempty"`
	Since    time.Time `json:"since"`

	NoSession bool `json:"noSession,omitempty"` // as that of a Contender
}

// A Raised barrier stands.
type Raised struct {
	Token     int64     `json:"token"`
	Since     time.Time `json:"since"`
	Session   string    `json:"session,omitempty"` // with which it goes, if it is a gate
	Forbidden bool      `json:"forbidden,omitempty"`
}

// Rounds is the state of a double barrier.
type Rounds struct {
	Round   int     `json:"round"` // the newest that has begun
	Parties int     `json:"parties"`
	Inside  []Entry `json:"inside,omitempty"`  // members that have not left
	Waiting []Entry `json:"waiting,omitempty"` // for the next round
}

// A Transaction is the state of a two-phase commit.
type Transaction struct {
	ID          string    `json:"id"`
	Mode        string    `json:"mode"`
	Since       time.Time `json:"since"`
	Sites       []Site    `json:"sites"`
	Coordinated bool      `json:"coordinated,omitempty"` // a coordinator is connected

	// InDoubt says that no outcome is recorded. Else the other fields have the outcome.
	InDoubt   bool   `json:"inDoubt,omitempty"`
	Committed bool   `json:"committed,omitempty"`
	Reason    string `json:"reason,omitempty"` // of an abort
	By        string `json:"by,omitempty"`     // the party that recorded it
}

// A Site takes part in a transaction.
type Site struct {
	Site     string `json:"site"`
	Vote     string `json:"vote,omitempty"` // "yes", "no", or "" before it has voted
	Finished bool   `json:"finished,omitempty"`
	Present  bool   `json:"present,omitempty"` // a process acts for it
}

// An Entry is a member, a party, or a value.
type Entry struct {
	Name      string    `json:"name"`
	Node      string    `json:"node"`
	Data      string    `json:"data,omitempty"`
	Session   string    `json:"session,omitempty"` // with which it goes
	Since     time.Time `json:"since"`             // when it was created
	Changed   time.Time `json:"changed"`
	Version   int32     `json:"version,omitempty"`
	Forbidden bool      `json:"forbidden,omitempty"`

	// NoSession says that it stands in the place of a party of a double barrier or of a member of
	// shards, and is none: its node has no session.
	NoSession bool `json:"noSession,omitempty"`
}

// Holders returns the contenders that hold.
func (t *Thing) Holders() []Contender { return t.contenders(true) }

// Waiters returns the contenders that wait, the first in line first.
func (t *Thing) Waiters() []Contender { return t.contenders(false) }

func (t *Thing) contenders(hold bool) []Contender {
	var all []Contender
	for _, c := range t.Contenders {
		if c.Holds == hold {
			all = append(all, c)
		}
	}
	return all
}
