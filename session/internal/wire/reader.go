package wire

import (
	"encoding/binary"
	"io"
)

const (
	usualBuffer = 4 << 10 // of a connection with nothing to do
	replyHeader = 16

	// LargeBuffer is the size of a buffer that is not kept for longer than it is needed.
	LargeBuffer = 64 << 10
)

// CodeTooLarge is not ZooKeeper's: the reply is over the limit of a [Reader].
const CodeTooLarge Code = -9002

// A Reader takes the frames of replies from a socket. Its buffer grows with what comes, and
// shrinks again.
type Reader struct {
	Socket io.Reader
	Limit  int // of a frame

	buffer   []byte
	unparsed []byte // of buffer
	excess   int    // what is left of a frame over the limit, and is to be dropped
}

// Next returns the body of a frame, which is good until the next call. Of a frame over
// the limit it makes one with [CodeTooLarge].
func (r *Reader) Next() ([]byte, error) {
	for r.excess > 0 {
		n := min(r.excess, len(r.unparsed))
		r.unparsed, r.excess = r.unparsed[n:], r.excess-n
		if r.excess > 0 {
			if err := r.fill(1); err != nil {
				return nil, err
			}
		}
	}
	if err := r.fill(4); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(r.unparsed)))
	if n < replyHeader {
		return nil, ErrMalformed
	}
	if n <= r.Limit {
		if err := r.fill(4 + n); err != nil {
			return nil, err
		}
		frame := r.unparsed[4 : 4+n : 4+n]
		r.unparsed = r.unparsed[4+n:]
		return frame, nil
	}
	if err := r.fill(4 + replyHeader); err != nil {
		return nil, err
	}
	h, _, err := ParseHeader(r.unparsed[4 : 4+replyHeader])
	if err != nil || h.Xid < 0 {
		return nil, ErrMalformed
	}
	h.Code = CodeTooLarge
	r.unparsed, r.excess = r.unparsed[4+replyHeader:], n-replyHeader
	return AppendReply(nil, h, OpError, nil)[4:], nil
}

// More reports whether Next has a frame without waiting for the socket.
func (r *Reader) More() bool {
	return r.excess == 0 && len(r.unparsed) >= 4 &&
		len(r.unparsed)-4 >= int(int32(binary.BigEndian.Uint32(r.unparsed)))
}

// fill reads until at least n bytes are there to be parsed.
func (r *Reader) fill(n int) error {
	for len(r.unparsed) < n {
		if room := cap(r.unparsed); room < n || len(r.unparsed) == room || len(r.unparsed) == 0 {
			r.makeRoom(n)
		}
		have := len(r.unparsed)
		read, err := r.Socket.Read(r.unparsed[have:cap(r.unparsed)])
		r.unparsed = r.unparsed[:have+read]
		if err != nil && len(r.unparsed) < n {
			return err
		}
	}
	return nil
}

// makeRoom moves what is not parsed to the beginning of a buffer for at least n bytes. A
// buffer that a read has filled is doubled; a large one is left when little is needed.
func (r *Reader) makeRoom(n int) {
	size := max(n, usualBuffer)
	if len(r.unparsed) == cap(r.unparsed) && len(r.unparsed) > 0 && cap(r.buffer) < LargeBuffer {
		size = max(size, 2*cap(r.buffer))
	}
	if cap(r.buffer) < size || cap(r.buffer) > LargeBuffer && size <= LargeBuffer {
		r.buffer = make([]byte, size)
	}
	r.unparsed = append(r.buffer[:0], r.unparsed...)
}
