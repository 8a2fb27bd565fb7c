package discovery

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/watch"
)

// TestViews plays trees at random, and has the view agree with a reading of the whole tree. It
// emits exactly when the instances differ, and reports each version of a bad node once.
func TestViews(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var given check.Given
	give := func(v view, in input) (view, actors.Effects[report, []Instance]) {
		var out actors.Effects[report, []Instance]
		check.Note(&given, in)
		return v.Step(in, &out), out
	}
	for range 3000 {
		v := view{dir: "/services/app"}
		tree := make(map[string]string)
		var last []Instance
		emitted := false
		for step := range 12 {
			var state watch.TreeState
			bad := make(map[string]bool)
			for _, name := range []string{"a", "b", "c", ""} {
				path := v.dir + "/" + name
				was, stood := tree[name]
				data := []string{"", "bad", fmt.Sprintf(`{"name":"app","id":"%s","port":1}`, name), fmt.Sprintf(`{"name":"app","id":"x%s"}`, name)}[r.IntN(4)]
				if name == "" {
					path, data = v.dir, "anything"
				}
				switch choice := r.IntN(4); {
				case choice == 0 && stood:
					delete(tree, name)
					state.Removed = append(state.Removed, watch.TreeNode{Path: path, Data: []byte(was)})
				case choice == 1 && stood:
					tree[name] = data
					state.Changed = append(state.Changed, watch.TreeNode{Path: path, Data: []byte(data)})
				case choice == 1:
					tree[name] = data
					state.Added = append(state.Added, watch.TreeNode{Path: path, Data: []byte(data)})
				default:
					continue
				}
				now, stands := tree[name]
				bad[name] = name != "" && stands && (now == "" || now == "bad") && (!stood || now != was)
			}
			state.Synced = step > r.IntN(4) || v.synced
			next, out := give(v, viewed{state})
			v = next
			for _, rep := range out.Do {
				check.True(t, bad[rep.node], "reported %s again", rep.node)
				delete(bad, rep.node)
			}
			for name, is := range bad {
				check.False(t, is, "did not report %s", name)
			}
			want := []Instance{}
			for _, name := range slices.Sorted(maps.Keys(tree)) {
				if i, err := Curator.Decode("app", name, []byte(tree[name])); err == nil && name != "" {
					want = append(want, i)
				}
			}
			slices.SortFunc(want, func(a, b Instance) int {
				return int(a.ID[len(a.ID)-1]) + len(a.ID)*1000 - int(b.ID[len(b.ID)-1]) - len(b.ID)*1000
			})
			should := state.Synced && (!emitted || !reflect.DeepEqual(want, last))
			check.True(t, should == (len(out.Emit) == 1), "emitted %v, want %v after %v", out.Emit, want, last)
			if should {
				check.True(t, reflect.DeepEqual(out.Emit[0], want), "emitted %v, want %v", out.Emit, want)
				last, emitted = want, true
			}
		}
		v, _ = give(v, end{})
		v, out := give(v, viewed{watch.TreeState{Added: []watch.TreeNode{{Path: "/services/app/late"}}, Synced: true}})
		check.True(t, v.Ended() && len(out.Emit) == 0 && len(out.Do) == 0, "%v after the end", out)
	}
	check.Explored(t, "input", given)
}

// Every event of a node is one of the instance.
func TestTranslation(t *testing.T) {
	why := errors.New("why")
	for from, want := range map[presence.Event]Event{
		presence.Joined{}: Registered{}, presence.Suspended{}: Suspended{}, presence.Resumed{}: Resumed{},
		presence.Gone{Err: why}: Gone{why}, presence.Left{Err: why}: Unregistered{why}, presence.Left{}: Unregistered{},
	} {
		check.Equal(t, translate(from), want, from, "is")
	}
}
