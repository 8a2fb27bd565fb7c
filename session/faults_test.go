package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// outcomes says what becomes of every request under every fault, and how many requests
// the server has received. A question mark stands for [session.ErrUnknownOutcome]. The
// session looks whether the node is there before it withdraws it a second time.
const outcomes = `
            |none|queued|unwritten|cut    |late|malformed|refused  |ended, queued|ended, sent|ended, late|expired, queued|expired, sent|closed, queued|closed, sent
write       |ok 1|ok 1  |?lost 0  |?lost 1|ok 1|?lost 1  |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |?lost 1      |closed 0      |?closed 1
write, async|ok 1|ok 1  |?lost 0  |?lost 1|ok 1|?lost 1  |refused 1|             |           |           |expired 0      |?lost 1      |closed 0      |?closed 1
create, e.  |ok 1|ok 1  |lost 0   |ok 1   |ok 1|ok 1     |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |expired 1    |closed 0      |closed 1
create, s.  |ok 1|ok 1  |ok 1     |ok 1   |ok 1|ok 1     |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |ok 1         |closed 0      |?closed 1
create, e.s.|ok 1|ok 1  |ok 1     |ok 1   |ok 1|ok 1     |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |expired 1    |closed 0      |closed 1
ensure      |ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|ended 0      |?ended 1   |?ended 1   |ok 1           |ok 2         |closed 0      |?closed 1
ensure,async|ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|             |           |           |expired 0      |?expired 1   |closed 0      |?closed 1
read        |ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|ended 0      |ended 1    |ended 1    |ok 1           |ok 2         |closed 0      |closed 1
read, async |ok 1|ok 1  |lost 0   |lost 1 |ok 1|lost 1   |refused 1|             |           |           |expired 0      |lost 1       |closed 0      |closed 1
watch       |ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|             |           |           |expired 0      |expired 1    |closed 0      |closed 1
withdraw    |ok 1|ok 1  |ok 1     |ok 1   |ok 1|ok 1     |ok 2     |             |           |           |ok 0           |ok 1         |ok 0          |ok 1
withdraw all|ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |ok 2     |             |           |           |ok 0           |ok 1         |ok 0          |ok 1
`

// A faultCase is a request that meets a fault.
type faultCase struct {
	srv *zktest.Server
	s   *session.Session
	end context.CancelFunc // of the context of the request
}

// A fault is what happens to one request.
type fault struct {
	before func(faultCase) // it is made
	strike strike
	after  func(faultCase) // it has gone as far as it can
}

// sever ends the connection, and keeps the session from making another.
func (c faultCase) sever() {
	c.srv.Refuse(true)
	c.srv.Disconnect(0)
	synctest.Wait()
}

func (c faultCase) heal()   { c.srv.Refuse(false) }
func (c faultCase) expire() { c.srv.Expire(c.s.ID()) }
func (c faultCase) close()  { c.s.Close() }

var held = strike{reply: hold(time.Hour)}

// faults are the columns of [outcomes], in all their forms.
var faults = map[string][]fault{
	"none":      {{}},
	"queued":    {{before: faultCase.sever, after: faultCase.heal}},
	"unwritten": {{strike: strike{request: func([]byte) ([]byte, error) { return nil, errCut }}}},
	"cut":       {{strike: strike{reply: func(*tapped, []byte) ([]byte, error) { return nil, errCut }}}},
	"late":      {{strike: strike{reply: hold(2 * time.Second)}}},
	"malformed": {
		{strike: forge(func(frame []byte) []byte { return frame[:replyHeader-1] })},
		{strike: forge(func(frame []byte) []byte { return append(frame, 0) })},
		{strike: forge(func(frame []byte) []byte { return withInt32(frame, 0, 1<<30) })}, // nobody's xid
	},
	"refused": {{strike: strike{request: harmless, reply: forge(func(frame []byte) []byte {
		const noAuth = -102
		return withInt32(frame, 12, noAuth)[:replyHeader]
	}).reply}}},
	"ended, queued": {{before: faultCase.sever, after: func(c faultCase) {
		c.end()
		synctest.Wait()
		c.heal()
	}}},
	"ended, sent": {{strike: held, after: func(c faultCase) { c.end() }}},
	"ended, late": {{strike: strike{reply: hold(2 * time.Second)}, after: func(c faultCase) { c.end() }}},
	"expired, queued": {{before: faultCase.sever, after: func(c faultCase) {
		pass(time.Minute)
		c.heal()
	}}},
	"expired, sent":  {{strike: held, after: faultCase.expire}},
	"closed, queued": {{before: faultCase.sever, after: faultCase.close}},
	"closed, sent":   {{strike: held, after: faultCase.close}},
}

func TestFaults(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(outcomes), "\n")
	columns, rows := cells(lines[0]), make(map[string][]string)
	for _, line := range lines[1:] {
		row := cells(line)
		rows[row[0]] = row
	}
	for _, v := range verbs() {
		for i, want := range rows[v.class] {
			if i == 0 || want == "" {
				continue
			}
			for n, f := range faults[columns[i]] {
				t.Run(fmt.Sprintf("%s/%s/%d", v.name, columns[i], n), func(t *testing.T) { v.meets(t, f, columns[i], want) })
			}
		}
	}
}

func cells(line string) []string {
	row := strings.Split(line, "|")
	for i, cell := range row {
		row[i] = strings.TrimSpace(cell)
	}
	return row
}

// meets makes the request in a session that is otherwise sound.
func (v verb) meets(t *testing.T, f fault, column, want string) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		plant(t, srv)
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := faultCase{srv, s, cancel}
		if f.before != nil {
			f.before(c)
		}
		tp.strikeWith(f.strike)
		var answers []error
		answered := make(chan struct{}, 2)
		v.start(ctx, s, func(err error) {
			answers = append(answers, err)
			answered <- struct{}{}
		})
		synctest.Wait()
		if f.after != nil {
			f.after(c)
		}
		select {
		case <-answered:
		case <-time.After(patience):
			t.Fatal("no answer in", patience)
		}
		pass(time.Minute) // for what follows from it
		c.heal()
		reached := tp.arrived()
		if got := fmt.Sprint(outcome(answers[0]), " ", reached); got != want || len(answers) > 1 {
			t.Errorf("%s, want %s: %v", got, want, answers)
		}
		if made, known := v.leaves(column, want); known {
			other := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
			defer other.Close()
			if names, _, err := other.Children(t.Context(), target); err != nil || len(names) != 1+made {
				t.Errorf("there are %q below the target, %v: want %d beside the child", names, err, made)
			}
		}
		if err := exists(t, s); err != nil && s.State() != (session.Closed{}) {
			t.Errorf("and the next request: %v", err)
		}
	})
}

// leaves returns how many nodes there are beside the child, if that is determined.
func (v verb) leaves(column, outcome string) (nodes int, known bool) {
	word, reached, _ := strings.Cut(outcome, " ")
	settles := strings.HasPrefix(v.class, "create") // what is in doubt, and not wanted any more, is removed
	switch {
	case v.class == "withdraw" && !strings.HasPrefix(column, "expired") && !strings.HasPrefix(column, "closed"):
		return -1, true // the child is gone
	case !v.isCreate():
		return 0, false
	case word == "ok":
		return 1, true
	case reached == "0", settles && slices.Contains([]string{"?ended", "expired", "closed"}, word):
		return 0, true
	}
	return 0, false
}
