package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// A picky codec does not like question marks.
type picky struct{}

func (picky) Encode(value string) ([]byte, error) { return []byte(value), nil }

func (picky) Decode(data []byte) (string, error) {
	if string(data) == "?" {
		return "", errors.New("a question")
	}
	return string(data), nil
}

// TestTranscripts plays the stories in testdata. The inputs are written by hand, the rest
// by go test -rewrite. An answer is to the question that is open, unless it says otherwise.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		m := newMachine[string](picky{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			in := parseInput(t, m, d)
			var out effects
			m, out = m.after(in)
			s := m.String() + "\n"
			for _, line := range lines(out) {
				if !strings.HasPrefix(line, "* ") {
					line = "  " + line
				}
				s += line + "\n"
			}
			return s
		})
	})
}

var errorsByName = map[string]error{
	"no-node": session.ErrNoNode, "node-exists": session.ErrNodeExists, "bad-version": session.ErrBadVersion, "no-auth": session.ErrNoAuth,
	"expired": session.ErrExpired, "closed": session.ErrClosed, "disconnected": session.ErrDisconnected, "lost": errLost, "lost-for-ever": errLostForEver,
}

func parseInput(t *testing.T, m machine[string], d *datadriven.TestData) input {
	t.Helper()
	at := m.asked
	var err error
	word, data := map[string]bool{}, ""
	val := map[string]int64{}
	for _, arg := range d.CmdArgs {
		switch known := errorsByName[arg.Key]; {
		case known != nil:
			err = known
		case arg.Key == "data":
			data = arg.Vals[0]
			if data == "priority" { // words cannot have a blank
				data = nodes.PriorityMark
			}
		case len(arg.Vals) == 0:
			word[arg.Key] = true
		default:
			var n int64
			if _, scanErr := fmt.Sscan(arg.Vals[0], &n); scanErr != nil {
				d.Fatalf(t, "%v", scanErr)
			}
			val[arg.Key] = n
		}
	}
	if n, has := val["epoch"]; has {
		at.epoch = int(n)
	}
	version := int32(val["version"])
	switch d.Cmd {
	case "leave":
		return leave{}
	case "connected":
		return heard{session.Connected{Epoch: at.epoch}}
	case "suspended":
		return heard{session.Suspended{}}
	case "resumed":
		return heard{session.Resumed{}}
	case "expired":
		return heard{session.Expired{Epoch: at.epoch}}
	case "closed":
		return heard{session.Closed{}}
	case "read":
		if word["absent"] {
			return nothing(val["zxid"])
		}
		return reading(val["zxid"], val["czxid"], val["mzxid"], version, data)
	case "unfollowed":
		return unfollowed{err}
	case "set":
		return submit{write{always: true, version: session.AnyVersion}}
	case "update":
		return submit{write{version: version, create: word["absent"]}}
	case "forget":
		return forget{}
	case "marked":
		return answered{at, marking, err}
	case "wrote":
		return answered{at, writing, err}
	case "ensured":
		return answered{at, ensuring, err}
	case "withdrawn":
		return withdrawn{}
	}
	d.Fatalf(t, "an unknown input")
	return nil
}
