package zktest

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// FuzzFrames sends what no client would, and looks whether others notice.
func FuzzFrames(f *testing.F) {
	steps := table()
	for i := 0; i < len(steps); i += 7 {
		if st := steps[i]; st.do == nil {
			f.Add(true, appendRequest(nil, 1, st.op, st.arg)[4:])
		}
	}
	f.Add(false, []byte{0, 0, 0, 0})
	srv := check.Have(NewServer(Config{InProcess: true}))(f)
	f.Cleanup(srv.Close)
	dial := func(tb testing.TB) *rawClient {
		tb.Helper()
		c := check.Have(srv.DialContext(context.Background(), "tcp", srv.Addrs()[0]))(tb)
		tb.Cleanup(func() { _ = c.Close() })
		return &rawClient{Conn: c}
	}
	other := dial(f)
	check.Require(f, other.shake(wire.ConnectRequest{Timeout: 10000}), "no session")
	f.Fuzz(func(t *testing.T, hello bool, frame []byte) {
		w := dial(t)
		check.Require(t, !hello || w.shake(wire.ConnectRequest{Timeout: 1000}), "no session")
		// As a frame, in two, and as a stream of bytes.
		head := binary.BigEndian.AppendUint32(nil, uint32(len(frame)))
		half := binary.BigEndian.AppendUint32(nil, uint32(len(frame)/2))
		for _, b := range [][]byte{head, frame, half, frame[:len(frame)/2], frame} {
			if _, err := w.Write(b); err != nil {
				break
			}
		}
		w.send(OpCloseSession, nil)
		_ = w.Close()
		if a, err := other.call(OpExists, argWatch("/zookeeper", false)); err != nil || a.gone || a.err != codeOK {
			t.Fatal("another client has noticed", a, err)
		}
	})
}

// FuzzPaths looks for paths in anything.
func FuzzPaths(f *testing.F) {
	f.Add(appendRequest(nil, 1, OpMulti, argMulti(part{OpCreate, argCreate("/a", nil, 0)}))[4:])
	f.Add([]byte("/a/./b"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		pathsOf(b)
		validPath(string(b))
	})
}
