package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	common "github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// Letters are the dead letters of a queue: the items that were rejected, or not acknowledged, as
// often as Options.MaxAttempts allows. They are safe for concurrent use, and should be closed.
type Letters struct {
	of   *base
	dead *stock.Store
}

// A Letter is a dead letter, as it was when it was read.
type Letter struct {
	ID       string // as returned by Put
	Key      string // as given to PutOnce; "" if the item was put by another method
	Data     []byte
	Cause    string    // the error of the last rejection; see [Item.Cause]
	Origin   string    // the path of its queue; "" if no consumer has buried it, or one of an earlier version
	Attempts int       // the deliveries that a worker received
	Priority int32     // 0 in a [Queue]
	Put      time.Time // when it was first put, by the server's clock
	Buried   time.Time // when it became a dead letter

	claimed layout.Claimed
}

// DeadLetters returns the dead letters of the queue at path, whether that is a [Queue] or a
// [Priority]. The options are those of the queue. If another queue has the same Options.DeadLetter,
// its dead letters are left out. The error describes the problem in the arguments, or wraps
// [ErrLayout] if there is something else in the place of the dead letters.
func DeadLetters(ctx context.Context, s *session.Session, path string, opts *Options) (*Letters, error) {
	o := client.Options(opts)
	b, err := newBase(s, path, o)
	if err != nil {
		return nil, err
	}
	b.at.Any = true
	l := &Letters{b, b.dead.Store}
	if err := client.CheckContext(ctx); err != nil {
		return nil, l.explain(err)
	}
	names, _, err := s.Children(ctx, l.dead.Path)
	if err == nil {
		err = l.dead.Check(names)
	}
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return nil, l.explain(err)
	}
	return l, nil
}

// Close ends the use of the letters, as [Queue.Close] does.
func (l *Letters) Close(ctx context.Context) error { return l.of.Close(ctx) }

// All returns the dead letters in the order of their priorities and burials, and an error at the
// end if they cannot be read. It reads some at a time, however many there are. Letters that come
// or go meanwhile may be among them, or not.
func (l *Letters) All(ctx context.Context) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		err := l.each(ctx, nil, func(places []layout.Place) (more bool, err error) {
			letters, err := l.read(ctx, places)
			for _, letter := range letters {
				if !yield(letter, nil) {
					return false, nil
				}
			}
			return true, err
		})
		if err != nil {
			yield(Letter{}, l.explain(err))
		}
	}
}

// Redrive puts the letters with the IDs at the end of the queue again, each in one transaction with
// its end as a dead letter, and in their order. Their attempts begin anew; ID, Put and Cause stay.
// In a queue with Options.MaxItems a letter waits for room, or is refused, as an item that is put.
//
// Redrive goes on after letters that are not there, or that are claimed by a consumer of the dead
// letters. It fails with [ErrNotDead] then, and names their IDs. If the error wraps
// [session.ErrUnknownOutcome], some of the letters may have been put, or be put a little later.
// With any other error the remaining letters are dead. It is safe to call Redrive again.
func (l *Letters) Redrive(ctx context.Context, ids ...string) error {
	return l.explain(l.these(ctx, ids, l.redrive))
}

// RedriveAll is [Letters.Redrive] of all letters, but for those that are claimed or come meanwhile.
// It returns how many it has put.
func (l *Letters) RedriveAll(ctx context.Context) (n int, err error) {
	n, err = l.some(ctx, nil, l.redrive)
	return n, l.explain(err)
}

// Purge deletes the letters with the IDs. Its errors are those of [Letters.Redrive].
func (l *Letters) Purge(ctx context.Context, ids ...string) error {
	return l.explain(l.these(ctx, ids, l.purge))
}

// PurgeAll deletes all letters, but for those that are claimed or come meanwhile. It returns how
// many it has deleted.
func (l *Letters) PurgeAll(ctx context.Context) (n int, err error) {
	n, err = l.some(ctx, nil, l.purge)
	return n, l.explain(err)
}

// String describes the letters in one short line.
func (l *Letters) String() string { return "dead letters of queue " + l.of.at.Path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (l *Letters) Format(f fmt.State, _ rune) { client.Print(f, l) }

func (l *Letters) explain(err error) error {
	return client.Wrap(l.of.at.Session, err, "dead letters of queue ", l.of.at.Path)
}

// readAhead is the number of letters that are read at once.
const readAhead = 64

// each calls f with the places of all letters, some at a time, or of those that have the IDs, until
// it returns false.
func (l *Letters) each(ctx context.Context, ids map[string]bool, f func([]layout.Place) (more bool, err error)) error {
	if err := client.CheckContext(ctx); err != nil {
		return err
	}
	if err := l.of.receipts.Open(); err != nil {
		return err
	}
	s := l.of.live
	if err := s.Sync(ctx, l.dead.Path); err != nil {
		return err
	}
	names, _, err := s.Children(ctx, l.dead.Dir(layout.ItemsDir))
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return err
	}
	buckets, err := l.dead.BucketsOf(names)
	if err != nil {
		return err
	}
	left := len(ids)
	for _, b := range buckets {
		names, _, err := s.Children(ctx, l.dead.Bucket(b))
		if err = client.Without(err, session.ErrNoNode); err != nil {
			return err
		}
		places, err := l.dead.PlacesOf(b, names)
		if err != nil {
			return err
		}
		if ids != nil {
			places = slices.DeleteFunc(places, func(p layout.Place) bool { return !ids[p.ID()] })
			left -= len(places)
		}
		for chunk := range slices.Chunk(places, readAhead) {
			if more, err := f(chunk); err != nil || !more {
				return err
			}
		}
		if ids != nil && left <= 0 {
			return nil
		}
	}
	return nil
}

// read reads the letters in the places, if they are there.
func (l *Letters) read(ctx context.Context, places []layout.Place) (letters []Letter, err error) {
	paths := common.Map(places, l.dead.Node)
	readings, err := common.Read(ctx, l.of.live, paths)
	for i, r := range readings {
		switch {
		case errors.Is(r.Err, session.ErrNoNode):
			continue
		case r.Err != nil:
			return nil, r.Err
		}
		c := layout.ItemOf(places[i], r.Data, r.Stat)
		if c.Origin != "" && c.Origin != l.of.at.Path && l.dead != &l.of.at {
			continue
		}
		letters = append(letters, Letter{
			ID: c.Place.ID(), Key: c.Key, Data: c.Data, Cause: c.Cause, Origin: c.Origin, Attempts: c.Tried, Priority: c.Place.Bucket.Priority,
			Put: time.UnixMilli(c.Since), Buried: time.UnixMilli(r.Stat.Ctime),
			claimed: c,
		})
	}
	return letters, err
}

// these does it with the letters that have the IDs: with none if there are no IDs.
func (l *Letters) these(ctx context.Context, ids []string, do moving) error {
	if ids == nil {
		ids = []string{}
	}
	_, err := l.some(ctx, ids, do)
	return err
}

// some does with all letters, or with those that have the IDs, what do does with the first of some
// in one transaction. It returns for how many that was done.
func (l *Letters) some(ctx context.Context, ids []string, do moving) (n int, err error) {
	var wanted map[string]bool
	if ids != nil {
		wanted = make(map[string]bool, len(ids))
		for _, id := range ids {
			wanted[id] = true
		}
	}
	most := len(wanted)
	done := func(letters []Letter) {
		n += len(letters)
		for _, letter := range letters {
			delete(wanted, letter.ID)
		}
	}
	err = l.each(ctx, wanted, func(places []layout.Place) (more bool, err error) {
		letters, err := l.read(ctx, places)
		if err != nil {
			return false, err
		}
		return true, l.move(ctx, letters, do, done)
	})
	if err == nil && n < most {
		err = fmt.Errorf("%w: %d of %d: %s", ErrNotDead, most-n, most, listed(slices.Sorted(maps.Keys(wanted))))
	}
	return n, err
}

// listed returns IDs as an error shows them: the first ten.
func listed(ids []string) string {
	const shown = 10
	if len(ids) <= shown {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(ids[:shown], ", "), len(ids)-shown)
}

// about adds to the error of a transaction the items that it was for.
func about(letters []Letter, err error) error {
	if len(letters) == 1 {
		return fmt.Errorf("item %s: %w", letters[0].ID, err)
	}
	return fmt.Errorf("items %s to %s: %w", letters[0].ID, letters[len(letters)-1].ID, err)
}

// A moving begins a transaction that deletes the first of the letters, and maybe puts them. The
// error of the answer is a [stock.RefusalError] if it was refused because of an operation; those of
// the n letters begin at the index first.
type moving func(letters []Letter, answer func(error)) (n, first int, abandon func())

// move does it with all letters that are there and not claimed, and calls moved with those of each
// transaction that was done.
func (l *Letters) move(ctx context.Context, letters []Letter, do moving, moved func([]Letter)) error {
	most := len(letters) // halved if the server takes no more together
	for len(letters) > 0 {
		var n, first int
		err := procedure.Await(ctx, func(done func(error)) (abandon func()) {
			n, first, abandon = do(letters[:min(most, len(letters))], done)
			return abandon
		})
		no, refused := errors.AsType[*stock.RefusalError](err)
		if err == nil {
			moved(letters[:n])
			letters = letters[n:]
			continue
		}
		if isTooLarge(err) && n > 1 {
			most = n / 2
			continue
		}
		if !refused {
			return about(letters[:n], err)
		}
		i, op := l.refused(letters[:n], no.Index-first)
		switch {
		case i < 0:
			return about(letters[:n], err)
		case op == 0 && letters[i].claimed.Version > 0 && errors.Is(err, session.ErrNoNode):
			if err := l.of.live.EnsurePath(ctx, l.dead.Dir(layout.ClaimsDir)); err != nil {
				return err
			}
		case client.IsAny(err, session.ErrNoNode, session.ErrNodeExists): // it is gone, or claimed
			letters = slices.Delete(letters, i, i+1)
		case errors.Is(err, session.ErrBadVersion): // it was claimed since
			again, err := l.read(ctx, []layout.Place{letters[i].claimed.Place})
			if err != nil {
				return about(letters[i:i+1], err)
			}
			letters = slices.Replace(letters, i, i+1, again...)
		default:
			return about(letters[i:i+1], err)
		}
	}
	return nil
}

// refused returns which of the letters has the operation, and which of its operations that is. I is
// -1 if none has it.
func (l *Letters) refused(letters []Letter, op int) (i, of int) {
	if op < 0 {
		return -1, 0
	}
	for i, letter := range letters {
		n := len(l.ends(letter))
		if op < n {
			return i, op
		}
		op -= n
	}
	return -1, 0
}

// ends returns the operations that delete a letter.
func (l *Letters) ends(letter Letter) []session.Op {
	return l.dead.TakeOps(letter.claimed.Place, letter.claimed.Version)
}

// purge deletes the first of the letters.
func (l *Letters) purge(letters []Letter, answer func(error)) (n, first int, abandon func()) {
	var ops []session.Op
	n = sharing.Halve(min(len(letters), maxBatch), func(n int) bool {
		ops = nil
		for _, letter := range letters[:n] {
			ops = append(ops, l.ends(letter)...)
		}
		return n == 1 || l.of.receipts.Takes(ops...)
	})
	return n, 0, l.of.receipts.Begin(0, ops, func(results []session.OpResult, err error) { answer(stock.Refused(results, err)) })
}

// redrive puts the first of the letters at the end of the queue.
func (l *Letters) redrive(letters []Letter, answer func(error)) (n, first int, abandon func()) {
	priority := letters[0].Priority
	p := l.of.desk.Producing(priority)
	p.Mode = session.PersistentSequential
	most := min(len(letters), maxBatch)
	if p.Filing.Most > 0 {
		most = min(most, p.Filing.Most)
		first = 1
	}
	if i := slices.IndexFunc(letters[:most], func(letter Letter) bool { return letter.Priority != priority }); i > 0 {
		most = i
	}
	n = sharing.Halve(most, func(n int) bool {
		p.First, p.Items = nil, nil
		for _, letter := range letters[:n] {
			c := letter.claimed
			p.First = append(p.First, l.ends(letter)...)
			p.Items = append(p.Items, filing.Item{ID: letter.ID, Data: c.Redriven(c.Since).With(c.Data)})
		}
		return n == 1 || l.of.receipts.Takes(p.LongestOps()...)
	})
	return n, first, p.Begin(func(_ []session.OpResult, err error) { answer(err) })
}
