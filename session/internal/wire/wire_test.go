package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// The parts of records, written down without the code under test.

func record(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func i32(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func i64(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
func str(s string) []byte {
	return append(i32(int32(len(s))), s...)
}

func null() []byte { return i32(-1) }
func yes() []byte  { return []byte{1} }
func no() []byte   { return []byte{0} }

func list(all ...string) []byte {
	b := i32(int32(len(all)))
	for _, s := range all {
		b = append(b, str(s)...)
	}
	return b
}

func part(op int32, body ...[]byte) []byte { return record(i32(op), no(), i32(-1), record(body...)) }

func result(op int32, body ...[]byte) []byte {
	return record(i32(op), no(), i32(0), record(body...))
}

func failure(code int32) []byte { return record(i32(-1), no(), i32(code), i32(code)) }
func done() []byte              { return record(i32(-1), yes(), i32(-1)) }

func stat() wire.Stat {
	return wire.Stat{
		Czxid: 1, Mzxid: 2, Pzxid: math.MinInt64, Ctime: 4, Mtime: 5, Version: 6, Cversion: -7, Aversion: 8,
		EphemeralOwner: 9 << 40, DataLength: 10, NumChildren: 11,
	}
}

func statBytes() []byte {
	return record(i64(1), i64(2), i64(4), i64(5), i32(6), i32(-7), i32(8), i64(9<<40), i32(10), i32(11), i64(math.MinInt64))
}

const (
	smiley     = "\U0001F600"
	surrogates = "\xed\xa0\xbd\xed\xb8\x80" // of the smiley, as Java has them
)

func someACL() []wire.ACL {
	return []wire.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}, {Perms: -1, Scheme: "", ID: "é" + smiley}}
}

func aclBytes(id string) []byte {
	return record(i32(2), i32(31), str("world"), str("anyone"), i32(-1), str(""), str("é"+id))
}

// refusesParts fails the test if the parser accepts a part of the bytes from the beginning.
func refusesParts(t *testing.T, body []byte, parse func([]byte) error, about ...any) {
	t.Helper()
	for n := range body {
		check.True(t, parse(body[:n]) != nil, "%v: %d of %d bytes are accepted", about, n, len(body))
	}
}

type requestRow struct {
	r    wire.Request
	body []byte
}

// requests has every operation.
func requests() []requestRow {
	creation := func(op wire.Op) wire.Request {
		return wire.Request{Op: op, Path: "/a", Data: []byte("x"), ACL: someACL(), Flags: 3}
	}
	created := record(str("/a"), str("x"), aclBytes(smiley), i32(3))
	ttl := creation(wire.OpCreateTTL)
	ttl.TTL = 1 << 33
	some := [5][]string{{"/a", "/b"}, nil, {"/c"}, {smiley}, {""}}
	three := some
	three[3], three[4] = nil, nil
	return []requestRow{
		{creation(wire.OpCreate), created},
		{creation(wire.OpCreate2), created},
		{creation(wire.OpCreateContainer), created},
		{ttl, record(created, i64(1<<33))},
		{wire.Request{Op: wire.OpCreate, Path: "/a"}, record(str("/a"), null(), i32(0), i32(0))},
		{wire.Request{Op: wire.OpCreate, NoPath: true, Data: []byte{}}, record(null(), str(""), i32(0), i32(0))},
		{wire.Request{Op: wire.OpDelete, Path: "/a", Version: -1}, record(str("/a"), i32(-1))},
		{wire.Request{Op: wire.OpExists, Path: "/a", Watch: true}, record(str("/a"), yes())},
		{wire.Request{Op: wire.OpGetData, Path: smiley}, record(str(smiley), no())},
		{wire.Request{Op: wire.OpSetData, Path: "/a", Data: []byte("x"), Version: 7}, record(str("/a"), str("x"), i32(7))},
		{wire.Request{Op: wire.OpGetACL, Path: "/a"}, str("/a")},
		{wire.Request{Op: wire.OpSetACL, Path: "/a", ACL: someACL(), Version: 7}, record(str("/a"), aclBytes(smiley), i32(7))},
		{wire.Request{Op: wire.OpGetChildren, Path: "/a", Watch: true}, record(str("/a"), yes())},
		{wire.Request{Op: wire.OpGetChildren2, Path: "/a"}, record(str("/a"), no())},
		{wire.Request{Op: wire.OpSync, Path: "/"}, str("/")},
		{wire.Request{Op: wire.OpPing}, nil},
		{wire.Request{Op: wire.OpCheck, Path: "/a", Version: 7}, record(str("/a"), i32(7))},
		{wire.Request{Op: wire.OpMulti}, done()},
		{
			wire.Request{Op: wire.OpMulti, Ops: []wire.Request{
				creation(wire.OpCreate), creation(wire.OpCreate2), creation(wire.OpCreateContainer), ttl,
				{Op: wire.OpDelete, Path: "/a", Version: -1},
				{Op: wire.OpSetData, Path: "/a", Version: 7},
				{Op: wire.OpCheck, Path: "/a", Version: 7},
			}},
			record(part(1, created), part(15, created), part(19, created), part(21, created, i64(1<<33)), part(2, str("/a"), i32(-1)),
				part(5, str("/a"), null(), i32(7)), part(13, str("/a"), i32(7)), done()),
		},
		{
			wire.Request{Op: wire.OpMulti, Ops: []wire.Request{{Op: wire.OpCheck, Path: "/", Version: -1}, {Op: wire.OpCheck, NoPath: true}}},
			record(part(13, str("/"), i32(-1)), part(13, null(), i32(0)), done()),
		},
		{
			wire.Request{Op: wire.OpMultiRead, Ops: []wire.Request{
				{Op: wire.OpGetData, Path: "/a"}, {Op: wire.OpGetChildren, NoPath: true, Watch: true},
			}},
			record(part(4, str("/a"), no()), part(8, null(), yes()), done()),
		},
		{wire.Request{Op: wire.OpReconfig, Data: []byte("record")}, []byte("record")},
		{wire.Request{Op: wire.OpCheckWatches, Path: "/a", Kind: 2}, record(str("/a"), i32(2))},
		{wire.Request{Op: wire.OpRemoveWatches, Path: "/a", Kind: 3}, record(str("/a"), i32(3))},
		{wire.Request{Op: wire.OpAddWatch, Path: "/a", Kind: 1}, record(str("/a"), i32(1))},
		{wire.Request{Op: wire.OpDeleteContainer, Data: []byte("/a")}, []byte("/a")},
		{wire.Request{Op: wire.OpAuth, Scheme: "digest", Data: []byte("a:b")}, record(i32(0), str("digest"), str("a:b"))},
		{
			wire.Request{Op: wire.OpSetWatches, Zxid: 1 << 40, Watches: &three},
			record(i64(1<<40), list("/a", "/b"), list(), list("/c")),
		},
		{
			wire.Request{Op: wire.OpSetWatches2, Zxid: 1 << 40, Watches: &some},
			record(i64(1<<40), list("/a", "/b"), list(), list("/c"), list(smiley), list("")),
		},
		{wire.Request{Op: wire.OpSASL, Data: []byte("token")}, str("token")},
		{wire.Request{Op: wire.OpGetEphemerals, Path: "/"}, str("/")},
		{wire.Request{Op: wire.OpGetAllChildrenNumber, Path: "/"}, str("/")},
		{wire.Request{Op: wire.OpWhoAmI}, nil},
		{wire.Request{Op: wire.OpCreateSession, Data: []byte{1, 2}}, []byte{1, 2}},
		{wire.Request{Op: wire.OpCloseSession}, nil},
		{wire.Request{Op: 999, Data: []byte{1}}, []byte{1}},
	}
}

func TestRequests(t *testing.T) {
	for _, tt := range requests() {
		want := record(i32(int32(8+len(tt.body))), i32(17), i32(int32(tt.r.Op)), tt.body)
		got := wire.AppendRequest([]byte("before"), 18, &tt.r)
		got = bytes.TrimPrefix(got, []byte("before"))
		wire.SetXid(got, 17)
		check.True(t, bytes.Equal(got, want), "%v %+v\n got %q\nwant %q", tt.r.Op, tt.r, got, want)
		if tt.r.Op == wire.OpMulti {
			parts := wire.BeginMulti(nil, 17)
			for i := range tt.r.Ops {
				parts = wire.AppendPart(parts, &tt.r.Ops[i])
			}
			if parts = wire.EndMulti(parts); !bytes.Equal(parts, want) {
				t.Errorf("%v in parts\n got %q\nwant %q", tt.r.Op, parts, want)
			}
		}
		xid, r, err := wire.ParseRequest(want[4:])
		check.True(t, xid == 17 && err == nil && reflect.DeepEqual(r, tt.r), "%v\n got %+v, %d, %v\nwant %+v", tt.r.Op, r, xid, err, tt.r)
		if tt.r.Data != nil && len(tt.r.Data) == len(tt.body) {
			continue // the body is not looked at
		}
		if _, _, err := wire.ParseRequest(append(slices.Clip(want[4:]), 0)); err != nil {
			t.Errorf("%v: servers ignore what follows a request: %v", tt.r.Op, err)
		}
		refusesParts(t, want[4:], func(b []byte) error { _, _, err := wire.ParseRequest(b); return err }, tt.r.Op)
	}
}

// compareOnlyChecks compares it with what ParseRequest returns for a body.
func compareOnlyChecks(t *testing.T, body []byte) (only bool) {
	t.Helper()
	_, r, err := wire.ParseRequest(body)
	other := func(o wire.Request) bool { return o.Op != wire.OpCheck }
	only = err == nil && r.Op == wire.OpMulti && len(r.Ops) > 0 && !slices.ContainsFunc(r.Ops, other)
	check.True(t, wire.OnlyChecks(body) == only, "only checks: %v, want %v of %x", !only, only, body)
	return only
}

func TestOnlyChecks(t *testing.T) {
	only := 0
	for _, tt := range requests() {
		body := wire.AppendRequest(nil, 17, &tt.r)[4:]
		for n := range body {
			compareOnlyChecks(t, body[:n])
		}
		if compareOnlyChecks(t, body) {
			only++
		}
	}
	check.True(t, only == 1, "%d requests of checks only, want 1", only)
}

func TestMalformedRequests(t *testing.T) {
	const huge = math.MaxInt32
	for _, tt := range []struct {
		name string
		op   wire.Op
		body []byte
	}{
		{"a path of a negative length", wire.OpSync, i32(-2)},
		{"a path without an end", wire.OpSync, record(i32(huge), []byte("/a"))},
		{"too many ACLs", wire.OpCreate, record(str("/a"), null(), i32(huge), bytes.Repeat([]byte{0}, 100))},
		{"too many watches", wire.OpSetWatches, record(i64(0), i32(huge), bytes.Repeat([]byte{0}, 100))},
		{"a null among watches", wire.OpSetWatches, record(i64(0), i32(1), null(), i32(0), i32(0))},
		{"a multi in a multi", wire.OpMulti, record(part(14, done()), done())},
		{"an ACL set in a multi", wire.OpMulti, record(part(7, str("/a"), i32(0), i32(0)), done())},
		{"an error in a multi", wire.OpMulti, record(failure(0), done())},
	} {
		xid, r, err := wire.ParseRequest(record(i32(17), i32(int32(tt.op)), tt.body))
		check.True(t, err != nil && xid == 17 && r.Op == tt.op, "%s: %d, %+v, %v", tt.name, xid, r, err)
	}
}

type replyRow struct {
	op   wire.Op
	ops  []wire.Request
	r    wire.Reply
	body []byte
}

func ops(all ...wire.Op) []wire.Request {
	rs := make([]wire.Request, len(all))
	for i, op := range all {
		rs[i].Op = op
	}
	return rs
}

// replies has every operation.
func replies() []replyRow {
	path := wire.Reply{Path: "/a" + smiley}
	pathBytes := str("/a" + surrogates)
	both := path
	both.Stat = stat()
	names := []string{"b", "", smiley + "é"}
	nameBytes := list("b", "", surrogates+"é")
	failed := []wire.Result{
		{Op: wire.OpError},
		{Op: wire.OpError, Code: wire.CodeNodeExists},
		{Op: wire.OpError, Code: wire.CodeRuntimeInconsistency},
	}
	return []replyRow{
		{wire.OpCreate, nil, path, pathBytes},
		{wire.OpCreate2, nil, both, record(pathBytes, statBytes())},
		{wire.OpCreateContainer, nil, both, record(pathBytes, statBytes())},
		{wire.OpCreateTTL, nil, both, record(pathBytes, statBytes())},
		{wire.OpDelete, nil, wire.Reply{}, nil},
		{wire.OpExists, nil, wire.Reply{Stat: stat()}, statBytes()},
		{wire.OpGetData, nil, wire.Reply{Data: []byte("x"), Stat: stat()}, record(str("x"), statBytes())},
		{wire.OpGetData, nil, wire.Reply{Data: []byte{}, Stat: stat()}, record(str(""), statBytes())},
		{wire.OpGetData, nil, wire.Reply{Stat: stat()}, record(null(), statBytes())},
		{wire.OpSetData, nil, wire.Reply{Stat: stat()}, statBytes()},
		{wire.OpGetACL, nil, wire.Reply{ACL: someACL(), Stat: stat()}, record(aclBytes(surrogates), statBytes())},
		{wire.OpSetACL, nil, wire.Reply{Stat: stat()}, statBytes()},
		{wire.OpGetChildren, nil, wire.Reply{Names: names}, nameBytes},
		{wire.OpGetChildren, nil, wire.Reply{}, i32(0)},
		{wire.OpGetChildren2, nil, wire.Reply{Names: names, Stat: stat()}, record(nameBytes, statBytes())},
		{wire.OpSync, nil, path, pathBytes},
		{wire.OpSync, nil, wire.Reply{NoPath: true}, null()},
		{wire.OpPing, nil, wire.Reply{}, nil},
		{wire.OpCheck, nil, wire.Reply{}, nil},
		{wire.OpMulti, ops(), wire.Reply{}, done()},
		{
			wire.OpMulti,
			ops(wire.OpCreate, wire.OpCreate2, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpCheck),
			wire.Reply{Results: []wire.Result{
				{Op: wire.OpCreate, Path: "/a"},
				{Op: wire.OpCreate, Path: "/b"}, // ZooKeeper 3.8 makes no difference
				{Op: wire.OpCreate2, Path: "/c" + smiley, Stat: stat(), HasStat: true},
				{Op: wire.OpCreate2, Path: "/d", Stat: stat(), HasStat: true},
				{Op: wire.OpCreateTTL, Path: "/e", Stat: stat(), HasStat: true},
				{Op: wire.OpDelete},
				{Op: wire.OpSetData, Stat: stat(), HasStat: true},
				{Op: wire.OpCheck},
			}},
			record(result(1, str("/a")), result(1, str("/b")), result(15, str("/c"+surrogates), statBytes()), result(15, str("/d"), statBytes()),
				result(21, str("/e"), statBytes()), result(2), result(5, statBytes()), result(13), done()),
		},
		{
			wire.OpMulti, ops(wire.OpDelete, wire.OpCreate, wire.OpCheck),
			wire.Reply{Results: failed},
			record(failure(0), failure(-110), failure(-2), done()),
		},
		{wire.OpMulti, nil, wire.Reply{Results: failed}, record(failure(0), failure(-110), failure(-2), done())},
		{
			wire.OpMultiRead, ops(wire.OpGetData, wire.OpGetChildren, wire.OpGetData),
			wire.Reply{Results: []wire.Result{
				{Op: wire.OpGetData, Data: []byte("x"), Stat: stat(), HasStat: true},
				{Op: wire.OpGetChildren, Names: names},
				{Op: wire.OpError, Code: wire.CodeNoNode},
			}},
			record(result(4, str("x"), statBytes()), result(8, nameBytes), failure(-101), done()),
		},
		{wire.OpReconfig, nil, wire.Reply{Data: []byte("x"), Stat: stat()}, record(str("x"), statBytes())},
		{wire.OpCheckWatches, nil, wire.Reply{}, nil},
		{wire.OpRemoveWatches, nil, wire.Reply{}, nil},
		{wire.OpAddWatch, nil, wire.Reply{}, i32(0)},
		{wire.OpDeleteContainer, nil, wire.Reply{}, nil},
		{wire.OpAuth, nil, wire.Reply{}, nil},
		{wire.OpSetWatches, nil, wire.Reply{}, nil},
		{wire.OpSetWatches2, nil, wire.Reply{}, nil},
		{wire.OpSASL, nil, wire.Reply{Data: []byte("token")}, str("token")},
		{wire.OpGetEphemerals, nil, wire.Reply{Names: names}, nameBytes},
		{wire.OpGetAllChildrenNumber, nil, wire.Reply{Count: 5}, i32(5)},
		{
			wire.OpWhoAmI, nil,
			wire.Reply{ACL: []wire.ACL{{Scheme: "ip", ID: "::1"}, {Scheme: "digest", ID: smiley}}},
			record(i32(2), str("ip"), str("::1"), str("digest"), str(surrogates)),
		},
		{wire.OpCloseSession, nil, wire.Reply{}, nil},
	}
}

func TestReplies(t *testing.T) {
	for _, tt := range replies() {
		want := record(i32(int32(16+len(tt.body))), i32(17), i64(1<<40), i32(0), tt.body)
		header := wire.Header{Xid: 17, Zxid: 1 << 40}
		got := bytes.TrimPrefix(wire.AppendReply([]byte("before"), header, tt.op, &tt.r), []byte("before"))
		check.True(t, bytes.Equal(got, want), "%v %+v\n got %q\nwant %q", tt.op, tt.r, got, want)
		h, rest, err := wire.ParseHeader(want[4:])
		check.True(t, h == header && err == nil, "%v: header %+v, %v", tt.op, h, err)
		r := wire.Reply{Path: "stale", Count: 9, Results: make([]wire.Result, 3)}
		if err := wire.ParseReply(tt.op, opsOf(tt.ops), rest, &r); err != nil || !reflect.DeepEqual(r, tt.r) {
			t.Errorf("%v\n got %+v, %v\nwant %+v", tt.op, r, err, tt.r)
		}
		if err := wire.ParseReply(tt.op, opsOf(tt.ops), append(slices.Clip(rest), 0), &r); err == nil {
			t.Errorf("%v: a byte too many is accepted", tt.op)
		}
		refusesParts(t, rest, func(b []byte) error { return wire.ParseReply(tt.op, opsOf(tt.ops), b, &r) }, tt.op)
		header.Code = wire.CodeNoAuth
		bare := record(i32(16), i32(17), i64(1<<40), i32(-102))
		check.Equal(t, string(wire.AppendReply(nil, header, tt.op, &tt.r)), string(bare), "an error beside", tt.op)
	}
}

func TestMalformedReplies(t *testing.T) {
	const huge = math.MaxInt32
	zeros := bytes.Repeat([]byte{0}, 100)
	two := ops(wire.OpCreate, wire.OpDelete)
	created, deleted := result(1, str("/a")), result(2)
	for _, tt := range []struct {
		name string
		op   wire.Op
		ops  []wire.Request
		body []byte
	}{
		{"no path", wire.OpCreate, nil, null()},
		{"no path beside the stat", wire.OpCreate2, nil, record(null(), statBytes())},
		{"a path of a negative length", wire.OpCreate, nil, i32(-2)},
		{"a path without an end", wire.OpCreate, nil, record(i32(huge), zeros)},
		{"data of a negative length", wire.OpGetData, nil, record(i32(-2), statBytes())},
		{"data without an end", wire.OpGetData, nil, record(i32(huge), zeros)},
		{"too many names", wire.OpGetChildren, nil, record(i32(huge), zeros)},
		{"a name too many", wire.OpGetChildren, nil, record(i32(3), str("a"), str("b"))},
		{"a name that is null", wire.OpGetChildren, nil, record(i32(1), null())},
		{"too many ACLs", wire.OpGetACL, nil, record(i32(huge), zeros)},
		{"too many identities", wire.OpWhoAmI, nil, record(i32(huge), zeros)},
		{"a body where none belongs", wire.OpPing, nil, i32(0)},
		{"too few results", wire.OpMulti, two, record(created, done())},
		{"no results", wire.OpMulti, two, done()},
		{"too many results", wire.OpMulti, two, record(created, deleted, deleted, done())},
		{"results where none belong", wire.OpMulti, ops(), record(deleted, done())},
		{"results out of order", wire.OpMulti, two, record(deleted, created, done())},
		{"a result of another type", wire.OpMulti, two, record(created, result(13), done())},
		{"a result of an unknown type", wire.OpMulti, nil, record(result(3, statBytes()), done())},
		{"an error beside a result", wire.OpMulti, two, record(created, failure(-101), done())},
		{"a result beside an error", wire.OpMulti, two, record(failure(-101), deleted, done())},
		{"no end", wire.OpMulti, two, record(created, deleted)},
		{"something behind the end", wire.OpMulti, two, record(created, deleted, done(), done())},
		{"a read of another type", wire.OpMultiRead, ops(wire.OpGetData), record(result(8, list()), done())},
	} {
		var r wire.Reply
		if err := wire.ParseReply(tt.op, opsOf(tt.ops), tt.body, &r); err == nil {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestConnect(t *testing.T) {
	password := []byte("0123456789abcdef")
	q := wire.ConnectRequest{Protocol: 1, LastZxid: 2 << 40, Timeout: 3, Session: 4 << 40, Password: password, ReadOnly: true}
	r := wire.ConnectResponse{Protocol: 1, Timeout: 3, Session: 4 << 40, Password: password, ReadOnly: true}
	request := record(i32(45), i32(1), i64(2<<40), i32(3), i64(4<<40), str(string(password)), yes())
	response := record(i32(37), i32(1), i32(3), i64(4<<40), str(string(password)), yes())
	old := func(frame []byte) []byte {
		frame = bytes.Clone(frame[:len(frame)-1])
		frame[3]--
		return frame
	}
	for _, isOld := range []bool{false, true} {
		if isOld {
			q.ReadOnly, q.Old, request = false, true, old(request)
			r.ReadOnly, r.Old, response = false, true, old(response)
		}
		check.Equal(t, string(wire.AppendConnectRequest(nil, &q)), string(request))
		if got, err := wire.ParseConnectRequest(request[4:]); err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("got %+v, %v, want %+v", got, err, q)
		}
		check.Equal(t, string(wire.AppendConnectResponse(nil, &r)), string(response))
		if got, err := wire.ParseConnectResponse(response[4:]); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v, want %+v", got, err, r)
		}
	}
	refusesParts(t, request[4:], func(b []byte) error { _, err := wire.ParseConnectRequest(b); return err })
	refusesParts(t, response[4:], func(b []byte) error { _, err := wire.ParseConnectResponse(b); return err })
	_, err := wire.ParseConnectResponse(append(response[4:], 0, 0))
	check.True(t, err != nil, "a byte too many is accepted")
}

func TestEvents(t *testing.T) {
	e := wire.Event{Kind: wire.EventChildrenChanged, State: 3, Path: "/a" + smiley}
	body := record(i32(4), i32(3), str("/a"+surrogates))
	want := record(i32(int32(16+len(body))), i32(-1), i64(-1), i32(0), body)
	check.Equal(t, string(wire.AppendEvent(nil, -1, e)), string(want))
	if got, err := wire.ParseEvent(body); got != e || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, e)
	}
	refusesParts(t, body, func(b []byte) error { _, err := wire.ParseEvent(b); return err })
	_, err := wire.ParseEvent(append(body, 0))
	check.True(t, err != nil, "a byte too many is accepted")
	refusesParts(t, want[4:20], func(b []byte) error { _, _, err := wire.ParseHeader(b); return err })
}

// As Java reads and writes them.
func TestStrings(t *testing.T) {
	for _, tt := range []struct{ sent, got, answered string }{
		{"", "", ""},
		{"/aé\u4e2d\uffff", "/aé\u4e2d\uffff", "/aé\u4e2d\uffff"},
		{smiley, smiley, surrogates},
		{surrogates, smiley, surrogates},
		{surrogates[3:] + surrogates[:3], "\ufffd\ufffd", "\ufffd\ufffd"},
		{surrogates[:3], "\ufffd", "\ufffd"},
		{"a\xffb", "a\ufffdb", "a\ufffdb"},
		{"\xed", "\ufffd", "\ufffd"},
		{"\U0010ffff", "\U0010ffff", "\xed\xaf\xbf\xed\xbf\xbf"},
	} {
		var r wire.Reply
		if err := wire.ParseReply(wire.OpCreate, nil, str(tt.sent), &r); err != nil || r.Path != tt.got {
			t.Errorf("%q is read as %q, %v", tt.sent, r.Path, err)
		}
		frame := wire.AppendReply(nil, wire.Header{}, wire.OpCreate, &wire.Reply{Path: tt.got})
		if want := str(tt.answered); !bytes.Equal(frame[20:], want) {
			t.Errorf("%q is written as %q, want %q", tt.got, frame[20:], want)
		}
	}
}

func TestNames(t *testing.T) {
	ops, codes := make(map[string]bool), make(map[string]bool)
	for _, tt := range requests() {
		ops[tt.r.Op.String()] = true
	}
	if got := len(ops); got != 32 || !ops["createContainer"] || !ops["op(999)"] {
		t.Errorf("%d names: %v", got, ops)
	}
	for c := wire.Code(0); c > -130; c-- {
		codes[c.String()] = true
	}
	check.False(t, !codes["NoNode"] || !codes["error -126"] || len(codes) != 130, "%d names: %v", len(codes), codes)
	check.Equal(t, wire.OpError.String(), "error", wire.OpError)
}

// opsOf returns the types of operations.
func opsOf(ops []wire.Request) []wire.Op {
	if ops == nil {
		return nil
	}
	all := make([]wire.Op, len(ops))
	for i := range ops {
		all[i] = ops[i].Op
	}
	return all
}
