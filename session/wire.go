package session

import (
	"encoding/binary"
	"errors"
	"time"
)

// This file reads and writes the few frames of ZooKeeper's protocol that the
// session must understand beside the client below.

// Operations, by their numbers in the protocol.
const (
	opSync          int32 = 9
	opPing          int32 = 11
	opExists        int32 = 3
	opGetData       int32 = 4
	opGetChildren   int32 = 12
	opRemoveWatches int32 = 18
	opAuth          int32 = 100
	opSetWatches    int32 = 101
	opClose         int32 = -11
)

// Transaction ids with a meaning of their own. Those of the session's own requests
// begin at xidOwn and count down; the client below uses positive ones.
const (
	xidNotification int32 = -1
	xidAuth         int32 = -4
	xidOwn          int32 = -1000
)

// Error codes of replies. The last two are not ZooKeeper's: they tell the client
// below that the session has refused its request.
const (
	codeOK                     int32 = 0
	codeUnimplemented          int32 = -6
	codeBadArguments           int32 = -8
	codeNoNode                 int32 = -101
	codeNoAuth                 int32 = -102
	codeBadVersion             int32 = -103
	codeNoChildrenForEphemeral int32 = -108
	codeNodeExists             int32 = -110
	codeNotEmpty               int32 = -111
	codeExpired                int32 = -112
	codeInvalidACL             int32 = -114
	codeAuthFailed             int32 = -115
	codeMoved                  int32 = -118
	codeRefused                int32 = -9001
	codeTooLarge               int32 = -9002
)

// errOf returns the sentinel for an error code.
func errOf(code int32) error {
	switch code {
	case codeOK:
		return nil
	case codeUnimplemented:
		return ErrUnimplemented
	case codeBadArguments:
		return ErrInvalidArgument
	case codeNoNode:
		return ErrNoNode
	case codeNoAuth:
		return ErrNoAuth
	case codeBadVersion:
		return ErrBadVersion
	case codeNoChildrenForEphemeral:
		return ErrNoChildrenForEphemerals
	case codeNodeExists:
		return ErrNodeExists
	case codeNotEmpty:
		return ErrNotEmpty
	case codeExpired:
		return ErrExpired
	case codeInvalidACL:
		return ErrInvalidACL
	case codeAuthFailed:
		return ErrAuthFailed
	case codeMoved:
		return ErrDisconnected
	case codeTooLarge:
		return ErrTooLarge
	}
	return &ServerError{Code: code}
}

// byLeader reports whether the leader had a part in a reply with this error to a
// write.
func byLeader(code int32) bool {
	switch code {
	case codeOK, codeNoNode, codeBadVersion, codeNoChildrenForEphemeral, codeNodeExists, codeNotEmpty:
		return true
	}
	return false
}

// isWrite reports whether requests with the opcode go through the leader.
func isWrite(opcode int32) bool {
	switch opcode {
	case 1, 2, 5, 7, opSync, 14, 15, 16, 19, 21:
		return true
	}
	return false
}

const (
	replyHeader   = 16 // xid, zxid, error
	requestHeader = 8  // xid, opcode
)

var errMalformed = errors.New("malformed frame")

func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func int64At(b []byte, at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// stringAt returns the string at an offset, and the offset behind it.
func stringAt(b []byte, at int) (string, int, error) {
	if at+4 > len(b) {
		return "", at, errMalformed
	}
	n := int(int32At(b, at))
	at += 4
	if n < 0 {
		return "", at, nil
	}
	if n > len(b)-at {
		return "", at, errMalformed
	}
	return string(b[at : at+n]), at + n, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// framed puts the length before what build appends.
func framed(build func([]byte) []byte) []byte {
	b := build(make([]byte, 4, 64))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func requestFrame(xid, opcode int32, body func([]byte) []byte) []byte {
	return framed(func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(xid))
		b = binary.BigEndian.AppendUint32(b, uint32(opcode))
		if body != nil {
			b = body(b)
		}
		return b
	})
}

func syncFrame(xid int32, path string) []byte {
	return requestFrame(xid, opSync, func(b []byte) []byte { return appendString(b, path) })
}

func authFrame(a Auth) []byte {
	return requestFrame(xidAuth, opAuth, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, 0)
		b = appendString(b, a.Scheme)
		return appendString(b, string(a.Secret))
	})
}

// replyFrame is an empty reply, made here.
func replyFrame(xid, code int32) []byte {
	return framed(func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(xid))
		b = binary.BigEndian.AppendUint64(b, 0)
		return binary.BigEndian.AppendUint32(b, uint32(code))
	})
}

// A handshake is the server's answer to a connect request.
type handshake struct {
	timeout time.Duration
	id      int64
}

func parseHandshake(body []byte) (handshake, error) {
	if len(body) < 16 {
		return handshake{}, errMalformed
	}
	return handshake{
		timeout: time.Duration(int32At(body, 4)) * time.Millisecond,
		id:      int64At(body, 8),
	}, nil
}

// handshakeFrame is an answer made here.
func handshakeFrame(h handshake) []byte {
	return framed(func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(h.timeout.Milliseconds()))
		b = binary.BigEndian.AppendUint64(b, uint64(h.id))
		b = binary.BigEndian.AppendUint32(b, 16)
		return append(b, make([]byte, 16)...)
	})
}

// nodeEvent is what the server tells of a watch.
type nodeEvent struct {
	kind eventKind
	path string
}

type eventKind int32

const (
	nodeCreated         eventKind = 1
	nodeDeleted         eventKind = 2
	nodeDataChanged     eventKind = 3
	nodeChildrenChanged eventKind = 4
)

func parseNotification(frame []byte) (nodeEvent, error) {
	if len(frame) < replyHeader+8 {
		return nodeEvent{}, errMalformed
	}
	path, _, err := stringAt(frame, replyHeader+8)
	return nodeEvent{kind: eventKind(int32At(frame, replyHeader)), path: path}, err
}

// setWatchFlag makes a read of the client one that plants a watch: the flag is the last
// byte of its frame.
func setWatchFlag(frame []byte) { frame[len(frame)-1] = 1 }

// watchSet returns the watch that a reply to such a request leaves on the server.
func watchSet(opcode, code int32) (kind watchKind, set bool) {
	switch {
	case opcode == opExists && code == codeNoNode:
		return watchAbsent, true
	case code != codeOK:
		return 0, false
	case opcode == opGetChildren:
		return watchChildren, true
	}
	return watchData, true
}

// A watchKey names a watch on the server.
type watchKey struct {
	path string
	kind watchKind
}

type watchKind int

const (
	watchData watchKind = iota
	watchAbsent
	watchChildren
)

// watchesEndedBy returns which watches on its path an event uses up.
func watchesEndedBy(kind eventKind) []watchKind {
	switch kind {
	case nodeCreated:
		return []watchKind{watchAbsent}
	case nodeDataChanged:
		return []watchKind{watchAbsent, watchData}
	case nodeChildrenChanged:
		return []watchKind{watchChildren}
	case nodeDeleted:
		return []watchKind{watchAbsent, watchData, watchChildren}
	}
	return nil
}

// setWatchesFrames returns requests, without their transaction ids, that set watches
// again, and have the server tell what has happened since.
func setWatchesFrames(since int64, keys []watchKey) [][]byte {
	const most = 128 << 10 // of a request, as clients in Java have it
	var frames [][]byte
	for len(keys) > 0 {
		var lists [3][]string
		n := 0
		for size := 0; n < len(keys) && size < most; n++ {
			size += 4 + len(keys[n].path)
			lists[keys[n].kind] = append(lists[keys[n].kind], keys[n].path)
		}
		keys = keys[n:]
		frames = append(frames, requestFrame(0, opSetWatches, func(b []byte) []byte {
			b = binary.BigEndian.AppendUint64(b, uint64(since))
			for _, kind := range []watchKind{watchData, watchAbsent, watchChildren} {
				b = binary.BigEndian.AppendUint32(b, uint32(len(lists[kind])))
				for _, path := range lists[kind] {
					b = appendString(b, path)
				}
			}
			return b
		}))
	}
	return frames
}

// A removal is which watch on a node a request ends, by its number in the protocol.
type removal int32

const (
	removeNothing  removal = 0
	removeChildren removal = 1
	removeData     removal = 2
)

func removeWatchesFrame(xid int32, path string, kind removal) []byte {
	return requestFrame(xid, opRemoveWatches, func(b []byte) []byte {
		return binary.BigEndian.AppendUint32(appendString(b, path), uint32(kind))
	})
}
