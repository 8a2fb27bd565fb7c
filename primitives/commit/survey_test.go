package commit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// survey runs a survey to its end.
func (q *queried) survey(t *testing.T, ballots bool) (v *survey, err error) {
	t.Helper()
	v, ended := &survey{session: q, parent: "/tx", ballots: ballots}, 0
	v.begin(func(why error) { err = why; ended++ })
	for len(q.open) > 0 {
		next := q.open[0]
		q.open = q.open[1:]
		next()
	}
	if ended != 1 {
		t.Errorf("it ends %d times", ended)
	}
	return v, err
}

// TestSurveyIsBounded: of many transactions, with their payloads, few are read at once, and all of
// them in the end.
func TestSurveyIsBounded(t *testing.T) {
	const many = 1000
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("t%04d", i)
	}
	reads := 0
	q := &queried{answer: func(what string) ([]string, []byte, error) {
		switch {
		case what == "list /tx":
			return names, nil, nil
		case strings.HasPrefix(what, "read "):
			if reads++; reads%7 == 0 {
				return nil, nil, session.ErrDisconnected // it is read again
			}
			return nil, (&record{GUID: "g", Sites: []string{"a"}}).Bytes(), nil
		case strings.HasSuffix(what, "/g"):
			return []string{"s-a"}, nil, nil
		}
		return nil, nil, nil
	}}
	v, err := q.survey(t, true)
	if err != nil || len(v.records) != many || len(v.shown) != many || !slices.IsSortedFunc(v.shown, func(a, b Status) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("%v: %d records, and %d shown", err, len(v.records), len(v.shown))
	}
	if q.most > mostAtOnce {
		t.Errorf("%d requests at once", q.most)
	}
}

// TestSurveyLeavesOut: a survey leaves out nodes that vanish meanwhile, may not be read, or are not
// transactions. An error that does not pass ends it.
func TestSurveyLeavesOut(t *testing.T) {
	answers := func(what string) ([]string, []byte, error) {
		switch what {
		case "list /tx":
			return []string{"foreign", "_sites", "gone", "closed", "here", "empty", "removed"}, nil, nil
		case "list /tx/_sites":
			return []string{"a", "c"}, nil, nil
		case "read /tx/foreign":
			return nil, []byte("data"), nil
		case "read /tx/gone":
			return nil, nil, session.ErrNoNode
		case "read /tx/closed":
			return nil, nil, session.ErrNoAuth
		case "read /tx/here", "read /tx/empty", "read /tx/removed":
			return nil, (&record{GUID: "g", Sites: []string{"a", "b", "c", "d"}}).Bytes(), nil
		case "list /tx/here/g":
			return []string{"Y-a", "N-b", "Y-c", "c-x"}, nil, nil
		case "list /tx/empty/g":
			return nil, nil, session.ErrNoAuth
		case "list /tx/removed/g":
			return nil, nil, session.ErrNoNode
		case "read /tx/here/g/Y-a":
			return nil, []byte("because"), nil
		case "read /tx/here/g/N-b":
			return nil, nil, session.ErrNoNode
		case "read /tx/here/g/Y-c":
			return nil, nil, session.ErrNoAuth
		}
		return nil, nil, nil
	}
	v, err := (&queried{answer: answers}).survey(t, true)
	if err != nil || len(v.records) != 3 || len(v.shown) != 1 {
		t.Fatalf("%v: %v, and %v shown", err, v.records, v.shown)
	}
	if got, want := fmt.Sprintf("%v %+v", v.shown, v.shown[0].Sites), "[here coordinated undecided: a=yes b=finished c=yes d=finished] "+
		"[{Site:a Vote:yes Data:[98 101 99 97 117 115 101] Finished:false Present:true} {Site:b Vote:no Data:[] Finished:true Present:false} "+
		"{Site:c Vote:yes Data:[] Finished:false Present:true} {Site:d Vote:none Data:[] Finished:true Present:false}]"; got != want {
		t.Errorf("shown are %s, want %s", got, want)
	}
	if _, err := (&queried{answer: answers}).survey(t, false); err != nil {
		t.Error(err)
	}

	for _, at := range []string{"list /tx", "list /tx/_sites", "read /tx/here", "read /tx/here/g/Y-a"} {
		q := &queried{answer: func(what string) ([]string, []byte, error) {
			if what == at {
				return nil, nil, session.ErrClosed
			}
			return answers(what)
		}}
		_, err := q.survey(t, true)
		if !errors.Is(err, session.ErrClosed) {
			t.Errorf("%s: %v", at, err)
		}
	}
}
