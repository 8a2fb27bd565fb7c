package wire_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// size returns how many bytes a value keeps alive.
func size(v reflect.Value) int {
	n := 0
	switch v.Kind() { // the others refer to nothing
	case reflect.String:
		n = v.Len()
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 0 // it lies in the frame
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			n += size(v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			n += size(field)
		}
	}
	return n
}

// bounded checks that a value read from a body is no larger than its bytes allow. The
// smallest element, an operation of a multi, has 14 bytes.
func bounded(t *testing.T, v any, body []byte) {
	t.Helper()
	const perByte = 64
	check.AtMost(t, size(reflect.ValueOf(v)), perByte*len(body)+1024, "bytes out of", v)
}

func FuzzParseRequest(f *testing.F) {
	for _, tt := range requests() {
		f.Add(wire.AppendRequest(nil, 17, &tt.r)[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		xid, r, err := wire.ParseRequest(body)
		bounded(t, r, body)
		compareOnlyChecks(t, body)
		if err != nil {
			return
		}
		again := wire.AppendRequest(nil, xid, &r)
		xid2, r2, err := wire.ParseRequest(again[4:])
		check.Require(t, err == nil && xid2 == xid && reflect.DeepEqual(r, r2), "%+v becomes %+v, %v", r, r2, err)
		check.Require(t, bytes.Equal(body, before), "the body has changed")
	})
}

func FuzzParseReply(f *testing.F) {
	kinds := func(ops []wire.Request) []byte {
		b := make([]byte, len(ops))
		for i := range ops {
			b[i] = byte(ops[i].Op)
		}
		return b
	}
	for _, tt := range replies() {
		f.Add(int32(tt.op), kinds(tt.ops), tt.body)
	}
	f.Fuzz(func(t *testing.T, op int32, kinds, rest []byte) {
		var sent []wire.Op
		for _, k := range kinds {
			sent = append(sent, wire.Op(k))
		}
		parse := func(rest []byte) (wire.Reply, error) {
			r := wire.Reply{Path: "stale", Names: []string{"stale"}, Results: make([]wire.Result, 1, 2)}
			err := wire.ParseReply(wire.Op(op), sent, rest, &r)
			return r, err
		}
		before := slices.Clone(rest)
		r, err := parse(rest)
		bounded(t, r, rest)
		if err != nil {
			return
		}
		if sent != nil && (wire.Op(op) == wire.OpMulti || wire.Op(op) == wire.OpMultiRead) && len(r.Results) != len(sent) {
			t.Fatalf("%d results of %d operations", len(r.Results), len(sent))
		}
		frame := wire.AppendReply(nil, wire.Header{Xid: 1}, wire.Op(op), &r)
		_, again, err := wire.ParseHeader(frame[4:])
		check.Must(t, err)
		r2, err := parse(again)
		check.Require(t, err == nil && reflect.DeepEqual(r, r2), "%+v becomes %+v, %v", r, r2, err)
		check.Require(t, bytes.Equal(rest, before), "the body has changed")
	})
}

func FuzzParseEvent(f *testing.F) {
	f.Add(wire.AppendEvent(nil, -1, wire.Event{Kind: wire.EventDeleted, State: 3, Path: "/a" + smiley})[20:])
	f.Fuzz(func(t *testing.T, rest []byte) {
		e, err := wire.ParseEvent(rest)
		bounded(t, e, rest)
		if err != nil {
			return
		}
		if again, err := wire.ParseEvent(wire.AppendEvent(nil, 5, e)[20:]); err != nil || again != e {
			t.Fatalf("%+v becomes %+v, %v", e, again, err)
		}
	})
}

func FuzzParseConnect(f *testing.F) {
	q := wire.ConnectRequest{Timeout: 1000, Password: make([]byte, 16)}
	r := wire.ConnectResponse{Timeout: 1000, Session: 1, Password: make([]byte, 16)}
	f.Add(wire.AppendConnectRequest(nil, &q)[4:])
	f.Add(wire.AppendConnectResponse(nil, &r)[4:])
	f.Fuzz(func(t *testing.T, body []byte) {
		if q, err := wire.ParseConnectRequest(body); err == nil {
			again, err := wire.ParseConnectRequest(wire.AppendConnectRequest(nil, &q)[4:])
			check.Require(t, err == nil && reflect.DeepEqual(again, q), "%+v becomes %+v, %v", q, again, err)
		}
		if r, err := wire.ParseConnectResponse(body); err == nil {
			again, err := wire.ParseConnectResponse(wire.AppendConnectResponse(nil, &r)[4:])
			check.Require(t, err == nil && reflect.DeepEqual(again, r), "%+v becomes %+v, %v", r, again, err)
		}
	})
}
