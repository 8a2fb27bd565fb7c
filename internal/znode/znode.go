// Package znode has functions of sessions and recipes for the paths and names of znodes.
package znode

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Join returns the path of the child of dir with the given name.
func Join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// Split returns the parent of the node at path and its name there.
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// SessionID returns the ID of a session as the logs of the servers show it: without a sign, which
// an ID has if the servers' myid is greater than 127.
func SessionID(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// NewGUID returns a random GUID for [GUIDName].
func NewGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := make([]byte, 0, 36)
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// GUIDName returns the name for a node that can be found again by its GUID, in the
// form that Curator introduced.
func GUIDName(guid, name string) string { return "_c_" + guid + "-" + name }

// HasGUID reports whether name is the name of a node that was created with the GUID.
func HasGUID(name, guid string) bool { return strings.HasPrefix(name, GUIDName(guid, "")) }

// Spread returns the part of a time that belongs to a GUID. Handles that wait for their parts act
// one after the other: docs/adr/0056.
func Spread(guid string, all time.Duration) time.Duration {
	var part [2]byte
	_, _ = hex.Decode(part[:], []byte(guid[:4])) // they are digits
	return all * time.Duration(binary.BigEndian.Uint16(part[:])) >> 16
}
