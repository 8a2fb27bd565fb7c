package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const letterBox = at + "/dead"

func letters(t *testing.T, s *session.Session, opts *queue.Options) *queue.Letters {
	t.Helper()
	dead := check.Have(queue.DeadLetters(t.Context(), s, at, opts))(t)
	return dead
}

// buryAll creates dead letters of the queue as consumers do, and returns their IDs.
func buryAll(t *testing.T, s *session.Session, data ...string) (ids []string) {
	t.Helper()
	for i, chunk := range slices.Collect(slices.Chunk(data, 500)) {
		bucket := fmt.Sprintf("%s/items/2147483648-%010d", letterBox, i)
		check.Must(t, s.EnsurePath(t.Context(), bucket))
		var ops []session.Op
		for _, d := range chunk {
			ids = append(ids, fmt.Sprintf("%036x", d))
			letter := fmt.Sprintf("{\"cause\":\"no %s\",\"put\":%d,\"origin\":\"%s\",\"tried\":3}\n%s", d, 1000+len(ids), at, d)
			ops = append(ops, session.CreateOp(bucket+"/_c_"+ids[len(ids)-1]+"-item-", []byte(letter), session.PersistentSequential))
		}
		check.Have(s.Multi(t.Context(), ops...))(t)
	}
	return ids
}

func list(t *testing.T, dead *queue.Letters) (all []queue.Letter) {
	t.Helper()
	for letter, err := range dead.All(t.Context()) {
		check.Must(t, err)
		all = append(all, letter)
	}
	return all
}

func dataOf(all []queue.Letter) (data []string) {
	for _, letter := range all {
		data = append(data, string(letter.Data))
	}
	return data
}

// TestLetters: what a consumer buries is listed with what is known of it, in the order of the
// priorities. It goes back with its ID and age, as an item that was not tried yet.
func TestLetters(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		opts := &queue.Options{MaxAttempts: 1, DeadLetter: "/queues/dead"}
		p := ranked(t, s[0], opts)
		begun := time.Now()
		var ids []string
		for i, data := range []string{"urgent", "bad", "worse"} {
			id := putAt(t, p, int32(3*i-3), data)
			ids = append(ids, id)
		}
		kit.Pass(time.Minute)
		c := check.Have(p.Consume(nil))(t)
		for range ids {
			check.Must(t, next(t, c).Reject(t.Context()))
		}
		c.Close()
		dead := letters(t, s[0], opts)
		all := list(t, dead)
		for i, letter := range all {
			check.True(t, letter.ID == ids[i] && letter.Attempts == 1 && letter.Origin == at && letter.Priority == int32(3*i-3), "%+v", letter)
			check.Within(t, letter.Put.Sub(begun), 0, time.Second)
			check.Within(t, letter.Buried.Sub(begun), time.Minute, time.Minute+time.Second)
		}
		check.EqualSlices(t, dataOf(all), []string{"urgent", "bad", "worse"}, "dead")
		check.Must(t, dead.Redrive(t.Context(), ids[1]))
		check.EqualSlices(t, dataOf(list(t, dead)), []string{"urgent", "worse"}, "dead")
		c = check.Have(p.Consume(nil))(t)
		defer c.Close()
		item := next(t, c)
		check.True(t, item.ID == ids[1] && string(item.Data) == "bad" && item.Attempt == 1 && item.Priority == 0, "%+v", item)
		check.Within(t, item.Put.Sub(begun), 0, time.Second)
		check.Must(t, item.Ack(t.Context()))
		check.Is(t, dead.Redrive(t.Context(), ids[1]), queue.ErrNotDead)
		check.Must(t, dead.Close(t.Context()))
		check.Is(t, dead.Redrive(t.Context(), ids[0]), queue.ErrClosed)
	})
}

// TestRedrive puts one, some and all letters behind the items of the queue, in their order.
func TestRedrive(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q, dead := open(t, s[0], nil), letters(t, s[0], nil)
		names := numbers(1300)
		names[700] = "" // an item may be empty
		ids := buryAll(t, s[0], names...)
		put(t, q, "first")
		check.Must(t, dead.Redrive(t.Context(), ids[700]))
		err := dead.Redrive(t.Context(), ids[9], ids[8], ids[700])
		check.True(t, errors.Is(err, queue.ErrNotDead) && strings.Contains(err.Error(), "1 of 3: "+ids[700]), "%v", err)
		srv.ResetRequests()
		check.Equal(t, check.Have(dead.RedriveAll(t.Context()))(t), 1297)
		check.AtMost(t, srv.Requests()[zktest.OpMulti], 40, "transactions")
		all := slices.Concat([]string{"first", names[700]}, names[8:10], names[:8], names[10:700], names[701:])
		c := consume(t, q, 1)
		next(t, c)
		c.Close()
		got := drain(t, q)
		check.EqualSlices(t, got, all, "items")
		check.Len(t, list(t, dead), 0)
		check.Equal(t, check.Have(dead.RedriveAll(t.Context()))(t), 0)
		check.Len(t, left(srv, "claims"), 0)
	})
}

// TestPurge deletes one, some and all letters. It leaves those that a consumer has claimed.
func TestPurge(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		dead := letters(t, s[0], nil)
		names := numbers(600)
		ids := buryAll(t, s[0], names...)
		check.Must(t, dead.Purge(t.Context(), ids[5], ids[599]))
		check.Is(t, dead.Purge(t.Context(), ids[5]), queue.ErrNotDead)
		q := openAt(t, s[0], letterBox, nil)
		c := consume(t, q, 2)
		items := []queue.Item{next(t, c), next(t, c)}
		err := dead.Redrive(t.Context(), items[0].ID)
		check.True(t, errors.Is(err, queue.ErrNotDead) && strings.Contains(err.Error(), items[0].ID), "%v", err)
		err = dead.Redrive(t.Context(), numbers(20)...)
		check.True(t, errors.Is(err, queue.ErrNotDead) && strings.Contains(err.Error(), "20 of 20: item 0, item 1, item 10") && strings.Contains(err.Error(), ", and 10 more"), "%v", err)
		check.Equal(t, check.Have(dead.PurgeAll(t.Context()))(t), 596)
		check.EqualSlices(t, dataOf(list(t, dead)), names[:2], "left")
		c.Close() // the letters were written to
		check.Equal(t, check.Have(dead.PurgeAll(t.Context()))(t), 2)
		check.Len(t, list(t, dead), 0)
		check.Len(t, left(srv, "claims"), 0)
	})
}

// TestNoLetters: without an ID nothing is redriven or purged.
func TestNoLetters(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		dead := letters(t, s[0], nil)
		names := numbers(3)
		buryAll(t, s[0], names...)
		check.Must(t, dead.Purge(t.Context()))
		check.Must(t, dead.Redrive(t.Context()))
		check.Must(t, dead.Purge(t.Context(), []string{}...))
		check.EqualSlices(t, dataOf(list(t, dead)), names, "dead")
	})
}

// TestRedriveOnce: a letter goes back once, whichever reply is lost, and whoever else moves it.
func TestRedriveOnce(t *testing.T) {
	for lost := range 4 {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			names := numbers(100)
			buryAll(t, s[0], names...)
			moved := make(chan int, 2)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: lost})
			for i := range 2 {
				dead := letters(t, s[i], nil)
				go func() {
					n := check.Have(dead.RedriveAll(t.Context()))(t)
					moved <- n
				}()
			}
			check.Equal(t, <-moved+<-moved, 100)
			got := drain(t, open(t, s[0], nil))
			slices.Sort(got)
			slices.Sort(names)
			check.EqualSlices(t, got, names, "items")
			check.Len(t, list(t, letters(t, s[0], nil)), 0)
		})
	}
}

// TestLettersOfOthers: where several queues bury their dead, each has its own.
func TestLettersOfOthers(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		opts := &queue.Options{MaxAttempts: 1, DeadLetter: "/queues/dead"}
		for _, path := range []string{at, "/queues/other"} {
			q := openAt(t, s[0], path, opts)
			put(t, q, "of "+path)
			serve(t, q, queue.Item.Reject)
		}
		dead := letters(t, s[0], opts)
		check.EqualSlices(t, dataOf(list(t, dead)), []string{"of " + at}, "dead")
		check.Equal(t, check.Have(dead.PurgeAll(t.Context()))(t), 1)
		others := check.Have(queue.DeadLetters(t.Context(), s[0], "/queues/other", opts))(t)
		check.Equal(t, check.Have(others.RedriveAll(t.Context()))(t), 1)
		other := openAt(t, s[0], "/queues/other", nil)
		check.EqualSlices(t, drain(t, other), []string{"of /queues/other"}, "redriven")
	})
}

// TestRedriveBounded: letters go into a full queue no more than other items do.
func TestRedriveBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		opts := &queue.Options{MaxItems: 2, RefuseWhenFull: true}
		q, dead := open(t, s[0], opts), letters(t, s[0], opts)
		ids := buryAll(t, s[0], "a", "b", "c")
		put(t, q, "x")
		check.Is(t, dead.Redrive(t.Context(), ids...), queue.ErrFull)
		check.EqualSlices(t, dataOf(list(t, dead)), []string{"a", "b", "c"}, "dead")
		check.Must(t, dead.Redrive(t.Context(), ids[1]))
		check.EqualSlices(t, drain(t, q), []string{"x", "b"}, "items")
	})
}

// TestLettersCost: the first of many letters costs few requests.
func TestLettersCost(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		buryAll(t, s[0], numbers(3000)...)
		dead := letters(t, s[0], nil)
		srv.ResetRequests()
		for letter, err := range dead.All(t.Context()) {
			check.Must(t, err)
			check.Equal(t, string(letter.Data), "item 0")
			check.Equal(t, letter.Cause, "no item 0")
			break
		}
		check.AtMost(t, srv.Requests()[zktest.OpGetData], 64, "reads")
		check.AtMost(t, srv.Requests()[zktest.OpGetChildren2], 2, "lists")
	})
}

// TestLettersRefused: what is no place of dead letters is refused by name.
func TestLettersRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		check.Fails(queue.DeadLetters(t.Context(), s[0], "jobs", nil))(t, session.ErrInvalidPath)
		dead := letters(t, s[0], nil)
		check.Must(t, s[0].EnsurePath(t.Context(), letterBox+"/items/2147483648-0000000000/readme"))
		for _, err := range dead.All(t.Context()) {
			refused(t, err, queue.ErrLayout, "readme")
		}
		check.Must(t, s[0].EnsurePath(t.Context(), letterBox+"/locks"))
		_, err := queue.DeadLetters(t.Context(), s[0], at, nil)
		refused(t, err, queue.ErrLayout, letterBox+"/locks")
	})
}

// TestLongestLetter: the largest item that can be put can be buried and redriven, whatever the
// length of the path of the dead letters.
func TestLongestLetter(t *testing.T) {
	for _, n := range []int{0, 200, 5000} {
		bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			opts := &queue.Options{MaxAttempts: 1, DeadLetter: "/" + strings.Repeat("d", n) + "/" + strings.Repeat("e", max(n, 1))}
			if n == 0 {
				opts.DeadLetter = "/e"
			}
			q := open(t, s[0], opts)
			least, most := 1<<19, 1<<20
			for most-least > 1 { // the largest that Put accepts
				middle := (most + least) / 2
				_, err := q.Put(t.Context(), make([]byte, middle))
				if err == nil {
					least = middle
				} else {
					most = middle
				}
				drain(t, q)
			}
			check.AtLeast(t, least, 1<<20-8<<10-16*n)
			put(t, q, string(make([]byte, least)), "good")
			c := consume(t, q, 1)
			item := next(t, c)
			check.Len(t, item.Data, least)
			check.Must(t, item.Reject(t.Context()))
			check.Must(t, next(t, c).Ack(t.Context()))
			c.Close()
			dead := letters(t, s[0], opts)
			corpses := openAt(t, s[0], opts.DeadLetter, nil)
			c = check.Have(corpses.Consume(&queue.ConsumeOptions{Name: strings.Repeat("n", 256)}))(t)
			check.Len(t, next(t, c).Data, least)
			c.Close()
			check.Equal(t, check.Have(dead.RedriveAll(t.Context()))(t), 1)
			got := check.Have(q.TryTake(t.Context()))(t)
			check.Len(t, got, least)
		})
	}
}
