package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// This file puts items with an ID of the caller's, once. The transaction that puts the item creates
// the node of the ID: if that is refused, another call was faster.

// maxKey is the greatest number of bytes of a key.
const maxKey = 512

// PutOnce puts an item behind all others, unless an item was put with the same key within the last
// [Options.KeepKeys]. Then the error wraps [ErrDuplicate], nothing was put, and the ID is that of
// the earlier item, which may be acknowledged by now, or a dead letter. The key is an ID of the
// caller's: any valid UTF-8 of 1 to 512 bytes. [Item.Key] has it.
//
// PutOnce goes on when its session expires before the outcome is known. If the error wraps
// [session.ErrUnknownOutcome], ctx or the session has ended, and the item may have been put, or be
// put a little later, with the ID that is returned. To find out, any process calls PutOnce again
// with the same key, within KeepKeys. With any other error the item was not put.
//
// The key is a node, which is made in the transaction that puts the item. In a bounded queue a read
// precedes that; a call that waits for room learns only then of an item that was put meanwhile. A
// duplicate costs a refused transaction and a read. Handles that have used keys delete them in the
// background, many in a transaction, after one read of each. The nodes of about two KeepKeys stay,
// a million with 1,000 keys a second and 10 minutes. They stay longer while no handle is open that
// has used keys.
//
// The time is measured by the server's clock. If that is set, or another server with another clock
// becomes the leader, it is longer or shorter by the difference: with a clock that is ahead by
// KeepKeys, all keys are forgotten at once, and items may be put twice. Keys outlive their items:
// also those of [Options.Ephemeral], and those that [Queue.Purge] deletes.
func (q *Queue) PutOnce(ctx context.Context, key string, data []byte) (id string, err error) {
	return q.putOnce(ctx, key, data, 0)
}

// PutOnce puts an item behind all others with the same priority, or a lower number, unless an item
// was put with the same key, in any priority. It is [Queue.PutOnce] otherwise.
func (p *Priority) PutOnce(ctx context.Context, key string, data []byte, priority int32) (id string, err error) {
	return p.putOnce(ctx, key, data, priority)
}

// A keyed is a call of PutOnce.
type keyed struct {
	*base

	key         string
	shard, node string      // of the key
	item        filing.Item // the same in all attempts
	pauses      owned.Set
}

func (b *base) putOnce(ctx context.Context, key string, data []byte, priority int32) (id string, err error) {
	called := b.at.Session.Age()
	defer func() { b.reportPut(1, called, err) }()
	if err := client.CheckContext(ctx); err != nil {
		return "", b.explain(err)
	}
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return "", b.explain(fmt.Errorf("%w: key: it must be valid UTF-8 of 1 to %d bytes, and has %d", session.ErrInvalidArgument, maxKey, len(key)))
	}
	item, err := b.newItem(layout.Record{Key: key}, data)
	if err != nil {
		return "", b.explain(fmt.Errorf("data: %w", err))
	}
	k := &keyed{base: b, key: key, item: item}
	k.shard, k.node = b.keys.Place(key)
	defer k.pauses.End()
	var doubt error              // of an earlier attempt
	looks := b.opts.MaxItems > 0 // a duplicate needs no room
	for again := true; again; {
		if id, again, err = k.once(ctx, priority, looks); session.InDoubt(err) {
			// Another attempt is safe while no client can have deleted the key of this one.
			doubt, again = err, b.at.Session.Age()-called < b.opts.KeepKeys/2
		}
		looks = true
	}
	if doubt != nil && err != nil && !session.InDoubt(err) && !errors.Is(err, ErrDuplicate) {
		id, err = item.ID, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	return id, b.explain(err)
}

// once tries once to put the item. If again is set, the caller tries again. It looks for the key
// before, or relies on the server to refuse a duplicate.
func (k *keyed) once(ctx context.Context, priority int32, looks bool) (id string, again bool, err error) {
	if looks {
		if id, err = k.look(ctx); id != "" || err != nil {
			return id, false, err
		}
	}
	c := &filing.Call{
		Priority: priority, Called: k.at.Session.Age(), Items: []filing.Item{k.item}, Key: k.node,
		First: []session.Op{session.CreateOp(k.node, []byte(k.item.ID+"\n"+k.key), session.Persistent)},
	}
	err = k.send(ctx, c)
	switch {
	case err == nil:
		k.keys.Used(k.shard)
		return k.item.ID, false, nil
	case session.InDoubt(err):
		return k.item.ID, false, err
	case c.Refused && errors.Is(err, session.ErrNodeExists):
		return "", true, nil
	case c.Refused && errors.Is(err, session.ErrNoNode):
		err = k.makeShard(ctx)
		return "", err == nil, err
	}
	return "", false, err
}

// look returns the ID of the item that was put with the key, and "" if there is none. An old key is
// deleted.
func (k *keyed) look(ctx context.Context) (id string, err error) {
	data, stat, err := k.read(ctx)
	if err != nil {
		return "", client.Without(err, session.ErrNoNode)
	}
	id, key, _ := strings.Cut(string(data), "\n")
	switch {
	case key != k.key:
		return "", layout.Foreign(znode.Split(k.node))
	case id == k.item.ID: // an earlier attempt had an unknown outcome
		k.keys.Used(k.shard)
		return id, nil
	}
	var old bool
	err = k.ask(ctx, func(done func(error)) {
		k.receipts.Now(0, func(low, _ int64, err error) {
			old = err == nil && k.keys.IsOld(stat, low)
			done(err)
		})
	})
	switch {
	case err != nil:
		return "", err
	case !old:
		return id, ErrDuplicate
	}
	return "", k.ask(ctx, func(done func(error)) { k.keys.Forget(&k.pauses, k.node, done) })
}

// read reads the node of the key.
func (k *keyed) read(ctx context.Context) (data []byte, stat *session.Stat, err error) {
	err = k.ask(ctx, func(done func(error)) {
		k.at.Session.Async(0).Get(k.node, func(d []byte, s *session.Stat, err error) {
			data, stat = d, s
			done(err)
		})
	})
	return data, stat, err
}

// makeShard makes the directory of the key.
func (k *keyed) makeShard(ctx context.Context) error {
	requests := k.at.Session.Async(0)
	return k.ask(ctx, func(done func(error)) {
		requests.EnsurePath(k.at.Dir(layout.KeysDir), func(_ bool, err error) {
			if err != nil {
				done(err)
				return
			}
			requests.Create(k.shard, nil, session.Persistent, func(_ string, err error) {
				if client.IsAny(err, session.ErrNodeExists, session.ErrNoNode) { // the next attempt finds out
					err = nil
				}
				done(err)
			})
		})
	})
}

// ask waits for the answer to a question, which is repeated if its error passes. No question puts
// an item: so none leaves the outcome of the call unknown.
func (k *keyed) ask(ctx context.Context, question func(done func(error))) error {
	for {
		err := procedure.AwaitAnswer(ctx, question)
		switch {
		case !session.Passing(err) && session.InDoubt(err):
			return session.ErrClosed
		case !session.Passing(err):
			return err
		}
		if err := k.pauses.Wait(ctx, err); err != nil {
			return err
		}
	}
}
