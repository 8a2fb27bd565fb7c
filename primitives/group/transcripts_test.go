package group

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// TestTranscripts replays the stories in testdata, of what a member makes of what it is
// told of the others; those of its node are in package presence. Run it with -rewrite to
// let it write down what happens.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m machine
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				m = machine{view: view{dir: "/g"}}
				return fmt.Sprintf("%v\n", m.view.members)
			}
			in, err := parseInput(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			next, out := m.after(in)
			m = next
			s := fmt.Sprintf("%v\n", m.view.members)
			for _, ev := range out.Emit {
				s += fmt.Sprintf("* %v\n", ev)
			}
			return s
		})
	})
}

// parseInput reads a change of a tree, of nodes written id=(data,czxid), and with a third
// value if no session owns them; and what else there is.
func parseInput(d *datadriven.TestData) (input, error) {
	switch d.Cmd {
	case "leave":
		return leave{}, nil
	case "blinded":
		return blinded{session.ErrNoAuth}, nil
	case "closed":
		return blinded{session.ErrClosed}, nil
	case "viewed":
	default:
		return nil, fmt.Errorf("unknown input %s", d.Cmd)
	}
	var state watch.TreeState
	for _, arg := range d.CmdArgs {
		if arg.Key == "synced" {
			state.Synced = true
			continue
		}
		sign, id := arg.Key[:1], strings.TrimLeft(arg.Key, "+-~")
		n := watch.TreeNode{Path: znode.Join("/g", id), Stat: &session.Stat{EphemeralOwner: 1}}
		if id == "." {
			n = watch.TreeNode{Path: "/g", Stat: &session.Stat{}}
		}
		for i, val := range arg.Vals {
			switch i {
			case 0:
				n.Data = []byte(val)
			case 1:
				czxid, err := strconv.ParseInt(val, 10, 64)
				if err != nil {
					return nil, err
				}
				n.Stat.Czxid = czxid
			default:
				n.Stat.EphemeralOwner = 0
			}
		}
		switch sign {
		case "+":
			state.Added = append(state.Added, n)
		case "~":
			state.Changed = append(state.Changed, n)
		case "-":
			state.Removed = append(state.Removed, n)
		}
	}
	return viewed{state}, nil
}
