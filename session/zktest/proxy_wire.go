package zktest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxProxyFrame is more than any server accepts or sends.
const maxProxyFrame = 64 << 20

// sniffedEvent is the xid of notifications.
const sniffedEvent int32 = -1

// closeTimeout bounds one attempt to close a session.
const closeTimeout = 2 * time.Second

// errFourLetterWord means that the client speaks no frames but a four letter word.
var errFourLetterWord = errors.New("zktest: four letter word")

// readProxyFrame reads a frame, and returns it with the length that begins it. If
// first is true, it leaves a four letter word unread and returns errFourLetterWord.
func readProxyFrame(in *bufio.Reader, first bool) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	if first && isFourLetterWord(head) {
		return nil, errFourLetterWord
	}
	n := int32(binary.BigEndian.Uint32(head))
	if n < 0 || n > maxProxyFrame {
		return nil, fmt.Errorf("zktest: frame of %d bytes", n)
	}
	data := make([]byte, 4+int(n))
	_, err = io.ReadFull(in, data)
	return data, err
}

func isFourLetterWord(head []byte) bool {
	for _, b := range head {
		if b < 'a' || b > 'z' {
			return false
		}
	}
	return true
}

// A sniffer takes fields from a frame. Missing ones are zero.
type sniffer struct{ rest []byte }

// bodyOf returns a reader of what follows the length.
func bodyOf(data []byte) *sniffer { return &sniffer{rest: data[4:]} }

func (r *sniffer) next(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest = nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *sniffer) int32() int32 {
	b := r.next(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (r *sniffer) int64() int64 {
	b := r.next(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// bytes takes a byte slice or a string. Both may be absent, which is a length
// of -1.
func (r *sniffer) bytes() []byte {
	n := r.int32()
	if n <= 0 {
		return nil
	}
	return r.next(int(n))
}

// sniffConnectRequest returns the session that a client wants to resume.
func sniffConnectRequest(data []byte) int64 {
	r := bodyOf(data)
	r.int32() // protocol version
	r.int64() // last zxid seen
	r.int32() // timeout
	return r.int64()
}

// sniffConnectResponse returns the session that a server has opened, or 0.
func sniffConnectResponse(data []byte) (int64, proxySession) {
	r := bodyOf(data)
	r.int32() // protocol version
	s := proxySession{timeout: r.int32()}
	id := r.int64()
	s.password = append(s.password, r.bytes()...)
	return id, s
}

func sniffRequest(data []byte) (int32, Op) {
	r := bodyOf(data)
	xid := r.int32()
	return xid, Op(r.int32())
}

func sniffReply(data []byte) (xid int32, zxid int64, code int32) {
	r := bodyOf(data)
	return r.int32(), r.int64(), r.int32()
}

// sniffEvent returns what a notification is about.
func sniffEvent(data []byte) []string {
	r := bodyOf(data)
	r.next(4 + 8 + 4) // header
	r.int32()         // type
	r.int32()         // state
	return []string{string(r.bytes())}
}

// sniffPaths returns the paths that a request names.
func sniffPaths(op Op, data []byte) []string {
	r := bodyOf(data)
	r.next(4 + 4) // header
	switch op {
	case OpMulti, OpMultiRead:
		return sniffMulti(r)
	case OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpSASL, OpReconfig,
		OpWhoAmI, OpCreateSession, OpCloseSession:
		return nil
	case OpCreate, OpDelete, OpExists, OpGetData, OpSetData, OpGetACL, OpSetACL,
		OpGetChildren, OpSync, OpGetChildren2, OpCheck, OpCreate2, OpCheckWatches,
		OpRemoveWatches, OpCreateContainer, OpDeleteContainer, OpCreateTTL, OpGetEphemerals,
		OpGetAllChildren, OpAddWatch:
	}
	return []string{string(r.bytes())}
}

// sniffMulti returns the path of each operation of a multi.
func sniffMulti(r *sniffer) []string {
	var paths []string
	for len(r.rest) > 0 {
		op := Op(r.int32())
		done := r.next(1)
		r.int32() // error
		if len(done) == 0 || done[0] != 0 {
			break
		}
		paths = append(paths, string(r.bytes()))
		skipOperation(op, r)
	}
	return paths
}

// skipOperation skips what follows the path of an operation in a multi.
func skipOperation(op Op, r *sniffer) {
	switch op { //nolint:exhaustive // these are all that there can be in a multi
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		r.bytes() // data
		for range r.int32() {
			if len(r.rest) == 0 {
				break
			}
			r.int32() // permissions
			r.bytes() // scheme
			r.bytes() // id
		}
		r.int32() // flags
		if op == OpCreateTTL {
			r.int64()
		}
	case OpDelete, OpCheck:
		r.int32() // version
	case OpSetData:
		r.bytes() // data
		r.int32() // version
	case OpGetData, OpGetChildren:
		r.next(1) // watch
	default:
		r.rest = nil
	}
}

// closeInItsName closes a session in its name. It returns nil if the session is
// over.
func closeInItsName(server string, id int64, s proxySession) (err error) {
	conn, err := net.DialTimeout("tcp", server, closeTimeout)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has come, or something else went wrong
	if err := conn.SetDeadline(time.Now().Add(closeTimeout)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)

	connect := binary.BigEndian.AppendUint32(nil, 0) // protocol version
	connect = binary.BigEndian.AppendUint64(connect, 0)
	connect = binary.BigEndian.AppendUint32(connect, uint32(s.timeout))
	connect = binary.BigEndian.AppendUint64(connect, uint64(id))
	connect = binary.BigEndian.AppendUint32(connect, uint32(len(s.password)))
	connect = append(connect, s.password...)
	connect = append(connect, 0) // not read-only
	data, err := exchange(conn, in, connect)
	if err != nil {
		return err
	}
	if opened, _ := sniffConnectResponse(data); opened == 0 {
		return nil
	}

	const xid = 1
	closing := OpCloseSession
	end := binary.BigEndian.AppendUint32(nil, xid)
	end = binary.BigEndian.AppendUint32(end, uint32(closing))
	for data, err = exchange(conn, in, end); err == nil; data, err = readProxyFrame(in, false) {
		got, _, code := sniffReply(data)
		if got != xid {
			continue // a notification
		}
		if code != 0 {
			return fmt.Errorf("closing a session: error %d", code)
		}
		return nil
	}
	return err
}

// exchange sends a frame and reads one.
func exchange(conn net.Conn, in *bufio.Reader, body []byte) ([]byte, error) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if _, err := conn.Write(append(frame, body...)); err != nil {
		return nil, err
	}
	return readProxyFrame(in, false)
}

// String returns the operation's name in ZooKeeper.
func (o Op) String() string {
	switch o {
	case OpCreate:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "getData"
	case OpSetData:
		return "setData"
	case OpGetACL:
		return "getACL"
	case OpSetACL:
		return "setACL"
	case OpGetChildren:
		return "getChildren"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpGetChildren2:
		return "getChildren2"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpCreate2:
		return "create2"
	case OpReconfig:
		return "reconfig"
	case OpCheckWatches:
		return "checkWatches"
	case OpRemoveWatches:
		return "removeWatches"
	case OpCreateContainer:
		return "createContainer"
	case OpDeleteContainer:
		return "deleteContainer"
	case OpCreateTTL:
		return "createTTL"
	case OpMultiRead:
		return "multiRead"
	case OpAuth:
		return "auth"
	case OpSetWatches:
		return "setWatches"
	case OpSASL:
		return "sasl"
	case OpGetEphemerals:
		return "getEphemerals"
	case OpGetAllChildren:
		return "getAllChildrenNumber"
	case OpSetWatches2:
		return "setWatches2"
	case OpAddWatch:
		return "addWatch"
	case OpWhoAmI:
		return "whoAmI"
	case OpCreateSession:
		return "createSession"
	case OpCloseSession:
		return "closeSession"
	}
	return fmt.Sprintf("op(%d)", int32(o))
}
