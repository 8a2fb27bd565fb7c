package wire

import (
	"encoding/binary"
	"io"
)

const (
	usualBuffer = 4 << 10 // of a connection with nothing to do
	replyHeader = 16

	// LargeBuffer is the size beyond which a buffer is kept only while it is needed.
	LargeBuffer = 64 << 10
)

// CodeTooLarge is not ZooKeeper's: the reply is over the limit of a [Reader].
const CodeTooLarge Code = -9002

// A Reader takes the frames of replies from a socket. Its buffer grows with the frames, and shrinks
// again.
type Reader struct {
	Socket io.Reader
	Limit  int // of a frame

	// Arrived, if not nil, is called when bytes have come. Reply reports whether they belong to a
	// reply that is not complete.
	Arrived func(reply bool)

	// Larger, if not nil, returns the limit of a reply that is over the usual one.
	Larger func(xid int32) int

	// Size is the number of bytes of the newest frame, also of a frame over the limit.
	Size int

	buffer   []byte
	unparsed []byte // of buffer
	excess   int    // the bytes of a frame over the limit that have yet to be dropped
}

// Next returns the body of a frame, which is valid until the next call. In the place of a frame
// over the limit it returns a body with [CodeTooLarge].
func (r *Reader) Next() ([]byte, error) {
	if err := r.Drop(); err != nil {
		return nil, err
	}
	if err := r.fill(4); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(r.unparsed)))
	if n < replyHeader {
		return nil, ErrMalformed
	}
	r.Size = n
	if n <= r.Limit {
		return r.frame(n)
	}
	if err := r.fill(4 + replyHeader); err != nil {
		return nil, err
	}
	h, _, err := ParseHeader(r.unparsed[4 : 4+replyHeader])
	if err != nil || h.Xid < 0 {
		return nil, ErrMalformed
	}
	if r.Larger != nil && n <= r.Larger(h.Xid) {
		return r.frame(n)
	}
	h.Code = CodeTooLarge
	r.unparsed, r.excess = r.unparsed[4+replyHeader:], n-replyHeader
	return AppendReply(nil, h, OpError, nil)[4:], nil
}

// frame takes a frame of n bytes.
func (r *Reader) frame(n int) ([]byte, error) {
	if err := r.fill(4 + n); err != nil {
		return nil, err
	}
	frame := r.unparsed[4 : 4+n : 4+n]
	r.unparsed = r.unparsed[4+n:]
	return frame, nil
}

// Drop discards the rest of a frame over the limit. Without Drop, the next call of Next discards
// it.
func (r *Reader) Drop() error {
	for {
		n := min(r.excess, len(r.unparsed))
		r.unparsed, r.excess = r.unparsed[n:], r.excess-n
		if r.excess == 0 {
			return nil
		}
		if err := r.fill(1); err != nil {
			return err
		}
	}
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
		if read > 0 && r.Arrived != nil {
			r.Arrived(r.partial())
		}
		if err != nil && len(r.unparsed) < n {
			return err
		}
	}
	return nil
}

// partial reports whether a part of the next frame has arrived, and the frame is a reply.
func (r *Reader) partial() bool {
	const xid = 4 // the offset of the xid, behind the length of the frame
	return r.excess > 0 || len(r.unparsed) >= xid+4 && int32(binary.BigEndian.Uint32(r.unparsed[xid:])) != XidNotification
}

// makeRoom moves the bytes that are not parsed to the beginning of a buffer for at least n bytes. A
// buffer that a read has filled is doubled; a large buffer is left when little is needed.
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
