package line

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
)

func line(children []string) (names []string) {
	for _, c := range shared.Line(children) {
		names = append(names, c.Name)
	}
	return names
}

func locate(children []string, own, guid string) Position {
	return exclusive.Locate(Snapshot{Names: children}, own, guid)
}

func TestGUID(t *testing.T) {
	const id = "3f0a1c5e-8f5b-4a26-9d4f-7a8d2f6c1b00"
	for n, want := range map[int]string{
		1: id, 31: "3f0a1c5e-8f5b-4a26-9d4f-7a8d2f6c1b1e",
	} {
		check.Equal(t, attemptGUID(id, n), want, "guid of attempt", n)
	}
	if got, want := attemptGUID(id[:28]+"ffffffff", 2), id[:28]+"00000000"; got != want {
		t.Errorf("guid = %s, want %s", got, want)
	}
	check.True(t, len(attemptGUID(id, math.MaxInt32)) == len(id) && attemptGUID(id, 1) != attemptGUID(id, 2), "not a GUID for each attempt")
	check.True(t, !strings.HasPrefix("_c_3f0a1c5e-8f5b-4a26-9d4f-7a8d2f6c1b1e0-lock-0000000001", Published(attemptGUID(id, 31))), "a longer GUID matches")
}

// numbered returns names with consecutive numbers from first, in order.
func numbered(first int32, n int) []string {
	names := make([]string, n)
	for i := range names {
		// The GUIDs are in no order at all.
		names[i] = fmt.Sprintf("_c_%s-lock-%010d", attemptGUID(actorID(i*7919%n), 1), first+int32(i))
	}
	return names
}

func TestLineKeepsItsOrderWhenNumbersWrap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, first := range []int32{0, 5, math.MaxInt32 - 4, math.MaxInt32 - 9, math.MinInt32, -5, -999_999_999 - 5} {
		want := numbered(first, 10)
		for range 100 {
			children := append(slices.Clone(want), "config", "_c_", "_c_x", "lock-x", "ключ", "lock-00000000011")
			r.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
			got := line(children)
			check.Require(t, slices.Equal(got, want), "line(%q) = %q, want %q", children, got, want)
			for i, own := range want {
				p := locate(children, own, "none")
				watch, beside := "", []Target(nil)
				if i > 0 {
					watch = want[i-1]
				}
				if i > 1 {
					beside = []Target{deletion(want[i-2])}
				}
				if !p.Present || p.Ahead != i || p.Watch != deletion(watch) || !slices.Equal(p.Beside, beside) || p.deletionGrants != (i == 1 || i == 2) || p.Zombies != nil {
					t.Fatalf("locate(%q, %q) = %+v", children, own, p)
				}
				if i > 1 { // the farther of the two, where holders are not brief
					watch = want[i-2]
				}
				if bounded := exclusive; i > 1 { // it alone, where too many are ahead
					bounded.Far = i - 1
					p := bounded.Locate(Snapshot{Names: children}, own, "none")
					check.True(t, p.Watch == deletion(want[i-2]) && p.Later == want[i-1] && p.Beside == nil && !p.deletionGrants, "%+v", p)
					bounded.Far = i
					check.Equal(t, bounded.Locate(Snapshot{Names: children}, own, "none").Later, "")
				}
				lasting := exclusive
				lasting.Brief = false
				if p := lasting.Locate(Snapshot{Names: children}, own, "none"); p.Watch != deletion(watch) || p.Beside != nil || p.deletionGrants != (i == 1) {
					t.Fatalf("locate(%q, %q) = %+v", children, own, p)
				}
			}
		}
	}
}

func TestLineOfNobody(t *testing.T) {
	check.Len(t, line([]string{"config", "lock-x"}), 0)
	p := locate([]string{"config", "lock-0000000001"}, "lock-0000000002", "")
	check.False(t, p.Present, "locate = %+v", p)
}

func TestTiesAreBrokenByName(t *testing.T) {
	children := []string{"c-lock-0000000007", "b-lock-0000000007", "a-lock-0000000007"}
	got, want := line(children), []string{children[2], children[1], children[0]}
	check.EqualSlices(t, got, want)
	p := locate(children, children[0], "none")
	check.True(t, p.Ahead == 2 && p.Watch == deletion(children[1]) && slices.Equal(p.Beside, []Target{deletion(children[2])}), "locate = %+v", p)
	check.Equal(t, locate(children, children[2], "none").Ahead, 0)
}

func TestOwnZombiesDoNotCount(t *testing.T) {
	g := attemptGUID(actorID(1), 1)
	zombie, own, other := Published(g)+"lock-0000000001", Published(g)+"lock-0000000003", "lock-0000000002"
	p := locate([]string{zombie, other, own, Published(g) + "lock-0000000009"}, own, g)
	check.True(t, p.Ahead == 1 && p.Watch == deletion(other) && len(p.Zombies) == 2, "locate = %+v", p)
}

func BenchmarkLocate(b *testing.B) {
	names := numbered(0, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		locate(names, names[5_000], "none")
	}
}

// Published is how the published recipes name nodes, and Curator: _c_<GUID>-<mark><number>.
func Published(guid string) string { return znode.GUIDName(guid, "") }
