package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// outcomes says what becomes of every request under every fault, and how many requests
// the server has received. A question mark stands for [session.ErrUnknownOutcome]. The
// session looks whether the node is there before it withdraws it a second time.
const outcomes = `
            |none|queued|unwritten|cut    |late|malformed|refused  |ended, queued|ended, sent|ended, late|expired, queued|expired, sent|closed, queued|closed, sent
write       |ok 1|ok 1  |?lost 0  |?lost 1|ok 1|?lost 1  |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |?lost 1      |closed 0      |?closed 1
write, async|ok 1|ok 1  |?lost 0  |?lost 1|ok 1|?lost 1  |refused 1|             |           |           |lost 0         |?lost 1      |closed 0      |?closed 1
create, e.  |ok 1|ok 1  |lost 0   |ok 1   |ok 1|ok 1     |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |expired 1    |closed 0      |closed 1
create, s.  |ok 1|ok 1  |ok 1     |ok 1   |ok 1|ok 1     |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |ok 1         |closed 0      |?closed 1
create, e.s.|ok 1|ok 1  |ok 1     |ok 1   |ok 1|ok 1     |refused 1|ended 0      |?ended 1   |?ended 1   |expired 0      |expired 1    |closed 0      |closed 1
ensure      |ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|ended 0      |?ended 1   |?ended 1   |ok 1           |ok 2         |closed 0      |?closed 1
ensure,async|ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|             |           |           |expired 0      |?expired 1   |closed 0      |?closed 1
read        |ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|ended 0      |ended 1    |ended 1    |ok 1           |ok 2         |closed 0      |closed 1
read, async |ok 1|ok 1  |lost 0   |lost 1 |ok 1|lost 1   |refused 1|             |           |           |lost 0         |lost 1       |closed 0      |closed 1
watch       |ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |refused 1|             |           |           |expired 0      |expired 1    |closed 0      |closed 1
withdraw    |ok 1|ok 1  |ok 1     |ok 1   |ok 1|ok 1     |ok 2     |             |           |           |ok 0           |ok 1         |ok 0          |ok 1
withdraw all|ok 1|ok 1  |ok 1     |ok 2   |ok 1|ok 2     |ok 2     |             |           |           |ok 0           |ok 1         |ok 0          |ok 1
`

// readOnlyOutcomes says the same of a session that is connected to a read-only server.
const readOnlyOutcomes = `
     |none       |queued     |unwritten  |cut        |late       |malformed  |refused    |ended, queued|ended, sent|ended, late|expired, sent|closed, queued|closed, sent
read |ok 1       |ok 1       |ok 1       |ok 2       |ok 1       |ok 2       |refused 1  |ended 0      |ended 1    |ended 1    |ok 2         |closed 0      |closed 1
write|read-only 0|read-only 0|read-only 0|read-only 0|read-only 0|read-only 0|read-only 0|ended 0      |read-only 0|read-only 0|read-only 0  |closed 0      |read-only 0
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

func TestFaults(t *testing.T) { verbsMeetFaults(t, outcomes, false) }

func TestFaultsOfReadOnlyServers(t *testing.T) { verbsMeetFaults(t, readOnlyOutcomes, true) }

func verbsMeetFaults(t *testing.T, outcomes string, readOnly bool) {
	columns, rows := table(outcomes)
	chosen := hasten.OneIn(2, 5)
	for _, v := range verbs() {
		class := v.class
		if readOnly && v.name == "Sync" {
			class = "write" // it needs a leader
		}
		for i, want := range rows[class] {
			if i == 0 || want == "" {
				continue
			}
			for n, f := range faults[columns[i]] {
				if !chosen() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", v.name, columns[i], n), func(t *testing.T) { v.meets(t, f, columns[i], want, readOnly) })
			}
		}
	}
}

// table returns the columns of a table, and its rows by their first cells.
func table(text string) (columns []string, rows map[string][]string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	rows = make(map[string][]string)
	for _, line := range lines[1:] {
		row := cells(line)
		rows[row[0]] = row
	}
	return cells(lines[0]), rows
}

func cells(line string) []string {
	row := strings.Split(line, "|")
	for i, cell := range row {
		row[i] = strings.TrimSpace(cell)
	}
	return row
}

// meets makes the request in a session that is otherwise sound.
func (v verb) meets(t *testing.T, f fault, column, want string, ofReadOnly bool) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		plant(t, srv)
		opts.ReadOnly = ofReadOnly
		s := mustOpen(t, srv.Addrs(), opts)
		if ofReadOnly {
			f.strike.greeting = readOnly
			tp.strikeWith(strike{greeting: readOnly})
			srv.Disconnect(0)
			if err := exists(t, s); err != nil || !s.ReadOnly() {
				t.Fatalf("not read-only: %v", err)
			}
		}
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
			if names, _, err := other.Children(t.Context(), target); err != nil || len(names) != 1+made {
				t.Errorf("there are %q below the target, %v: want %d beside the child", names, err, made)
			}
		}
		if err := exists(t, s); err != nil && s.State() != (session.Closed{}) {
			t.Errorf("and the next request: %v", err)
		}
	})
}

// ownOutcomes says what becomes of a session one of whose own requests meets a fault: how many
// connections it makes from then on.
const ownOutcomes = `
               |none|unwritten|cut|late|malformed|refused
first sync     |1   |2        |2  |1   |2        |2
credentials    |1   |2        |2  |1   |2        |2
watches        |1   |2        |2  |1   |2        |2
heartbeat      |0   |1        |1  |0   |1        |0
transaction    |0   |1        |1  |0   |1        |0
end of a watch |0   |1        |1  |0   |1        |0
`

// TestFaultsOfOwnRequests: whatever becomes of a request of the session's own, the session lives
// on, with its watches and ephemeral nodes.
func TestFaultsOfOwnRequests(t *testing.T) {
	columns, rows := table(ownOutcomes)
	for _, own := range []struct {
		name string
		op   int32
		make func(srv *zktest.Server, s *session.Session, large *session.Subscription)
	}{
		{"first sync", opSync, func(srv *zktest.Server, s *session.Session, _ *session.Subscription) {
			srv.Disconnect(0)
			synctest.Wait()                                                                  // until it is noticed
			s.Async(1).Set("/large", nil, session.AnyVersion, func(*session.Stat, error) {}) // waits for it
		}},
		{"credentials", opAuth, reconnect},
		{"watches", opSetWatches, reconnect},
		{"heartbeat", opSync, nil},
		{"transaction", opMulti, func(_ *zktest.Server, s *session.Session, _ *session.Subscription) { s.Rely() }},
		{"end of a watch", opRemoveWatches, func(_ *zktest.Server, _ *session.Session, large *session.Subscription) { large.Cancel() }},
	} {
		for i, want := range rows[own.name] {
			if i == 0 {
				continue
			}
			for n, f := range faults[columns[i]] {
				t.Run(fmt.Sprintf("%s/%s/%d", own.name, columns[i], n), func(t *testing.T) {
					tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
						plant(t, srv)
						other := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
						ctx := t.Context()
						check.Have(other.Create(ctx, "/large", make([]byte, 8<<10), session.Persistent))(t)
						opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
						opts.Lease = session.LeaseCommitted // it asks for nothing else
						s := mustOpen(t, srv.Addrs(), opts)
						check.Have(s.Create(ctx, "/me", nil, session.Ephemeral))(t)
						var told []string
						s.Async(1).Follow(target, session.AspectData, true, func(r session.Reading, err error) {
							if n := len(told); err != nil || n == 0 || told[n-1] != string(r.Data) { // a reconnect reads again
								told = append(told, string(r.Data)+errorOf(err))
							}
						})
						large := s.Async(1).Follow("/large", session.AspectData, true, func(session.Reading, error) {})
						synctest.Wait()
						id := s.ID()
						strike := f.strike
						strike.own = own.op
						tp.strikeWith(strike)
						before := tp.connections()
						if own.make != nil {
							own.make(srv, s, large)
						}
						pass(time.Minute)
						check.Equal(t, fmt.Sprint(tp.connections()-before), want, "connections")
						check.Have(other.Set(ctx, target, []byte("new"), session.AnyVersion))(t)
						if stat, err := s.Exists(ctx, "/me"); err != nil || stat == nil || s.ID() != id {
							t.Errorf("the session has not lived on: %v, %v, %#x was %#x", stat, err, s.ID(), id)
						}
						synctest.Wait()
						check.Equal(t, fmt.Sprintf("%q", told), `["" "new"]`, "the watch has told")
					})
				})
			}
		}
	}
}

func reconnect(srv *zktest.Server, _ *session.Session, _ *session.Subscription) { srv.Disconnect(0) }

func errorOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
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
