// Package txnlog reads the transaction logs of real servers, which have what the servers' trees
// had: each change with its zxid, and when its leader proposed it.
package txnlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Transaction is a record of a log.
type Transaction struct {
	Zxid     int64
	Session  int64     // that asked for it
	Proposed time.Time // to a millisecond, by the clock of the leader
	Closes   bool      // its session, with all ephemeral nodes of the session

	changes []change
}

type kind int

const (
	created kind = iota
	deleted
	set
)

// A change is what a transaction does to one node.
type change struct {
	kind      kind
	path      string
	data      []byte
	ephemeral bool
}

// errBroken means that a record does not have the form of its type.
var errBroken = errors.New("a broken record")

// Read returns the transactions in the logs of one server, in order. What a server that was killed
// has not written to its end is no transaction.
func Read(dataDir string) ([]Transaction, error) {
	files, err := filepath.Glob(filepath.Join(dataDir, "version-2", "log.*"))
	if err != nil {
		return nil, err
	}
	known := make(map[int64]Transaction)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		records, err := split(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, record := range records {
			tx, err := parse(record)
			if err != nil {
				return nil, fmt.Errorf("%s, zxid %#x: %w", file, tx.Zxid, err)
			}
			known[tx.Zxid] = tx
		}
	}
	return ordered(known), nil
}

func ordered(known map[int64]Transaction) []Transaction {
	var all []Transaction
	for _, tx := range known {
		all = append(all, tx)
	}
	slices.SortFunc(all, func(a, b Transaction) int { return int(min(1, max(-1, a.Zxid-b.Zxid))) })
	return all
}

// Committed returns the transactions that a majority of the servers' logs has. A transaction that
// only one of three has was never committed: its leader has died before the others had it. The
// servers must have elected a leader since, or be down.
func Committed(logs ...[]Transaction) []Transaction {
	count, known := make(map[int64]int), make(map[int64]Transaction)
	for _, log := range logs {
		for _, tx := range log {
			if count[tx.Zxid]++; count[tx.Zxid] > len(logs)/2 {
				known[tx.Zxid] = tx
			}
		}
	}
	return ordered(known)
}

const (
	magic     = "ZKLG"
	headBytes = 16   // magic, version, and the number of the database
	endMark   = 0x42 // behind each record
)

// split returns the records of a file. A file has zeros behind its last record.
func split(file []byte) ([][]byte, error) {
	if len(file) < headBytes {
		return nil, nil // the server was killed when it began
	}
	if !bytes.HasPrefix(file, []byte(magic)) {
		return nil, errors.New("not a transaction log")
	}
	var records [][]byte
	d := decoder{rest: file[headBytes:]}
	for {
		sum, record, mark := d.int64(), d.buffer(), d.take(1)
		if d.failed || len(record) == 0 || mark[0] != endMark || int64(adler32.Checksum(record)) != sum {
			return records, nil
		}
		records = append(records, record)
	}
}

// The types of transactions.
const (
	opCreate          = 1
	opDelete          = 2
	opSetData         = 5
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCreateContainer = 19
	opDeleteContainer = 20
	opCreateTTL       = 21
	opCloseSession    = -11
	opError           = -1
)

func parse(record []byte) (Transaction, error) {
	d := decoder{rest: record}
	tx := Transaction{Session: d.int64()}
	d.int32() // the number of the request
	tx.Zxid = d.int64()
	tx.Proposed = time.UnixMilli(d.int64())
	op := d.int32()
	tx.Closes = op == opCloseSession
	tx.add(op, &d)
	if d.failed {
		return tx, errBroken
	}
	return tx, nil
}

// add adds what an operation does. Operations that change no nodes, or have failed, do nothing.
func (t *Transaction) add(op int32, d *decoder) {
	switch op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		c := change{kind: created, path: d.string(), data: d.buffer()}
		for range d.int32() { // the access control list
			d.int32()
			d.buffer()
			d.buffer()
		}
		c.ephemeral = op <= opCreate2 && d.take(1)[0] != 0
		t.changes = append(t.changes, c)
	case opDelete, opDeleteContainer:
		t.changes = append(t.changes, change{kind: deleted, path: d.string()})
	case opSetData, opReconfig:
		t.changes = append(t.changes, change{kind: set, path: d.string(), data: d.buffer()})
	case opMulti:
		before := len(t.changes)
		failed := false // then the parts before the one that has failed are there, and were not done
		for range d.int32() {
			op := d.int32()
			part := decoder{rest: d.buffer()}
			t.add(op, &part)
			failed = failed || op == opError
			d.failed = d.failed || part.failed
		}
		if failed {
			t.changes = t.changes[:before]
		}
	}
}

// A decoder reads the encoding of ZooKeeper's records.
type decoder struct {
	rest   []byte
	failed bool
}

// take returns the next n bytes, and zeros when there are too few.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.failed = true
		return make([]byte, max(0, min(n, 8)))
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }
func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }

// buffer returns bytes behind their length, which is -1 if there are none.
func (d *decoder) buffer() []byte {
	if n := d.int32(); n > 0 {
		return d.take(int(n))
	}
	return nil
}

func (d *decoder) string() string { return strings.ToValidUTF8(string(d.buffer()), "?") }
