package session

import (
	"fmt"
	"testing"
)

// TestSetWatchesFrames takes the frames apart again.
func TestSetWatchesFrames(t *testing.T) {
	var keys []watchKey
	for i := range 30_000 {
		keys = append(keys, watchKey{fmt.Sprintf("/some/path/%d", i), watchKind(i % 3)})
	}
	got := make(map[watchKey]bool)
	frames := setWatchesFrames(99, keys)
	for _, frame := range frames {
		if len(frame) > 256<<10 || int(int32At(frame, 0)) != len(frame)-4 || int64At(frame, 12) != 99 {
			t.Fatalf("a frame of %d bytes", len(frame))
		}
		at := 20
		for _, kind := range []watchKind{watchData, watchAbsent, watchChildren} {
			n := int(int32At(frame, at))
			at += 4
			for range n {
				path, end, err := stringAt(frame, at)
				if err != nil {
					t.Fatal(err)
				}
				got[watchKey{path, kind}], at = true, end
			}
		}
		if at != len(frame) {
			t.Fatalf("%d bytes are left", len(frame)-at)
		}
	}
	if len(frames) < 3 || len(got) != len(keys) {
		t.Fatalf("%d frames with %d watches", len(frames), len(got))
	}
	for _, key := range keys {
		if !got[key] {
			t.Fatalf("%v is missing", key)
		}
	}
	if setWatchesFrames(1, nil) != nil {
		t.Error("a frame for nothing")
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
	})
}

func TestEphemeralsAreCounted(t *testing.T) {
	var e ephemerals
	if !e.reserve(maxEphemeralBytes) || e.reserve(1) {
		t.Fatal("the limit is not where it is said to be")
	}
	e.own("/a", 1, nil)
	e.own("/a", 1, nil)
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
