package election_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var layouts = []election.Layout{election.Standard, election.Curator, election.Kazoo, election.CuratorSelector}

// TestObserver: who only looks on is told of every leader, in order, across the loss of its
// own session.
func TestObserver(t *testing.T) {
	for _, layout := range layouts {
		runInBubble(t, layout.String(), lagging, func(w *world) {
			s := w.open(2)
			o := check.Open(election.Observe(s, path, &election.ObserveOptions{Layout: layout}))(w)
			newest := int64(0)
			expect := func(data string) {
				w.Helper()
				for end := time.After(time.Minute); ; {
					select {
					case ev := <-o.Events():
						check.AtLeast(w, ev.Term, newest, "a term")
						newest = ev.Term
						if string(ev.Leader.Data) == data && (ev.Leader.Node == "") == (data == "") {
							return
						}
					case <-end:
						leader, _ := o.Leader()
						w.Fatalf("%q is not leader, it is %q", data, leader.Data)
					}
				}
			}
			expect("")
			var all []*player
			for i := range 4 {
				all = append(all, w.stand(w.open(i), &election.Options{Layout: layout, Data: []byte(fmt.Sprint(i))}))
				<-time.After(100 * time.Millisecond)
			}
			expect("0")
			if leader, known := o.Leader(); !known || leader.Node != all[0].Node() {
				w.Errorf("%v leads", leader)
			}
			check.OK(w, all[0].Resign(w.soon()))
			expect("1")
			all[2].Close()
			w.Expire(s.ID())
			all[1].Close()
			expect("3")
			w.Disconnect(0)
			all[3].Close()
			expect("0")
			line, err := election.Candidates(w.soon(), s, path, &election.ObserveOptions{Layout: layout})
			if err != nil || len(line) != 1 || !line[0].Leading || string(line[0].Data) != "0" || line[0].Session != all[0].session.ID() || line[0].Node != all[0].Node() {
				w.Errorf("%+v, %v", line, err)
			}
			all[0].Close()
			expect("")
			if _, known := o.Leader(); known {
				w.Error("somebody leads")
			}
			s.Close()
			<-o.Done()
			check.Is(w, o.Err(), session.ErrClosed)
			if none, err := election.Candidates(w.soon(), all[0].session, "/nowhere", nil); err != nil || len(none) > 0 {
				w.Error(none, err)
			}
		})
	}
}

// TestSlowReader: who comes late is told of the newest leader only.
func TestSlowReader(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		s := w.open(0)
		o := check.Have(election.Observe(s, path, nil))(w)
		for i := range 10 {
			a := w.elect(w.open(i), nil)
			a.Close()
		}
		last := w.stand(w.open(1), nil)
		term, _ := await[election.Elected](last, 0)
		<-time.After(time.Second)
		if ev := <-o.Events(); ev.Term != term.Term || ev.Leader.Node != last.Node() {
			w.Errorf("it is told of %v", ev)
		}
		o.Close()
		if ev, ok := <-o.Events(); ok {
			w.Errorf("and of %v", ev)
		}
		check.OK(w, o.Err())
		w.ResetRequests()
		check.Must(w, last.Resign(w.soon()))
		kit.Pass(time.Second)
		reads := w.RequestsOf(s.ID())
		check.Equal(w, reads[zktest.OpGetData]+reads[zktest.OpExists], 0, "reads after Close")
	})
}

// TestForeignLayouts: names, data and terms are those of the others; there is nothing to
// acknowledge with.
func TestForeignLayouts(t *testing.T) {
	for _, test := range []struct {
		layout election.Layout
		mark   string
	}{{election.Curator, "-latch-"}, {election.Kazoo, "__lock__"}} {
		runInBubble(t, test.layout.String(), lagging, func(w *world) {
			opts := &election.Options{Layout: test.layout, Data: []byte("id-1")}
			a, b := w.stand(w.open(0), opts), w.stand(w.open(1), opts)
			leader, term := w.leader(0)
			s := w.open(0)
			data, stat, err := s.Get(w.soon(), leader.Node())
			check.True(w, err == nil && string(data) == "id-1" && stat.Czxid == term && stat.EphemeralOwner == leader.session.ID(), "%q, %+v, %v", data, stat, err)
			dir, name := znode.Split(leader.Node())
			check.True(w, dir == path && strings.Contains(name, test.mark), "it stands as %s", leader.Node())
			for _, err := range []error{leader.Acknowledge(w.soon()), leader.Transfer(w.soon(), b.Node())} {
				check.Is(w, err, election.ErrLayout)
			}
			for range 10 {
				check.OK(w, leader.Resign(w.soon()))
				leader, term = w.leader(term)
			}
			w.Freeze(leader.session.ID(), zktest.Both)
			leader, _ = w.leader(term)
			w.Thaw(0)
			for _, p := range []*player{a, b} {
				<-time.After(time.Second)
				now, known := p.Leader()
				check.True(w, known && now.Node == leader.Node(), "%s is told of %s", p.Node(), now.Node)
			}
		})
	}
}

// TestLeaderMayNotBeRead: an observer that may not read the leader's node, or may list the
// candidates but not read the first of them, ends, and says why.
func TestLeaderMayNotBeRead(t *testing.T) {
	for _, layout := range []election.Layout{election.Standard, election.Curator} {
		runInBubble(t, layout.String(), zktest.Config{}, func(w *world) {
			s := w.open(0)
			defer s.Close()
			check.Must(w, s.EnsurePath(w.soon(), path))
			w.elect(w.OpenAt(0, session.Options{
				Timeout: 6 * time.Second, Auth: []session.Auth{{Scheme: "digest", Secret: []byte("x:y")}}, ACL: session.CreatorAll(),
			}), &election.Options{Layout: layout})
			o := check.Open(election.Observe(s, path, &election.ObserveOptions{Layout: layout}))(w)
			kit.Pass(time.Second)
			check.Is(w, o.Err(), session.ErrNoAuth)
		})
	}
}

// TestLayoutNames: also of layouts that do not exist, as in the text of a user's log.
func TestLayoutNames(t *testing.T) {
	for layout, name := range map[election.Layout]string{
		-1: "unknown", election.Standard: "standard", election.CuratorSelector: "curator-selector", election.CuratorSelector + 1: "unknown",
	} {
		check.Equal(t, layout.String(), name)
	}
}

// TestPermissions: what may not be read or written ends a candidate, and says so.
func TestPermissions(t *testing.T) {
	const all = session.PermRead | session.PermWrite | session.PermCreate | session.PermDelete
	for _, test := range []struct {
		name  string
		perms session.Perms
		left  bool
	}{
		{"nothing", 0, true},
		{"no reading", all &^ session.PermRead, true},
		{"no creating", all &^ session.PermCreate, true},
		{"no writing", all &^ session.PermWrite, true},
		{"no deleting", all &^ session.PermDelete, false},
	} {
		runInBubble(t, test.name, zktest.Config{}, func(w *world) {
			s := check.Have(session.Open(w.Context(), w.Addrs(), &session.Options{
				Timeout: 6 * time.Second, Dialer: w.DialContext, ACL: []session.ACL{{Perms: test.perms | session.PermAdmin, Scheme: "world", ID: "anyone"}},
			}))(w)
			a := w.stand(s, nil)
			if !test.left {
				await[election.Elected](a, 0)
				begun := time.Now()
				a.Close()
				check.AtMost(w, time.Since(begun), 13*time.Second, "Close took")
				s.Close()
				return
			}
			if left, _ := await[election.Left](a, 0); !errors.Is(left.Err, session.ErrNoAuth) {
				w.Error(left.Err)
			}
		})
	}
}
