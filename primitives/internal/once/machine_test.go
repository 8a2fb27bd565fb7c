package once

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

var (
	errLost        = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)
	errLostForEver = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired)
	errLostClosed  = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed)
)

type effects = actors.Effects[Effect, procedure.None]

// after plays inputs, and returns the effects of the last one.
func (w Write) after(ins ...Input) (Write, effects) {
	var out effects
	for _, in := range ins {
		out = effects{}
		w = w.Step(in, &out)
	}
	return w, out
}

// show is canonical: writes that are shown alike, and have the same constants, do the same.
func show(w Write) string {
	s := fmt.Sprintf("%v(#%d marker=%d", w.stage, w.n, w.marker.Version)
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"no node", w.marker.Node == ""},
		{"bare", w.bare},
		{"doubt", w.doubt != nil},
		{"lost with its session", errors.Is(w.doubt, session.ErrExpired)},
		{"refused", w.refusal.Err != nil},
		{"lost twice", w.lost > 1},
		{"lost", w.lost == 1},
		{"answered", w.answered},
		{"ended", w.ended},
	} {
		if flag.set {
			s += ", " + flag.name
		}
	}
	return s + ")"
}

func describe(out effects) string {
	var all []string
	for _, e := range out.Do {
		switch e := e.(type) {
		case Make:
			all = append(all, "make "+e.Node)
		case Ensure:
			all = append(all, "ensure")
		case Send:
			all = append(all, fmt.Sprintf("send #%d %s=%d", e.N, e.Marker.Node, e.Marker.Version))
		case Look:
			all = append(all, "look "+e.Marker.Node)
		case Void:
			all = append(all, fmt.Sprintf("void %s=%d", e.Marker.Node, e.Marker.Version))
		case PutAway:
			what := "keep"
			if e.Doubt {
				what = "discard"
			}
			all = append(all, fmt.Sprintf("%s %s=%d", what, e.Marker.Node, e.Marker.Version))
		case Answer:
			all = append(all, fmt.Sprintf("answer %d %v", len(e.Results), e.Err))
		}
	}
	return strings.Join(all, "; ")
}

// refused is the answer to a transaction whose operation at the index is refused: 0 is the
// marker's.
func refused(at int, err error) Sent {
	results := make([]session.OpResult, 3)
	results[at].Err = err
	return Sent{results, err}
}

func TestRows(t *testing.T) {
	m := Marker{Node: "/m", Version: 3, Made: 1}
	begun := []Input{Granted{Marker: m, N: 7}}
	plus := func(before []Input, more ...Input) []Input { return slices.Concat(before, more) }
	lost := plus(begun, Sent{Err: errLost})
	expired := plus(begun, Sent{Err: errLostForEver}) // of any epoch
	again := plus(lost, Looked{Exists: true, Version: 3, N: 6})
	voids := plus(again, refused(1, session.ErrNodeExists))
	foreign := plus(begun, refused(0, session.ErrBadVersion))
	unmade := []Input{Granted{N: 7}}
	few := Write{Tries: 2}
	bare := plus(unmade, Made{Marker{Node: "/new"}, session.ErrNoAuth})
	done := Sent{Results: make([]session.OpResult, 3)}
	unknown := "answer 0 " + session.ErrUnknownOutcome.Error() + ": "
	for _, row := range []struct {
		danger string
		write  Write
		before []Input
		in     Input
		want   string
	}{
		{"there is a marker", Write{}, nil, Granted{Marker: m, N: 7}, "send #7 /m=3"},
		{"there is none", Write{}, nil, Granted{N: 7}, "make "},
		{"there will be none", Write{}, nil, Granted{Err: errors.New("closed")}, "answer 0 closed"},
		{"sent once it stands", Write{}, unmade, Made{Marker: Marker{Node: "/new"}}, "send #7 /new=0"},
		{"made by an attempt whose reply was lost", Write{}, unmade, Made{Marker{Node: "/new"}, session.ErrNodeExists}, "send #7 /new=0"},
		{"which has its name", Write{}, unmade, Made{Marker{Node: "/new"}, errLost}, "make /new"},
		{"there is no directory", Write{}, unmade, Made{Marker{Node: "/new"}, session.ErrNoNode}, "ensure"},
		{"there is now", Write{}, plus(unmade, Made{Marker{Node: "/new"}, session.ErrNoNode}), Ensured{}, "make /new"},
		{"it cannot be made", Write{}, plus(unmade, Made{Marker{Node: "/new"}, session.ErrNoNode}), Ensured{session.ErrNoAuth}, "discard /new=0; answer 0 not authorized"},
		{"nor can the marker", Write{}, unmade, Made{Marker{Node: "/new"}, session.ErrSessionFull}, "discard /new=0; answer 0 " + session.ErrSessionFull.Error()},
		{"the session ends while it is made: not sent", Write{Epoch: 1}, unmade, Made{Marker{Node: "/new"}, errLostForEver}, "discard /new=0; answer 0 marker: session expired"},
		{"or is closed", Write{}, unmade, Made{Marker{Node: "/new"}, errLostClosed}, "discard /new=0; answer 0 marker: session closed"},
		{"the next will do as well", Write{}, unmade, Made{Marker{Node: "/new"}, errLostForEver}, "make /new"},
		{"done", Write{}, begun, done, "keep /m=4; answer 2 <nil>"},
		{"refused", Write{}, begun, refused(2, session.ErrNoNode), "keep /m=3; answer 2 no such node"},
		{"busy: it may have been done", Write{}, begun, Sent{Err: session.ErrBusy}, "look /m"},
		{"never sent", Write{}, begun, Sent{Err: session.ErrDisconnected}, "send #7 /m=3"},
		{"never sent in its session", Write{Epoch: 1}, begun, Sent{Err: session.ErrExpired}, "discard /m=3; answer 0 session expired"},
		{"in the next session, with another marker", Write{}, begun, Sent{Err: session.ErrExpired}, "make "},
		{"closed before it was sent", Write{}, begun, Sent{Err: session.ErrClosed}, "discard /m=3; answer 0 session closed"},
		{"the marker is gone, nothing in doubt", Write{}, begun, refused(0, session.ErrNoNode), "make "},
		{"the marker may not be written to", Write{}, begun, refused(0, session.ErrNoAuth), "discard /m=3; answer 0 not authorized"},
		{"another client has written to it", Write{}, begun, refused(0, session.ErrBadVersion), "look /m"},
		{"nothing is in doubt: it goes on", Write{}, foreign, Looked{Exists: true, Version: 5}, "send #7 /m=5"},
		{"also if it was deleted since", Write{}, foreign, Looked{}, "make "},
		{"a reply that is lost is no answer", Write{}, begun, Sent{Err: errLost}, "look /m"},
		{"do not do twice what was done", Write{}, lost, Looked{Exists: true, N: 7, Version: 4}, "keep /m=4; answer 0 <nil>"},
		{"do again what was not", Write{}, lost, Looked{Exists: true, N: 6, Version: 3}, "send #7 /m=3"},
		{"a marker that is gone proves nothing", Write{}, lost, Looked{}, "keep =0; " + unknown + ErrMarker.Error()},
		{"nor one that another client has written to", Write{}, lost, Looked{Exists: true, N: 6, Version: 4}, "keep /m=4; " + unknown + ErrMarker.Error()},
		{"nor one of older data", Write{}, expired, Looked{Exists: true, N: 5, Version: 2}, "keep /m=2; " + unknown + ErrMarker.Error()},
		{"look again when the answer is lost", Write{}, lost, Looked{Err: session.ErrDisconnected}, "look /m"},
		{"or the server is busy", Write{}, lost, Looked{Err: session.ErrBusy}, "look /m"},
		{"nobody may look", Write{}, lost, Looked{Err: session.ErrNoAuth}, "discard /m=3; " + unknown + "not authorized"},
		{"nobody can know", Write{Epoch: 1}, begun, Sent{Err: errLostForEver}, "discard /m=3; " + unknown + "session expired"},
		{"its session ended while we looked", Write{Epoch: 1}, lost, Looked{Err: session.ErrExpired}, "discard /m=3; " + unknown + "session expired"},
		{"the marker may be there in the next", Write{}, lost, Looked{Err: session.ErrExpired}, "look /m"},
		{"one that was thought lost has come", Write{}, again, refused(0, session.ErrBadVersion), "look /m"},
		{"and somebody deleted the marker", Write{}, again, refused(0, session.ErrNoNode), "look /m"},
		{"in doubt, and the second was never sent", Write{}, again, Sent{Err: session.ErrDisconnected}, "look /m"},
		{"in doubt, and its session ends", Write{Epoch: 1}, again, Sent{Err: session.ErrExpired}, "discard /m=3; " + unknown + "session expired"},
		{"refused, while another may come", Write{}, again, refused(1, session.ErrNodeExists), "void /m=3"},
		{"none can", Write{}, voids, Voided{}, "keep =0; answer 2 node exists"},
		{"one has", Write{}, voids, Voided{session.ErrBadVersion}, "look /m"},
		{"of an earlier voiding", Write{}, voids, Voided{session.ErrNoNode}, "keep =0; answer 2 node exists"},
		{"whose answer was lost", Write{}, voids, Voided{errLost}, "void /m=3"},
		{"it cannot be voided", Write{}, voids, Voided{session.ErrNoAuth}, "discard /m=3; " + unknown + "not authorized"},
		{"the session of the first ends before it is voided", Write{}, plus(voids, Voided{session.ErrExpired}), Voided{session.ErrNoNode}, "discard /m=3; " + unknown + "no such node"},
		{"or before it is looked at", Write{}, plus(lost, Looked{Err: session.ErrExpired}, Looked{Exists: true, Version: 3}, refused(1, session.ErrNodeExists)), Voided{session.ErrNoNode}, "discard /m=3; " + unknown + "no such node"},
		{"no marker may be made", Write{Bares: true}, unmade, Made{Marker{Node: "/new"}, session.ErrNoAuth}, "send #7 =0"},
		{"nor its directory", Write{Bares: true}, plus(unmade, Made{Marker{Node: "/new"}, session.ErrNoNode}), Ensured{session.ErrNoAuth}, "send #7 =0"},
		{"as others have found", Write{Bares: true}, nil, Granted{N: 7, Bare: true}, "send #7 =0"},
		{"done without", Write{Bares: true}, bare, done, "keep =0; answer 2 <nil>"},
		{"refused without", Write{Bares: true}, bare, refused(1, session.ErrNoNode), "keep =0; answer 2 no such node"},
		{"lost without", Write{Bares: true}, bare, Sent{Err: errLost}, "keep =0; answer 0 " + errLost.Error()},
		{"busy without", Write{Bares: true}, bare, Sent{Err: session.ErrBusy}, "keep =0; " + unknown + session.ErrBusy.Error()},
		{"never sent without", Write{Bares: true}, bare, Sent{Err: session.ErrDisconnected}, "send #7 =0"},
		{"nobody waits without", Write{Bares: true}, plus(bare, Abandoned{}), done, "keep =0"},
		{"lost, and may be lost twice", few, lost, Looked{Exists: true, Version: 3}, "send #7 /m=3"},
		{"lost twice, and not done so far", few, plus(again, Sent{Err: errLost}), Looked{Exists: true, Version: 3}, "void /m=3"},
		{"lost twice, and done", few, plus(again, Sent{Err: errLost}), Looked{Exists: true, N: 7, Version: 4}, "keep /m=4; answer 0 <nil>"},
		{"it cannot be done any more", few, plus(again, Sent{Err: errLost}, Looked{Exists: true, Version: 3}), Voided{}, "keep =0; answer 0 " + ErrLost.Error()},
		{"it was, late", few, plus(again, Sent{Err: errLost}, Looked{Exists: true, Version: 3}), Voided{session.ErrBadVersion}, "look /m"},
		{"a busy server loses nothing", few, plus(again, Sent{Err: session.ErrBusy}), Looked{Exists: true, Version: 3}, "send #7 /m=3"},
		{"nor does a network that sends nothing", few, plus(again, Sent{Err: session.ErrDisconnected}), Looked{Exists: true, Version: 3}, "send #7 /m=3"},
		{"nor the end of a session", few, plus(expired, Looked{Exists: true, Version: 3}, Sent{Err: errLost}), Looked{Exists: true, Version: 3}, "send #7 /m=3"},
		{"any number may be lost", Write{}, plus(again, Sent{Err: errLost}), Looked{Exists: true, Version: 3}, "send #7 /m=3"},
		{"nobody waits: not sent", Write{}, unmade, Abandoned{}, "answer 0 abandoned"},
		{"nothing more is sent", Write{}, plus(unmade, Abandoned{}), Made{Marker: Marker{Node: "/new"}}, "keep /new=0"},
		{"nobody waits: on its way", Write{}, begun, Abandoned{}, unknown + "abandoned"},
		{"it arrives", Write{}, plus(begun, Abandoned{}), done, "keep /m=4"},
		{"or may yet", Write{}, plus(begun, Abandoned{}), Sent{Err: errLost}, "discard /m=3"},
		{"nobody waits: in doubt", Write{}, lost, Abandoned{}, unknown + "abandoned"},
		{"a late one is excluded", Write{}, plus(lost, Abandoned{}), Looked{Exists: true, Version: 3}, "discard /m=3"},
		{"nobody waits: a foreign write", Write{}, foreign, Abandoned{}, "answer 0 abandoned"},
		{"only a marker is wanted", Write{Marks: true}, nil, Granted{Marker: m}, "keep /m=3; answer 0 <nil>"},
		{"which is made", Write{Marks: true}, unmade, Made{Marker: Marker{Node: "/new"}}, "keep /new=0; answer 0 <nil>"},
		{"an older one is wanted", Write{Before: 2}, nil, Granted{Marker: m, N: 7}, "send #7 /m=3"},
		{"it is as old", Write{Before: 1}, nil, Granted{Marker: m, N: 7}, "keep /m=3; answer 0 " + ErrYounger.Error()},
		{"made now", Write{Before: 2}, unmade, Made{Marker: Marker{Node: "/new", Made: 2}}, "keep /new=0; answer 0 " + ErrYounger.Error()},
		{"made anew", Write{Before: 2}, plus(begun, refused(0, session.ErrNoNode)), Made{Marker: Marker{Node: "/new", Made: 2}}, "keep /new=0; answer 0 " + ErrYounger.Error()},
	} {
		w, _ := row.write.after(row.before...)
		next, out := w.after(row.in)
		check.Equal(t, describe(out), row.want, row.danger+":", show(w), "->", show(next))
	}
}

// TestOfAnEarlierSession: an attempt is lost with its session, the next is refused in the next
// session, and then the marker is gone. The server may have done the first attempt between the two,
// and removed the marker with the session.
func TestOfAnEarlierSession(t *testing.T) {
	for _, test := range []struct {
		name    string
		doubts  []error
		voided  error
		unknown bool
	}{
		{"of an earlier session", []error{errLostForEver}, session.ErrNoNode, true},
		{"and another reply is lost", []error{errLostForEver, errLost}, session.ErrNoNode, true},
		{"and the second is never sent", []error{errLost, session.ErrExpired}, session.ErrNoNode, true},
		{"of the present session", []error{errLost}, session.ErrNoNode, false},
		{"it was there", []error{errLostForEver}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, _ := Write{}.after(Granted{Marker: Marker{Node: "/m", Version: 3}, N: 7})
			for _, doubt := range test.doubts {
				w, _ = w.after(Sent{Err: doubt}, Looked{Exists: true, Version: 3})
			}
			w, out := w.after(refused(1, session.ErrNodeExists), Voided{test.voided})
			answer, ok := out.Do[len(out.Do)-1].(Answer)
			check.True(t, ok && w.Ended() && errors.Is(answer.Err, session.ErrUnknownOutcome) == test.unknown &&
				(test.unknown || errors.Is(answer.Err, session.ErrNodeExists)), "%s", describe(out))
		})
	}
}

// alphabet returns every answer to the question that a write waits for.
func alphabet(w Write) (ins []Input) {
	m := Marker{Node: "/m", Version: 1, Made: 1}
	failures := []error{
		session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNoAuth, session.ErrExpired, session.ErrClosed,
		session.ErrDisconnected, session.ErrBusy, errLost, errLostForEver, errLostClosed,
	}
	add := func(make func(error) Input) {
		for _, err := range failures {
			ins = append(ins, make(err))
		}
	}
	switch w.stage {
	case unbegun:
		return []Input{Granted{Marker: m, N: 2}, Granted{N: 2}, Granted{Err: session.ErrClosed}}
	case making:
		ins = append(ins, Made{Marker: m})
		add(func(err error) Input { return Made{m, err} })
	case ensuring:
		ins = append(ins, Ensured{})
		add(func(err error) Input { return Ensured{err} })
	case sending:
		ins = append(ins, Sent{Results: make([]session.OpResult, 2)}, Sent{Err: session.ErrLapsed})
		for _, err := range failures {
			if !session.Passing(err) && !errors.Is(err, session.ErrClosed) {
				ins = append(ins, refused(0, err), refused(1, err))
			} else {
				ins = append(ins, Sent{Err: err})
			}
		}
	case looking:
		for n := range 4 {
			for version := range int32(3) {
				ins = append(ins, Looked{Exists: true, N: n, Version: version})
			}
		}
		ins = append(ins, Looked{})
		add(func(err error) Input { return Looked{Err: err} })
	case voiding:
		ins = append(ins, Voided{})
		add(func(err error) Input { return Voided{err} })
	}
	return ins
}

// TestEveryInputInEveryState goes through all states, and gives every answer in each, and
// Abandoned: there is one question at a time, one answer to the caller, one end, and nothing is
// sent for a caller that is gone. What was lost is unknown, or was looked at.
func TestEveryInputInEveryState(t *testing.T) {
	type node struct {
		w         Write
		answered  bool
		abandoned bool
		lost      bool // an attempt is in doubt
	}
	step := func(at node, in Input) (node, error) {
		next := at
		var out effects
		next.w, out = at.w.after(in)
		wrong := func(format string, args ...any) (node, error) {
			return next, fmt.Errorf(format+": %s", append(args, describe(out))...)
		}
		if sent, is := in.(Sent); is && session.InDoubt(sent.Err) {
			next.lost = true
		}
		_, abandons := in.(Abandoned)
		_, voided := in.(Voided)
		_, looked := in.(Looked)
		next.abandoned = next.abandoned || abandons
		asked, put := 0, 0
		for _, e := range out.Do {
			switch e := e.(type) {
			case Make, Ensure, Look, Void, Send:
				if asked++; at.abandoned {
					if _, ensures := e.(Ensure); !ensures {
						return wrong("it goes on for a caller that is gone")
					}
				}
			case PutAway:
				put++
				if next.lost && !e.Doubt && e.Marker.Version == at.w.marker.Version && e.Marker.Node != "" && !voided && !looked {
					return wrong("a marker is kept whose version may change")
				}
			case Answer:
				if next.answered {
					return wrong("a second answer")
				}
				next.answered = true
				if sure := voided || looked || e.Err == nil; next.lost && !sure && !errors.Is(e.Err, session.ErrUnknownOutcome) && !session.InDoubt(e.Err) {
					return wrong("it is in doubt, and the caller does not learn that")
				}
			}
		}
		if end := next.w.Ended(); asked > 1 || !abandons && (asked == 0) != end || end && !next.answered || put > 1 || put == 1 && !end {
			return wrong("%d questions, %d put away", asked, put)
		}
		return next, nil
	}
	var given check.Given
	for _, start := range []Write{{}, {Epoch: 1}, {Before: 1}, {Marks: true}, {Tries: 2}, {Bares: true}, {Epoch: 1, Rests: true}} {
		states, _ := exploration.Search[node, Input, string]{
			Inputs: func(at node) []Input {
				switch {
				case at.w.Ended():
					return nil
				case at.abandoned:
					return alphabet(at.w)
				}
				ins := alphabet(at.w)
				if at.w.stage != unbegun {
					ins = append(ins, Abandoned{})
				}
				return ins
			},
			Step: step, Key: func(at node) string { return fmt.Sprint(show(at.w), at.answered, at.abandoned, at.lost) }, Given: &given,
		}.Run(t, node{w: start})
		check.AtLeast(t, states, 10, "states")
		t.Logf("%+v: %d states", start, states)
	}
	check.Explored(t, "input", given)
}

// TestAnOldWriteKeepsYoungerMarkers: a write of an epoch that is over does not forget the marker of
// the present one, which Close would not remove then.
func TestAnOldWriteKeepsYoungerMarkers(t *testing.T) {
	w := Writer{Closed: errors.New("closed")}
	w.free = []Marker{{Node: "/m/2", Epoch: 2}}
	got := w.grant(Write{Epoch: 1})
	check.True(t, got.Marker.Node == "", "granted %v", got.Marker)
	check.True(t, len(w.free) == 1, "free: %v", w.free)
}

// TestEnter: what waits for an epoch begins once, with the first that comes.
func TestEnter(t *testing.T) {
	w, begun := &Writer{}, []int(nil)
	w.makes = append(w.makes, func(epoch int, err error) {
		check.OK(t, err, "the epoch")
		begun = append(begun, epoch)
	})
	w.enter(3, nil)
	w.enter(4, nil)
	check.EqualSlices(t, begun, []int{3}, "it begins in the epochs")
}

// TestNoteBare: that a client may make no markers is reported once, and the writer goes on.
func TestNoteBare(t *testing.T) {
	var reasons []error
	w := &Writer{}
	w.Bare = func(reason error) { reasons = append(reasons, reason) }
	w.noteBare(session.ErrNoAuth)
	w.noteBare(session.ErrNoAuth)
	check.EqualSlices(t, reasons, []error{session.ErrNoAuth}, "reported")
	check.True(t, w.bare, "it writes without markers")
}

// A guarded server lets nobody make the directory of the markers.
type guarded struct {
	client.Async
	err error
}

func (g guarded) EnsurePath(_ string, answer func(bool, error)) { answer(false, g.err) }

// TestGuardedDirectory: a client that may not make the directory of the markers writes without
// them. Any other failure says nothing about that.
func TestGuardedDirectory(t *testing.T) {
	for _, reason := range []error{session.ErrNoAuth, session.ErrDisconnected} {
		w := &Writer{Bare: func(error) {}}
		a := &attempts{of: w, requests: guarded{err: reason}}
		var told []Input
		a.perform(Ensure{}, func(in Input) { told = append(told, in) })
		check.Equal(t, w.bare, errors.Is(reason, session.ErrNoAuth), "it writes without markers after", reason)
		check.EqualSlices(t, told, []Input{Ensured{reason}}, "told")
	}
}

// A keeper is a session that notes which nodes are withdrawn.
type keeper struct {
	client.Session

	withdrawn []string
}

func (k *keeper) Async(int) client.Async { return withdrawing{k: k} }

type withdrawing struct {
	client.Async

	k *keeper
}

func (w withdrawing) Withdraw(path string, answer func(error)) {
	w.k.withdrawn = append(w.k.withdrawn, path)
	answer(nil)
}

// TestPutAway: a marker is kept for the next write. If its version may change yet, it is deleted.
func TestPutAway(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		k := new(keeper)
		w := &Writer{Session: k}
		w.Hold() // as a write does that is under way
		a := &attempts{of: w}
		m := Marker{Node: "/m/1", Epoch: 1}
		a.perform(PutAway{m, doubt}, func(Input) {})
		kept, withdrawn := []Marker{m}, []string(nil)
		if doubt {
			kept, withdrawn = nil, []string{m.Node}
		}
		check.EqualSlices(t, w.free, kept, "kept with doubt", doubt)
		check.EqualSlices(t, k.withdrawn, withdrawn, "withdrawn with doubt", doubt)
		check.Equal(t, w.using, 0, "uses with doubt", doubt)
	}
}
