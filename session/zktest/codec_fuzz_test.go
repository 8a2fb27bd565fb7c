package zktest

import (
	"context"
	"encoding/binary"
	"testing"
)

// FuzzFrames sends what no client would, and looks whether others notice.
func FuzzFrames(f *testing.F) {
	steps := table()
	for i := 0; i < len(steps); i += 7 {
		if st := steps[i]; st.do == nil {
			body := appendInt32(appendInt32(nil, 1), int32(st.op))
			if st.arg != nil {
				body = st.arg(body)
			}
			f.Add(true, body)
		}
	}
	f.Add(false, []byte{0, 0, 0, 0})
	srv, err := NewServer(Config{InProcess: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(srv.Close)
	dial := func(tb testing.TB) *wire {
		tb.Helper()
		c, err := srv.DialContext(context.Background(), "tcp", srv.Addrs()[0])
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = c.Close() })
		return &wire{Conn: c}
	}
	other := dial(f)
	if !other.shake(handshake{timeout: 10000}) {
		f.Fatal("no session")
	}
	f.Fuzz(func(t *testing.T, hello bool, frame []byte) {
		w := dial(t)
		if hello && !w.shake(handshake{timeout: 1000}) {
			t.Fatal("no session")
		}
		// As a frame, in two, and as a stream of bytes.
		head := binary.BigEndian.AppendUint32(nil, uint32(len(frame)))
		half := binary.BigEndian.AppendUint32(nil, uint32(len(frame)/2))
		for _, b := range [][]byte{head, frame, half, frame[:len(frame)/2], frame} {
			if _, err := w.Write(b); err != nil {
				break
			}
		}
		w.put(func(b []byte) []byte { return appendInt32(appendInt32(b, 7), int32(OpCloseSession)) })
		_ = w.Close()
		if a, err := other.call(OpExists, argWatch("/zookeeper", false)); err != nil || a.gone || a.err != codeOK {
			t.Fatal("another client has noticed", a, err)
		}
	})
}

// FuzzDecoder reads records of all kinds from anything.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'x', 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func(d *decoder){
			func(d *decoder) { d.paths() },
			func(d *decoder) { d.acls() },
			func(d *decoder) { parseMulti(d) },
			func(d *decoder) { parseOperation(OpCreate, d) },
			func(d *decoder) { parseHandshake(d.rest) },
		} {
			d := decoder{rest: b}
			read(&d)
			if len(d.rest) > len(b) {
				t.Fatal("it has more than it was given")
			}
		}
		pathsOf(OpMulti, b)
		pathsOf(OpSetWatches, b)
		validPath(string(b))
	})
}
