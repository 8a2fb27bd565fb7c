package session

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestParseSetWatches(t *testing.T) {
	list := func(b []byte, paths ...string) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(len(paths)))
		for _, p := range paths {
			b = appendString(b, p)
		}
		return b
	}
	frame := requestFrame(7, opSetWatches, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(b, 99)
		b = list(b, "/a", "/b")
		b = list(b)
		return list(b, "/c")
	})[4:]
	keys, err := parseSetWatches(frame)
	want := []watchKey{{"/a", watchData}, {"/b", watchData}, {"/c", watchChildren}}
	if err != nil || !slices.Equal(keys, want) {
		t.Fatalf("got %v, %v", keys, err)
	}
	for n := range frame {
		if _, err := parseSetWatches(frame[:n]); err == nil {
			t.Fatalf("the first %d bytes are accepted", n)
		}
	}
}

// FuzzParse gives whatever comes from a server to what reads it.
func FuzzParse(f *testing.F) {
	f.Add(replyFrame(1, -101)[4:])
	f.Add(handshakeFrame(handshake{id: 7})[4:])
	f.Add(requestFrame(1, opGetData, func(b []byte) []byte { return append(appendString(b, "/a"), 1) })[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, _ = parseHandshake(frame)
		_, _ = parseNotification(frame)
		_, _ = parseSetWatches(frame)
		_ = watchRequested(opGetData, frame)
	})
}

func TestEphemeralsAreCounted(t *testing.T) {
	var e ephemerals
	if !e.reserve(maxEphemeralBytes) || e.reserve(1) {
		t.Fatal("the limit is not where it is said to be")
	}
	e.own("/a")
	e.own("/a")
	e.release(maxEphemeralBytes)
	if e.reserve(maxEphemeralBytes) || !e.reserve(maxEphemeralBytes-2) {
		t.Fatal("a node that is owned does not count once")
	}
	e.release(maxEphemeralBytes - 2)
	e.disown("/a")
	e.disown("/a")
	if !e.reserve(maxEphemeralBytes) {
		t.Fatal("a node that is gone counts")
	}
}
