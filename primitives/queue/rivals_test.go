package queue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestGoesOnAmongRivals: a client that had a rival begins somewhere, and goes on from there in
// order, however often it lists the queue again because its list is old. Then come the items
// before.
func TestGoesOnAmongRivals(t *testing.T) {
	const items, stolen = 60, 20
	clients := map[string]func(t *testing.T, s *session.Session) (next func(meanwhile func()) string){
		"Take": func(t *testing.T, s *session.Session) func(func()) string {
			q := open(t, s, nil)
			return func(meanwhile func()) string {
				defer kit.Pass(4 * time.Second) // every third list is old
				defer meanwhile()
				return takeOne(t, q)
			}
		},
		"Take, from slow servers": func(t *testing.T, s *session.Session) func(func()) string {
			q := open(t, s, nil)
			return func(meanwhile func()) string {
				defer meanwhile()
				return takeOne(t, q) // some lists get old while an item of them is read
			}
		},
		"Consume": func(t *testing.T, s *session.Session) func(func()) string {
			c := consume(t, open(t, s, nil), 1)
			return func(meanwhile func()) string {
				item := next(t, c)
				meanwhile()
				kit.Pass(2 * time.Second) // the list is old
				check.Must(t, item.Ack(t.Context()))
				return string(item.Data)
			}
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			turned := 0
			for i := range 4 {
				config := zktest.Config{}
				if strings.Contains(name, "slow") {
					config.Latency = time.Duration(200+70*i) * time.Millisecond
				}
				bubbled(t, config, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
					rival := open(t, s[1], nil)
					all := numbers(items)
					put(t, rival, all...)
					next := client(t, s[0])
					check.Equal(t, next(func() { check.Have(rival.TakeN(t.Context(), stolen))(t) }), all[0])
					var got []string
					for range items - stolen - 1 {
						got = append(got, next(func() {}))
					}
					begun := slices.Index(all, got[0]) - stolen - 1
					left := all[stolen+1:]
					check.EqualSlices(t, got, slices.Concat(left[begun:], left[:begun]), "then")
					if begun > 0 {
						turned++
					}
				})
			}
			check.True(t, turned > 0, "the client never met its rival")
		})
	}
}
