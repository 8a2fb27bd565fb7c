package zktest

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file knows how ZooKeeper's records lie on the wire: big-endian numbers,
// strings and buffers behind their lengths, -1 for those that are not there.

// A decoder reads a record. What lies beyond the end reads as zero, and is
// remembered in failed.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) int32() int32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (d *decoder) int64() int64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// buffer returns bytes of the frame itself; nil if there is no buffer.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

// string returns a string, and whether there is one. What is no UTF-8 in it is
// replaced, as Java does.
func (d *decoder) string() (s string, ok bool) {
	b := d.buffer()
	if !utf8.Valid(b) {
		return string([]rune(string(b))), true
	}
	return string(b), b != nil
}

// path returns a string that must be there.
func (d *decoder) path() string {
	s, ok := d.string()
	if !ok {
		d.failed = true
	}
	return s
}

func (d *decoder) paths() []string {
	var all []string
	for range d.int32() {
		p := d.path()
		if d.failed {
			return nil
		}
		all = append(all, p)
	}
	return all
}

func (d *decoder) acls() []acl {
	var all []acl
	for range d.int32() {
		a := acl{perms: d.int32()}
		a.id.scheme, _ = d.string()
		a.id.id, _ = d.string()
		if d.failed {
			return nil
		}
		all = append(all, a)
	}
	return all
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendString(b []byte, s string) []byte {
	if strings.IndexFunc(s, func(r rune) bool { return r > 0xffff }) >= 0 {
		s = surrogates(s)
	}
	return append(appendInt32(b, int32(min(len(s), math.MaxInt32))), s...)
}

// surrogates writes what does not fit into 16 bits as two characters, each in
// what would be its UTF-8: to Java a string consists of such.
func surrogates(s string) string {
	var b []byte
	for _, r := range s {
		if r <= 0xffff {
			b = utf8.AppendRune(b, r)
			continue
		}
		hi, lo := utf16.EncodeRune(r)
		for _, half := range []rune{hi, lo} {
			b = append(b, 0xe0|byte(half>>12), 0x80|byte(half>>6&0x3f), 0x80|byte(half&0x3f))
		}
	}
	return string(b)
}

func appendBuffer(b, data []byte) []byte {
	if data == nil {
		return appendInt32(b, -1)
	}
	return append(appendInt32(b, int32(min(len(data), math.MaxInt32))), data...)
}

func appendStrings(b []byte, all []string) []byte {
	b = appendInt32(b, int32(min(len(all), math.MaxInt32)))
	for _, s := range all {
		b = appendString(b, s)
	}
	return b
}

func appendACLs(b []byte, all []acl) []byte {
	b = appendInt32(b, int32(min(len(all), math.MaxInt32)))
	for _, a := range all {
		b = appendInt32(b, a.perms)
		b = appendString(b, a.id.scheme)
		b = appendString(b, a.id.id)
	}
	return b
}

func appendStat(b []byte, s stat) []byte {
	b = appendInt64(b, s.czxid)
	b = appendInt64(b, s.mzxid)
	b = appendInt64(b, s.ctime)
	b = appendInt64(b, s.mtime)
	b = appendInt32(b, s.version)
	b = appendInt32(b, s.cversion)
	b = appendInt32(b, s.aversion)
	b = appendInt64(b, s.owner)
	b = appendInt32(b, s.dataLength)
	b = appendInt32(b, s.numChildren)
	return appendInt64(b, s.pzxid)
}

// framed puts its length before what build appends to b.
func framed(b []byte, build func([]byte) []byte) []byte {
	start := len(b)
	b = build(appendInt32(b, 0))
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// A code is what the server answers with when it refuses.
type code int32

const (
	codeOK                     code = 0
	codeRuntimeInconsistency   code = -2
	codeMarshalling            code = -5
	codeUnimplemented          code = -6
	codeBadArguments           code = -8
	codeNoNode                 code = -101
	codeNoAuth                 code = -102
	codeBadVersion             code = -103
	codeNoChildrenForEphemeral code = -108
	codeNodeExists             code = -110
	codeNotEmpty               code = -111
	codeInvalidACL             code = -114
	codeAuthFailed             code = -115
	codeNoWatcher              code = -121
	codeReconfigDisabled       code = -123
)

// The transaction ids of what is not a request of the user's.
const (
	xidNotification int32 = -1
	xidPing         int32 = -2
)

// opError is the type of the result of a failed operation in a multi.
const opError = -1
