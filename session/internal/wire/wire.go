// Package wire reads and writes ZooKeeper's protocol: requests, replies, and the
// notifications of watches.
//
// A frame is a length of four bytes, and a body of that length. Functions named Append append a
// frame, and allocate only if the destination is too small. Functions named Parse take a body. They
// never panic, and allocate in proportion to the body, whatever counts and lengths it contains.
// Byte slices that they return share the memory of the body.
//
// Strings are read as Java reads them: U+FFFD replaces invalid bytes. Like a server,
// AppendReply and AppendEvent write a character beyond U+FFFF as two surrogates;
// parsing joins them.
package wire

import (
	"encoding/binary"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrMalformed reports a body that does not follow the protocol.
var ErrMalformed = errors.New("malformed frame")

// Transaction ids with a meaning of their own.
const (
	XidNotification int32 = -1
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
)

// A Stat describes a node, beside its data. The names are ZooKeeper's.
type Stat struct {
	Czxid          int64 // of the transaction that created the node
	Mzxid          int64 // of the last transaction that changed its data
	Pzxid          int64 // of the last transaction that changed its children
	Ctime          int64 // of its creation, in ms since 1970
	Mtime          int64 // of the last change of its data
	Version        int32 // counts changes of its data
	Cversion       int32 // counts changes of its children
	Aversion       int32 // counts changes of its ACL
	EphemeralOwner int64 // the session that owns it, or 0
	DataLength     int32
	NumChildren    int32
}

// An ACL grants permissions to an identity.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// A decoder reads a record. A field beyond the end reads as zero.
type decoder struct {
	rest   []byte // nil once failed is set
	failed bool   // set when the record ends too early, or contains an impossible length or count; stays set
}

// err returns ErrMalformed if the decoder has failed.
func (d *decoder) err() error {
	if d.failed {
		return ErrMalformed
	}
	return nil
}

// end is err for a record that must be the last in the body.
func (d *decoder) end() error {
	if len(d.rest) > 0 {
		return ErrMalformed
	}
	return d.err()
}

func (d *decoder) fail() { d.failed, d.rest = true, nil }

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.fail()
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

// buffer returns nil for a null buffer.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

// string returns a string, and false if it is null.
func (d *decoder) string() (s string, ok bool) {
	b := d.buffer()
	if !utf8.Valid(b) {
		return repaired(b), true
	}
	return string(b), b != nil
}

// text returns a string that must not be null.
func (d *decoder) text() string {
	s, ok := d.string()
	if !ok {
		d.fail()
	}
	return s
}

// count returns the number of the elements that follow, each of at least that size.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if n > len(d.rest)/size {
		d.fail()
		return 0
	}
	return max(n, 0)
}

func (d *decoder) strings() []string {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	all := make([]string, n)
	for i := range all {
		all[i] = d.text()
	}
	return all
}

func (d *decoder) acls() []ACL {
	n := d.count(4 + 4 + 4)
	if n == 0 {
		return nil
	}
	all := make([]ACL, n)
	for i := range all {
		a := &all[i]
		a.Perms = d.int32()
		a.Scheme, _ = d.string()
		a.ID, _ = d.string()
	}
	return all
}

func (d *decoder) stat(s *Stat) {
	s.Czxid, s.Mzxid = d.int64(), d.int64()
	s.Ctime, s.Mtime = d.int64(), d.int64()
	s.Version, s.Cversion, s.Aversion = d.int32(), d.int32(), d.int32()
	s.EphemeralOwner = d.int64()
	s.DataLength, s.NumChildren = d.int32(), d.int32()
	s.Pzxid = d.int64()
}

// repaired replaces invalid bytes, and joins pairs of surrogates.
func repaired(b []byte) string {
	s := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if half := surrogate(b); half != 0 {
			r, n = utf8.RuneError, 3
			if both := utf16.DecodeRune(half, surrogate(b[3:])); both != utf8.RuneError {
				r, n = both, 6
			}
		}
		s = utf8.AppendRune(s, r)
		b = b[n:]
	}
	return string(s)
}

// surrogate returns the surrogate at the beginning of b, or 0.
func surrogate(b []byte) rune {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xe0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f)
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }
func appendCount(b []byte, n int) []byte   { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBuffer(b, data []byte) []byte {
	if data == nil {
		return appendInt32(b, -1)
	}
	return append(appendCount(b, len(data)), data...)
}

func appendString(b []byte, s string) []byte {
	return append(appendCount(b, len(s)), s...)
}

// appendJavaString writes a character beyond U+FFFF as two surrogates of three bytes.
func appendJavaString(b []byte, s string) []byte {
	at := len(b)
	b = appendInt32(b, 0)
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if hi, lo := utf16.EncodeRune(r); hi == utf8.RuneError {
			b = append(b, s[:n]...)
		} else {
			b = appendSurrogate(appendSurrogate(b, hi), lo)
		}
		s = s[n:]
	}
	setLength(b[at:])
	return b
}

func appendSurrogate(b []byte, half rune) []byte {
	return append(b, 0xe0|byte(half>>12), 0x80|byte(half>>6&0x3f), 0x80|byte(half&0x3f))
}

func appendStrings(b []byte, all []string, one func([]byte, string) []byte) []byte {
	b = appendCount(b, len(all))
	for _, s := range all {
		b = one(b, s)
	}
	return b
}

func appendACLs(b []byte, all []ACL, one func([]byte, string) []byte) []byte {
	b = appendCount(b, len(all))
	for _, a := range all {
		b = appendInt32(b, a.Perms)
		b = one(b, a.Scheme)
		b = one(b, a.ID)
	}
	return b
}

func appendStat(b []byte, s *Stat) []byte {
	b = appendInt64(b, s.Czxid)
	b = appendInt64(b, s.Mzxid)
	b = appendInt64(b, s.Ctime)
	b = appendInt64(b, s.Mtime)
	b = appendInt32(b, s.Version)
	b = appendInt32(b, s.Cversion)
	b = appendInt32(b, s.Aversion)
	b = appendInt64(b, s.EphemeralOwner)
	b = appendInt32(b, s.DataLength)
	b = appendInt32(b, s.NumChildren)
	return appendInt64(b, s.Pzxid)
}

// setLength writes the length of a frame into its first four bytes.
func setLength(b []byte) { binary.BigEndian.PutUint32(b, uint32(len(b)-4)) }

// appendMultiHeader begins an operation of a multi, or a result, or ends the list.
func appendMultiHeader(b []byte, op Op, done bool, err int32) []byte {
	b = appendInt32(b, int32(op))
	b = appendBool(b, done)
	return appendInt32(b, err)
}

func appendMultiEnd(b []byte) []byte { return appendMultiHeader(b, OpError, true, -1) }

// next reads the header of the next operation of a multi. It returns false at the end.
func (d *decoder) next() (op Op, ok bool) {
	op = Op(d.int32())
	done := d.bool()
	d.int32()
	return op, !done && !d.failed
}
