package contender_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has a recipe of its own: so many of the first in line hold as the node above the line
// says. Its event is declared here.

const path = "/seats"

// seated is the rule: the data of a sight is the number of seats.
type seated struct{ line.First }

func (seated) Traits() line.Traits {
	return line.Traits{Lists: true, AnnouncesGrants: true, Unfenced: true}
}

func (r seated) Locate(s line.Snapshot, own, guid string) line.Position {
	p := r.First.Locate(s, own, guid)
	seats, err := strconv.Atoi(s.Data)
	if p.Err = errors.Join(p.Err, err); p.Ahead < seats {
		p.Ahead = 0
	}
	p.Watch = line.Target{} // the members: any of those ahead may leave
	return p
}

// seats is the condition.
type seats struct{}

func (seats) Read(requests client.Async, answer func(data string, err error)) {
	requests.Get(path, func(data []byte, _ *session.Stat, err error) { answer(string(data), err) })
}

func (seats) Node() string                   { return path }
func (seats) Of(node session.Reading) string { return string(node.Data) }
func (seats) Check([]string) error           { return nil }

// presentation has the recipe's own event, the number of seats when it changes.
var presentation = contender.Presentation[string]{
	Tell: func(ev line.Event) string { return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", ev), "line.")) },
	Changed: func(before, now string) (string, bool) {
		return before + " to " + now + " seats", now != "7"
	},
	Lost: errors.New("seat lost"), Released: errors.New("seat released"),
}

func sit(t *testing.T, s *session.Session) *contender.Handle[string] {
	t.Helper()
	h := contender.Open(s, &contender.Recipe{
		Name: "seat", Path: path, Dir: path + "/line", Condition: seats{},
		Rule: seated{line.First{Grammar: &nodes.StandardLock, Kind: nodes.Exclusive}},
	}, &presentation, false)
	t.Cleanup(h.Close)
	return h
}

// TestOwnEvent: a change of the condition is an event of the recipe, to holders and to waiters,
// unless the recipe makes none of it.
func TestOwnEvent(t *testing.T) {
	kit.Sessions(t, zktest.Config{}, 2, session.Options{Timeout: 6 * time.Second}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		check.Have(all[0].Create(t.Context(), path, []byte("1"), session.Persistent))(t)
		holder := sit(t, all[0])
		events := holder.Events()
		check.OK(t, holder.Acquire(t.Context()))
		waiter := sit(t, all[1])
		others := waiter.Events()
		synctest.Wait()
		for _, seats := range []string{"1", "7", "2"} {
			check.Have(all[0].Set(t.Context(), path, []byte(seats), session.AnyVersion))(t)
			synctest.Wait()
		}
		for _, want := range []string{"acquired", "7 to 2 seats"} {
			check.Equal(t, <-events, want)
		}
		for _, want := range []string{"waiting", "acquired", "7 to 2 seats"} {
			check.Equal(t, <-others, want)
		}
	})
}

// TestForfeitMeetsEnd: when Forfeit and the end of the place meet, in either order, all contexts
// end before Done is closed. The first of two contexts stops the goroutine that ends them.
func TestForfeitMeetsEnd(t *testing.T) {
	type handle = contender.Handle[string]
	for name, end := range map[string][2]func(*handle){
		"forfeit, leave": {(*handle).Forfeit, (*handle).Leave},
		"leave, forfeit": {(*handle).Leave, (*handle).Forfeit},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Sessions(t, zktest.Config{}, 1, session.Options{Timeout: 6 * time.Second}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				check.Have(all[0].Create(t.Context(), path, []byte("1"), session.Persistent))(t)
				h := sit(t, all[0])
				check.OK(t, h.Acquire(t.Context()))
				grip := kit.NewGrip()
				_, cancel := h.Context(grip)
				defer cancel()
				second, cancel := h.Context(context.Background())
				defer cancel()
				go end[0](h)
				<-grip.Reached
				end[1](h)
				<-h.Done()
				check.True(t, second.Err() != nil, "done, and a context has not ended")
				close(grip.Free)
			})
		})
	}
}
