package watches

import (
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// TestSetWatches: every watch is set again, in requests that are not too large.
func TestSetWatches(t *testing.T) {
	var keys []Key
	for i := range 30_000 {
		keys = append(keys, Key{fmt.Sprintf("/some/path/%d", i), Kind(i % 3)})
	}
	got := make(map[Key]bool)
	requests := Settings(99, keys)
	for _, r := range requests {
		if size := len(wire.AppendRequest(nil, 0, r)); r.Zxid != 99 || size > 256<<10 {
			t.Fatalf("a request of %d bytes, since %d", size, r.Zxid)
		}
		for kind, paths := range r.Watches {
			for _, path := range paths {
				got[Key{path, Kind(kind)}] = true
			}
		}
	}
	check.Require(t, len(requests) >= 3 && len(got) == len(keys), "%d requests with %d watches", len(requests), len(got))
	for _, key := range keys {
		check.Require(t, got[key], "%v is missing", key)
	}
	check.True(t, Settings(1, nil) == nil, "a request for nothing")
}
