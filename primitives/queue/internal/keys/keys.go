// Package keys has the IDs that callers give to items, and forgets those that are old.
package keys

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// restShard is the least age of the last deletion of a key at which its shard is deleted. The
// versions of the next shard begin anew: so no request that relies on a version of the last one may
// be under way, and no session lives that long without its server.
const restShard = 2 * time.Minute

// atOnce is the number of keys that are read at once.
const atOnce = 64

// A Keeper deletes old keys: those of the shards that its handle has used, in the background, and
// one before it is made again.
type Keeper struct {
	at       *stock.Store
	receipts *receipt.Writer
	keep     time.Duration
	owned    owned.Set // has the timer, and ends with the handle

	mu   sync.Mutex
	due  map[string]time.Duration // the age of the session at which to look at a shard
	busy bool                     // set while the handle looks at one. While set, there is no timer
}

// New returns the keeper of a handle, for keys that are remembered for a time.
func New(at *stock.Store, rs *receipt.Writer, keep time.Duration) *Keeper {
	k := &Keeper{at: at, receipts: rs, keep: keep, due: make(map[string]time.Duration)}
	k.owned.Clock = at.Session
	return k
}

// End ends what the keeper does in the background. It is called before the end of the receipts,
// which waits for a cleaning that has begun.
func (k *Keeper) End() { k.owned.End() }

// Place returns the shard and the node of a key.
func (k *Keeper) Place(key string) (shard, node string) {
	sum := sha256.Sum256([]byte(key))
	name := hex.EncodeToString(sum[:16])
	shard = znode.Join(k.at.Dir(layout.KeysDir), name[:2])
	return shard, znode.Join(shard, name)
}

// Used notes that a key was put into a shard. Handles that begin together look at different times.
func (k *Keeper) Used(shard string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.due[shard]; !known {
		k.await(shard, k.keep+rand.N(k.keep/2+1))
	}
}

// await has the handle look at a shard after a while. The caller has locked mu.
func (k *Keeper) await(shard string, after time.Duration) {
	k.due[shard] = k.at.Session.Age() + after
	k.arm()
}

// arm starts the timer for the next shard. The caller has locked mu.
func (k *Keeper) arm() {
	if k.busy || len(k.due) == 0 {
		return
	}
	next := slices.Min(slices.Collect(maps.Values(k.due)))
	k.owned.After(k, max(0, next-k.at.Session.Age()), k.next)
}

// next looks at the shard that is due.
func (k *Keeper) next() {
	k.mu.Lock()
	if k.busy || len(k.due) == 0 {
		k.mu.Unlock()
		return
	}
	shard := slices.MinFunc(slices.Collect(maps.Keys(k.due)), func(a, b string) int { return cmp.Compare(k.due[a], k.due[b]) })
	delete(k.due, shard)
	k.busy = true
	k.mu.Unlock()
	end := func(left bool, err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.busy = false
		switch _, known := k.due[shard]; {
		case client.IsAny(err, receipt.ErrClosed, session.ErrClosed):
			clear(k.due)
		case left && !known:
			k.await(shard, k.keep)
		default:
			k.arm()
		}
	}
	k.clean(&k.owned, shard, end, (*cleaning).cleanAll)
}

// Forget deletes a key if it is old. The set has the subscription. Without an error the key may be
// there, if another client has deleted a key of the shard meanwhile.
func (k *Keeper) Forget(set *owned.Set, node string, done func(error)) {
	shard, name := znode.Split(node)
	end := func(_ bool, err error) {
		if client.IsAny(err, session.ErrNoNode, session.ErrBadVersion) {
			err = nil
		}
		done(err)
	}
	k.clean(set, shard, end, func(s *cleaning) { s.drop([]string{name}) })
}

// A cleaning deletes old keys of a shard.
type cleaning struct {
	*Keeper

	requests client.Async // of one session: what is late is not done in another
	shard    string
	now      int64  // when it began, in ms by the server's clock, at the earliest
	mark     []byte // what it has written to the shard; nil if it deletes one key
	end      func(left bool, err error)
}

// IsOld reports whether a key is old at the time, in ms by the server's clock.
func (k *Keeper) IsOld(key *session.Stat, now int64) bool {
	return now-key.Ctime >= k.keep.Milliseconds()
}

// clean has f begin a cleaning. End is called when that is over, unless the set, which has the
// subscription, ends before there is a session. Left is set if the shard may have keys.
func (k *Keeper) clean(set *owned.Set, shard string, end func(left bool, err error), f func(*cleaning)) {
	stock.Present(k.at.Session, set, func(epoch int, err error) {
		k.receipts.Hold()
		s := &cleaning{Keeper: k, requests: k.at.Session.Async(epoch), shard: shard}
		s.end = func(left bool, err error) {
			end(left, err)
			k.receipts.Release()
		}
		if err = cmp.Or(err, k.receipts.Open()); err != nil {
			s.end(true, err)
			return
		}
		k.receipts.Now(epoch, func(low, _ int64, err error) {
			if s.now = low; err != nil {
				s.end(true, err)
				return
			}
			f(s)
		})
	})
}

// cleanAll deletes the old keys of the shard, and the shard if it has none for long. It leaves that
// to another client if one has begun it lately.
func (s *cleaning) cleanAll() {
	s.requests.Get(s.shard, func(data []byte, stat *session.Stat, err error) {
		marked, _ := strconv.ParseInt(string(data), 10, 64)
		switch {
		case errors.Is(err, session.ErrNoNode):
			s.end(false, nil)
		case err != nil:
			s.end(true, err)
		case stat.NumChildren == 0 && s.now-stat.Mtime >= max(s.keep/2, restShard).Milliseconds():
			s.requests.Delete(s.shard, stat.Version, func(err error) { s.end(err != nil, err) })
		case stat.NumChildren == 0 || s.now-marked < (s.keep/2).Milliseconds():
			s.end(true, nil)
		default:
			s.mark = strconv.AppendInt(nil, s.now, 10)
			s.requests.Set(s.shard, s.mark, stat.Version, func(_ *session.Stat, err error) {
				if err != nil {
					s.end(true, err)
					return
				}
				s.list()
			})
		}
	})
}

// list deletes the old keys among all.
func (s *cleaning) list() {
	s.requests.Children(s.shard, func(names []string, _ *session.Stat, err error) {
		if err != nil {
			s.end(true, err)
			return
		}
		s.drop(slices.Clone(names)) // they may belong to the session
	})
}

// drop deletes the old keys among the names, some at a time. The shard is read before them, and
// written to when they are deleted: so they are the keys that were read.
func (s *cleaning) drop(names []string) {
	if err := s.receipts.Open(); err != nil || len(names) == 0 {
		s.end(true, err)
		return
	}
	some, rest := names[:min(len(names), atOnce)], names[min(len(names), atOnce):]
	var version int32
	var old []string
	var failed error
	s.requests.Get(s.shard, func(data []byte, stat *session.Stat, err error) {
		switch {
		case err != nil:
			failed = err
		case s.mark != nil && !bytes.Equal(data, s.mark):
			failed = session.ErrBadVersion // another client cleans
		default:
			version, s.mark = stat.Version, append([]byte{}, data...)
		}
	})
	left := len(some)
	for _, name := range some {
		s.requests.Exists(znode.Join(s.shard, name), func(stat *session.Stat, err error) {
			switch {
			case client.Without(err, session.ErrNoNode) != nil:
				failed = err
			case stat != nil && s.IsOld(stat, s.now):
				old = append(old, name)
			}
			if left--; left > 0 {
				return
			}
			if failed != nil {
				s.end(true, failed)
				return
			}
			s.delete(version, old, rest)
		})
	}
}

// delete deletes old keys, if the shard has the version, and then those among the rest.
func (s *cleaning) delete(version int32, old, rest []string) {
	if len(old) == 0 {
		s.drop(rest)
		return
	}
	var ops []session.Op
	n := sharing.Halve(len(old), func(n int) bool {
		ops = []session.Op{session.SetOp(s.shard, s.mark, version)}
		for _, name := range old[:n] {
			ops = append(ops, session.DeleteOp(znode.Join(s.shard, name), session.AnyVersion))
		}
		return n == 1 || s.at.Session.Fits(ops...) == nil
	})
	s.requests.Multi(ops, func(_ []session.OpResult, err error) {
		switch {
		case err == nil:
			s.drop(slices.Concat(old[n:], rest))
		case errors.Is(err, session.ErrBadVersion): // another client has deleted an old key
			s.drop(slices.Concat(old, rest))
		default:
			s.end(true, err)
		}
	})
}
