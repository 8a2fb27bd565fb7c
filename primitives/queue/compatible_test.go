package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// putEarlier creates an item as earlier clients do. A number in front of the data is written to it.
func putEarlier(t *testing.T, s *session.Session, data string) (id string) {
	t.Helper()
	bucket := at + "/items/2147483648-0000000000"
	check.Must(t, s.EnsurePath(t.Context(), bucket))
	id = fmt.Sprintf("%036x", data)
	created := putForeign(t, s, bucket+"/_c_"+id+"-queue-", data)
	if strings.Contains(data, "\n") {
		check.Have(s.Set(t.Context(), created, []byte(data), 0))(t)
	}
	return id
}

// TestEarlierItems: items of earlier clients are peeked at, taken and consumed in their order, like
// others.
func TestEarlierItems(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		putEarlier(t, s[0], "a")
		putEarlier(t, s[0], "7\nb")
		id := putEarlier(t, s[0], "2\nc")
		putEarlier(t, s[0], "d")
		put(t, q, "e")
		check.Equal(t, peek(t, q), "a")
		check.Equal(t, takeOne(t, q), "a")
		check.Equal(t, takeOne(t, q), "b")
		c := consume(t, q, 1)
		item := next(t, c)
		check.True(t, string(item.Data) == "c" && item.ID == id && item.Attempt == 3, "%+v", item)
		c.Close()
		c = consume(t, q, 3)
		item = next(t, c)
		check.True(t, string(item.Data) == "c" && item.Attempt == 4, "%+v", item)
		check.Must(t, item.Ack(t.Context()))
		d := next(t, c)
		check.True(t, string(d.Data) == "d" && d.Attempt == 1, "%+v", d)
		check.Must(t, d.Ack(t.Context()))
		check.EqualSlices(t, acknowledged(t, c, time.Second), []string{"e"}, "left")
	})
}

// TestEarlierItemBuried: an item of an earlier client becomes a dead letter of today.
func TestEarlierItemBuried(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		putEarlier(t, s[0], "2\nbad")
		consume(t, open(t, s[0], &queue.Options{MaxAttempts: 2, DeadLetter: dead}), 1)
		kit.Pass(time.Second)
		check.EqualSlices(t, drain(t, openAt(t, s[0], dead, nil)), []string{"bad"}, "dead")
	})
}
