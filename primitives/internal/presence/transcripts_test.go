package presence

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// TestTranscripts replays the stories in testdata. Run it with -rewrite to let it write
// down what happens.
func TestTranscripts(t *testing.T) {
	turns := regexp.MustCompile(`\{\{\d+ \d+\} ?`)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m Machine
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				m = newMachine([]byte("a"), Config{TakeOver: d.HasArg("take-over"), AtOnce: d.HasArg("at-once")})
				return stands(m)
			}
			in, err := parseInput(m, d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			var out Effects
			m, out = m.after(in)
			s := stands(m)
			for _, e := range out.Do {
				if a, ok := e.(answer); ok {
					s += fmt.Sprintf("  answer{%d: %v}\n", len(a.replies), a.err)
					continue
				}
				s += turns.ReplaceAllString(fmt.Sprintf("  %s%v\n", strings.TrimPrefix(fmt.Sprintf("%T", e), "presence."), e), "{")
			}
			for _, ev := range out.Emit {
				s += "* " + tell(ev) + "\n"
			}
			return s
		})
	})
}

// stands returns what a machine asks for, the node that it has seen, and how it counts itself.
func stands(m Machine) string {
	s := fmt.Sprintf("%v(epoch=%d", m.asked, m.request.epoch)
	if m.seen.Exists {
		s += fmt.Sprintf(" %v", m.seen)
	}
	if m.suspended {
		s += " suspended"
	}
	if m.ended {
		s += " ended"
	}
	return s + ")\n"
}

func tell(ev Event) string {
	switch ev := ev.(type) {
	case Joined:
		return "joined"
	case Suspended:
		return "suspended"
	case Resumed:
		return "resumed"
	case Gone:
		return "gone: " + ev.Err.Error()
	case Left:
		if ev.Err == nil {
			return "left"
		}
		return "left: " + ev.Err.Error()
	}
	return "?"
}

func parseInput(m Machine, d *datadriven.TestData) (Input, error) {
	val, word := map[string]int64{}, ""
	s := Sight{Past: d.HasArg("past")}
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 {
			word = arg.Key
			continue
		}
		if arg.Key == "data" {
			s.Data = arg.Vals[0]
			continue
		}
		n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
		if err != nil {
			return nil, err
		}
		val[arg.Key] = n
	}
	s.Owner, s.Czxid, s.Version = val["owner"], val["czxid"], int32(val["version"])
	s.Exists = s.Czxid != 0
	switch d.Cmd {
	case "leave":
		return Leave{}, nil
	case "update":
		return Update{s.Data, actors.Reply[error]{}}, nil
	case "connected":
		return heard{session.Connected{Epoch: int(val["epoch"]), ID: val["session"], Timeout: 10 * time.Second}}, nil
	case "suspended":
		return heard{session.Suspended{}}, nil
	case "resumed":
		return heard{session.Resumed{}}, nil
	case "expired":
		return heard{session.Expired{Epoch: m.request.epoch}}, nil
	case "closed":
		return heard{session.Closed{}}, nil
	case "saw":
		return saw{m.request.epoch, s}, nil
	case "looked":
		return looked{m.request, s}, nil
	case "created":
		return created{m.request, s.Czxid, birth}, nil
	case "stored":
		return stored{m.request, s.ghost(), s.Version}, nil
	case "done":
		return done{m.request, word == "other"}, nil
	case "patient":
		return patient{m.waits}, nil
	case "failed":
		err := map[string]error{
			"no-node": session.ErrNoNode, "node-exists": session.ErrNodeExists, "bad-version": session.ErrBadVersion, "no-auth": session.ErrNoAuth,
			"unknown": errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), "disconnected": session.ErrDisconnected, "expired": session.ErrExpired,
		}[word]
		if err == nil {
			return nil, errors.New("failed for what?")
		}
		return failed{m.request, err}, nil
	}
	return nil, fmt.Errorf("unknown input %s", d.Cmd)
}
