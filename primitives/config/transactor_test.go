package config_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	accounts  = "/accounts"
	deletions = accounts + "/_config-deletions"
)

func transactors(t *testing.T, n int, config zktest.Config, play func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	config.Tick = time.Second
	kit.Sessions(t, config, n, session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}, play)
}

func transactor(t *testing.T, s *session.Session) *config.Transactor {
	t.Helper()
	return check.Open(config.NewTransactor(s, accounts, nil))(t)
}

// load and store are those of numbers.
func load(tx *config.Tx, name string) (int, error) { return loadWith(tx, name, config.JSON[int]) }

// loadWith is Load, whose error comes without a value.
func loadWith(tx *config.Tx, name string, codec func() config.Codec[int]) (int, error) {
	n, ok, err := config.Load(tx, name, codec)
	if err != nil && (n != 0 || ok) {
		err = fmt.Errorf("%d, %v beside an error: %s", n, ok, err.Error()) // which no test expects
	}
	return n, err
}

func store(tx *config.Tx, name string, n int) error {
	return config.Store(tx, name, config.JSON[int], n)
}

// change writes the balance of an account, which has no node if that is 0 and it is fleeting.
func change(tx *config.Tx, name string, balance int, fleeting bool) error {
	if balance == 0 && fleeting {
		return tx.Delete(name)
	}
	return store(tx, name, balance)
}

// transfer moves an amount from account 0 to account 1.
func transfer(ctx context.Context, tr *config.Transactor, amount int) error {
	return transferBetween(ctx, tr, "0", "1", amount, false)
}

// transferBetween moves an amount from one account to another.
func transferBetween(ctx context.Context, tr *config.Transactor, from, to string, amount int, fleeting bool) error {
	return tr.Do(ctx, func(tx *config.Tx) error {
		a, err := load(tx, from)
		if err != nil {
			return err
		}
		b, err := load(tx, to)
		if err != nil {
			return err
		}
		return errors.Join(change(tx, from, a-amount, fleeting), change(tx, to, b+amount, fleeting))
	})
}

func sum(ctx context.Context, tr *config.Transactor, n int) (total int, err error) {
	err = tr.Do(ctx, func(tx *config.Tx) error {
		total = 0
		for i := range n {
			v, err := load(tx, fmt.Sprint(i))
			if err != nil {
				return err
			}
			total += v
		}
		return nil
	})
	return total, err
}

// TestTransfers: money neither comes nor goes, at whatever moment a client looks, also on servers
// that lag.
func TestTransfers(t *testing.T) {
	lagging := zktest.Config{Replicas: 3, Lag: 20 * time.Millisecond}
	for name, c := range map[string]struct {
		zktest.Config
		fleeting bool
	}{"one server": {}, "servers that lag": {lagging, false}, "fleeting accounts": {lagging, true}} {
		t.Run(name, func(t *testing.T) {
			transactors(t, 4, c.Config, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				t.Helper()
				const n = 5
				amounts := 100
				if c.fleeting {
					amounts = 2
				}
				var callers sync.WaitGroup
				for i, s := range all {
					callers.Go(func() {
						r, tr := rand.New(rand.NewPCG(1, uint64(i))), transactor(t, s)
						for range hasten.Sized(50, 15) {
							p := r.Perm(n)
							check.OK(t, transferBetween(t.Context(), tr, fmt.Sprint(p[0]), fmt.Sprint(p[1]), r.IntN(amounts), c.fleeting))
							total, err := sum(t.Context(), tr, n)
							check.True(t, err == nil && total == 0, "%d, %v", total, err)
						}
					})
				}
				callers.Wait()
			})
		})
	}
}

// TestDeletedAgain: a value that was deleted and created again meanwhile, at the same version, is
// not taken for the one that was read.
func TestDeletedAgain(t *testing.T) {
	transactors(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		first, other := transactor(t, all[0]), transactor(t, all[1])
		set := func(name string, n int) {
			t.Helper()
			check.OK(t, other.Do(t.Context(), func(tx *config.Tx) error { return store(tx, name, n) }))
		}
		for round, name := range []string{"x", "x", "deep/below/x", "deep/below/y"} {
			set(name, 1)
			runs := 0
			before := srv.Requests().Total()
			check.OK(t, first.Do(t.Context(), func(tx *config.Tx) error {
				n, err := load(tx, name)
				check.OK(t, err)
				if runs++; runs == 1 {
					check.OK(t, other.Do(t.Context(), func(tx *config.Tx) error { return tx.Delete(name) }))
					set(name, 2)
				}
				return store(tx, "seen", n)
			}))
			check.Equal(t, runs, 2, round)
			check.OK(t, first.Do(t.Context(), func(tx *config.Tx) error {
				n, err := load(tx, "seen")
				check.True(t, n == 2, "%d: a value is written that rests on %d", round, n)
				return errors.Join(err, tx.Delete(name))
			}))
			t.Log(srv.Requests().Total()-before, "requests")
		}

		// When nothing is deleted, it costs no request more.
		check.OK(t, transfer(t.Context(), first, 1))
		check.OK(t, transfer(t.Context(), first, 1))
		before := srv.Requests().Total()
		check.OK(t, transfer(t.Context(), first, 1))
		check.Equal(t, srv.Requests().Total()-before, 3)
	})
}

// TestDeletedBeforeTheyAreKnown: the first value that a transactor reads counts only as it is after
// the deletions were read.
func TestDeletedBeforeTheyAreKnown(t *testing.T) {
	transactors(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		first, other := transactor(t, all[0]), transactor(t, all[1])
		set := func(n int) error {
			return other.Do(t.Context(), func(tx *config.Tx) error { return store(tx, "x", n) })
		}
		check.Must(t, set(1))
		srv.Delay(zktest.Match{Op: zktest.OpGetData, Path: deletions, Session: all[0].ID()}, time.Second)
		done := kit.Begin(func() error {
			return first.Do(t.Context(), func(tx *config.Tx) error {
				n, err := load(tx, "x")
				return errors.Join(err, store(tx, "seen", n))
			})
		})
		check.Must(t, other.Do(t.Context(), func(tx *config.Tx) error { return tx.Delete("x") }))
		check.Must(t, set(2))
		check.Must(t, <-done)
		check.Must(t, first.Do(t.Context(), func(tx *config.Tx) error {
			n, err := load(tx, "seen")
			check.Equal(t, n, 2, "a value is written that rests on")
			return err
		}))
	})
}

// TestOwnDeletions: after a deletion of its own a transactor reads the deletions anew, and again if
// that fails: so its next transaction runs once.
func TestOwnDeletions(t *testing.T) {
	transactors(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		const systemError = -1
		tr, runs := transactor(t, all[0]), 0
		move := func() error {
			runs = 0
			return tr.Do(t.Context(), func(tx *config.Tx) error {
				runs++
				n, err := load(tx, "x")
				return errors.Join(err, store(tx, "y", n))
			})
		}
		for _, fails := range []bool{false, true} {
			check.Must(t, tr.Do(t.Context(), func(tx *config.Tx) error { return store(tx, "x", 1) }))
			check.Must(t, tr.Do(t.Context(), func(tx *config.Tx) error { return tx.Delete("x") }))
			if fails {
				srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: deletions}, systemError)
				err := move()
				var failed *session.ServerError
				check.True(t, errors.As(err, &failed) && strings.Contains(err.Error(), deletions), "%v", err)
			}
			check.Must(t, move())
			check.Equal(t, runs, 1, "runs, after a failure:", fails)
		}
	})
}

// TestNoDeletions: a client that may not see the deletions reads and writes, but does not delete.
func TestNoDeletions(t *testing.T) {
	transactors(t, 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		t.Helper()
		tr := transactor(t, all[0])
		check.OK(t, transfer(t.Context(), tr, 1))
		check.OK(t, transfer(t.Context(), tr, 1))
		forbidden := func() {
			t.Helper()
			tr := transactor(t, all[1])
			check.OK(t, transfer(t.Context(), tr, 1))
			err := tr.Do(t.Context(), func(tx *config.Tx) error { return tx.Delete("0") })
			check.Is(t, err, session.ErrNoAuth)
			check.True(t, strings.Contains(fmt.Sprint(err), deletions), "%v does not name it", err)
		}
		permit := func(path string, perms session.Perms) {
			t.Helper()
			_, err := all[0].SetACL(t.Context(), path, []session.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}, session.AnyVersion)
			check.OK(t, err)
		}
		permit(deletions, session.PermAdmin)
		forbidden()
		check.OK(t, transactor(t, all[1]).Do(t.Context(), func(tx *config.Tx) error { return tx.Delete("never") }))

		// Nor a client that may not create them.
		check.OK(t, all[0].Delete(t.Context(), deletions, session.AnyVersion))
		permit(accounts, session.PermRead|session.PermAdmin)
		forbidden()
	})
}

// TestMissing: what a transaction does not find, it does not leave either; whether its function
// fails, reads or writes.
func TestMissing(t *testing.T) {
	transactors(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		tr, failed := transactor(t, all[0]), errors.New("failed")
		is := func(tx *config.Tx, names ...string) (err error) {
			for _, name := range names {
				_, ok, failed := config.Load(tx, name, config.JSON[int])
				check.False(t, ok, "%s is there", name)
				err = errors.Join(err, failed)
			}
			return err
		}
		value := check.Open(config.Open(all[0], accounts+"/a", config.JSON[int], nil))(t)
		for range 2 {
			check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error { return is(tx, "a/b", "a/c") }))
			check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error { return is(tx, "a", "a/b", "a/b/c", "d/e/f") }))
			check.Is(t, tr.Do(t.Context(), func(tx *config.Tx) error { return errors.Join(is(tx, "x/y", "x/y/z"), failed) }), failed)
			check.Is(t, tr.Do(t.Context(), func(tx *config.Tx) error { return errors.Join(store(tx, "x/y", 1), failed) }), failed)
			check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error { return errors.Join(is(tx, "p/q/r", "p/s"), store(tx, "there", 1)) }))
			for _, p := range srv.Paths() {
				name, below := strings.CutPrefix(p, accounts+"/")
				check.False(t, below && name != "there" && !strings.HasPrefix(name, "_config"), "%s is left", p)
			}
		}
		_, version, err := value.Get(t.Context())
		check.True(t, errors.Is(err, session.ErrNoNode), "%d, %v", version, err)

		// A directory that is missing above many is created, and deleted, once.
		changes := func() int32 {
			return check.Have(all[0].Exists(t.Context(), accounts))(t).Cversion
		}
		before := changes()
		check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error { return is(tx, "p/q", "p/r", "p/s/t") }))
		check.Equal(t, changes()-before, 2, "changes of the directory")

		// Values below values, in one transaction.
		check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error {
			return errors.Join(store(tx, "a/b/c", 3), store(tx, "a/b", 2), store(tx, "a", 1), is(tx, "a/d", "e/f"))
		}))
		got, version, err := value.Get(t.Context())
		check.True(t, got == 1 && version == 0 && err == nil, "%d at version %d, %v: the first write of it is its creation", got, version, err)
		check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error {
			return errors.Join(tx.Delete("a"), tx.Delete("a/b"), tx.Delete("a/b/c"))
		}))
		check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error { return is(tx, "a", "a/b") }))
		for _, name := range []string{"_config-deletions", "_config-markers", "_config-markers/x"} {
			check.Is(t, tr.Do(t.Context(), func(tx *config.Tx) error { return store(tx, name, 1) }), session.ErrInvalidPath)
		}
	})
}

// TestTransactorCrowd: many write one value at once, and each steps back.
func TestTransactorCrowd(t *testing.T) {
	const n = 100
	transactors(t, 5, zktest.Config{Latency: 5 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		var callers sync.WaitGroup
		for i := range n {
			tr := transactor(t, all[i%5])
			callers.Go(func() {
				check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error {
					v, err := load(tx, "n")
					return errors.Join(err, store(tx, "n", v+1))
				}))
			})
		}
		began := time.Now()
		callers.Wait()
		t.Logf("%v in %v", srv.Requests(), time.Since(began))
		check.True(t, srv.Requests().Total() < 60*n, "%v", srv.Requests())
		v := check.Open(config.Open(all[0], accounts+"/n", config.JSON[int], nil))(t)
		got, _, err := v.Get(t.Context())
		check.True(t, got == n && err == nil, "%d, %v", got, err)
	})
}

// TestTransactorClosedDisconnected: Close waits for a write no longer than the session lives.
func TestTransactorClosedDisconnected(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
		g := w.OpenGated(session.Options{Timeout: 6 * time.Second, ServerTick: time.Second})
		tr := check.Open(config.NewTransactor(g.Session, accounts, nil))(w)
		check.OK(w, transfer(w.Context(), tr, 1))
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() {
			done <- tr.Do(ctx, func(tx *config.Tx) error {
				defer g.Cut()
				return store(tx, "0", 0)
			})
		}()
		kit.Pass(time.Second)
		began := time.Now()
		tr.Close()
		check.True(w, time.Since(began) < 10*time.Second, "%v", time.Since(began))
		began = time.Now()
		tr.Close()
		check.Equal(w, time.Since(began), 0)
		cancel()
		check.Is(w, <-done, context.Canceled)
		check.Is(w, tr.Do(w.Context(), func(*config.Tx) error { return nil }), config.ErrClosed)
	})
}

// TestWriteSkew: two that have read the same, and write different values, are not both done on it.
func TestWriteSkew(t *testing.T) {
	transactors(t, 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		t.Helper()
		for round := range 30 {
			on := fmt.Sprintf("on-call-%d-", round)
			first := transactor(t, all[0])
			check.OK(t, first.Do(t.Context(), func(tx *config.Tx) error { return errors.Join(store(tx, on+"0", 1), store(tx, on+"1", 1)) }))
			var callers sync.WaitGroup
			for i, s := range all {
				callers.Go(func() { // each may go home if the other stays
					tr := transactor(t, s)
					check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error {
						a, err := load(tx, on+"0")
						b, err2 := load(tx, on+"1")
						if a+b < 2 || errors.Join(err, err2) != nil {
							return errors.Join(err, err2)
						}
						return store(tx, on+fmt.Sprint(i), 0)
					}))
				})
			}
			callers.Wait()
			check.OK(t, first.Do(t.Context(), func(tx *config.Tx) error {
				a, _ := load(tx, on+"0")
				b, _ := load(tx, on+"1")
				check.True(t, a+b == 1, "%d and %d are on call", a, b)
				return nil
			}))
		}
	})
}

// TestTransactorTrouble loses each request, or its reply: each transaction is done once.
func TestTransactorTrouble(t *testing.T) {
	for _, lose := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply} {
		for skip := range 24 {
			transactors(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				t.Helper()
				lose(srv, zktest.Match{Session: all[0].ID(), Skip: skip})
				tr := transactor(t, all[0])
				for range 4 {
					check.OK(t, transfer(t.Context(), tr, 10), skip)
				}
				check.OK(t, transactor(t, all[1]).Do(t.Context(), func(tx *config.Tx) error {
					a, err := load(tx, "0")
					b, err2 := load(tx, "1")
					check.True(t, a == -40 && b == 40, "%d: %d and %d", skip, a, b)
					return errors.Join(err, err2)
				}))
			})
		}
	}
}

// TestReadsInTrouble: a transaction that only reads runs again, whatever is lost, and is never in
// doubt.
func TestReadsInTrouble(t *testing.T) {
	const throttled = -127
	busy := func(srv *zktest.Server, m zktest.Match) { srv.AnswerError(m, throttled) }
	transactors(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		tr := transactor(t, all[0])
		check.OK(t, transfer(t.Context(), tr, 10))
		for i, fail := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply, busy} {
			for last, op := range map[string]zktest.Op{"1": zktest.OpCheck, "missing": zktest.OpMulti} {
				fail(srv, zktest.Match{Op: op})
				runs := 0
				check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error {
					runs++
					_, err := load(tx, "0")
					_, err2 := load(tx, last)
					return errors.Join(err, err2)
				}), i, last)
				check.Equal(t, runs, 2, i, last)
			}
		}
	})
}

// TestTx: what a transaction sees of its own writes, of values that are not there, and of others.
func TestTx(t *testing.T) {
	transactors(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		tr := transactor(t, all[0])
		do := func(f func(tx *config.Tx) error) error { return tr.Do(t.Context(), f) }
		is := func(tx *config.Tx, name string, want int, exists bool) {
			t.Helper()
			got, ok, err := config.Load(tx, name, config.JSON[int])
			check.True(t, got == want && ok == exists && err == nil, "%s: %d, %v, %v", name, got, ok, err)
		}
		check.OK(t, do(func(tx *config.Tx) error {
			is(tx, "a", 0, false)
			check.OK(t, store(tx, "a", 1))
			is(tx, "a", 1, true)
			check.OK(t, tx.Delete("a"))
			is(tx, "a", 0, false)
			check.OK(t, tx.Delete("never"))
			return store(tx, "deep/below", 7)
		}))
		v := check.Open(config.Open(all[1], accounts+"/deep/below", config.JSON[int], nil))(t)
		got, _, err := v.Get(t.Context())
		check.True(t, got == 7 && err == nil, "%d, %v", got, err)

		// Another client writes while the function runs, and it runs again.
		runs := 0
		check.OK(t, do(func(tx *config.Tx) error {
			n, err := load(tx, "deep/below")
			check.OK(t, err)
			if runs++; runs == 1 {
				check.OK(t, v.Set(t.Context(), 8))
			}
			return store(tx, "copy", n)
		}))
		check.Equal(t, runs, 2)
		check.OK(t, do(func(tx *config.Tx) error { is(tx, "copy", 8, true); return tx.Delete("copy") }))
		check.OK(t, do(func(tx *config.Tx) error { is(tx, "copy", 0, false); return nil }))

		// An error of the function counts if it has seen one moment, and then nothing is written.
		why := errors.New("too little")
		runs = 0
		check.Is(t, do(func(tx *config.Tx) error {
			is(tx, "copy", 0, false)
			n, err := load(tx, "deep/below")
			if runs++; runs == 1 {
				check.OK(t, v.Set(t.Context(), 9))
			}
			return errors.Join(err, store(tx, "copy", 1), fmt.Errorf("%w: %d", why, n))
		}), why)
		check.Equal(t, runs, 2)
		check.OK(t, do(func(tx *config.Tx) error { is(tx, "copy", 0, false); return nil }))

		// A value that is created meanwhile.
		runs = 0
		check.OK(t, do(func(tx *config.Tx) error {
			_, ok, err := config.Load(tx, "new", config.JSON[int])
			if runs++; runs == 1 {
				_, err := all[1].Create(t.Context(), accounts+"/new", []byte("5"), session.Persistent)
				check.OK(t, err)
			}
			if !ok {
				return errors.Join(err, store(tx, "seen", -1))
			}
			return errors.Join(err, store(tx, "seen", 5))
		}))
		check.OK(t, do(func(tx *config.Tx) error { is(tx, "seen", 5, true); return nil }))

		// What only reads has no marker, and one reading is of one moment.
		for names, want := range map[string]int{"": 0, "seen": 1, "seen new": 3} {
			reader := transactor(t, all[0])
			// It knows the deletions then.
			check.OK(t, reader.Do(t.Context(), func(tx *config.Tx) error { _, err := load(tx, "seen"); return err }))
			before := srv.Requests().Total()
			check.OK(t, reader.Do(t.Context(), func(tx *config.Tx) error {
				for name := range strings.FieldsSeq(names) {
					is(tx, name, 5, true)
				}
				return nil
			}))
			check.Equal(t, srv.Requests().Total()-before, want, names)
		}
		tr.Close()
		tr.Close()
		check.Is(t, do(func(tx *config.Tx) error { return store(tx, "a", 1) }), config.ErrClosed)
		for _, p := range srv.Paths() {
			check.False(t, strings.Contains(p, "transactor"), "%s is left", p)
		}
	})
}

// TestTransactorRefuses bad arguments, and data that do not decode.
func TestTransactorRefuses(t *testing.T) {
	transactors(t, 1, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		t.Helper()
		_, err := config.NewTransactor(all[0], "accounts", nil)
		check.Is(t, err, session.ErrInvalidPath)
		_, err = config.NewTransactor(all[0], accounts, &config.Options{Markers: "x"})
		check.Is(t, err, session.ErrInvalidPath)
		tr := transactor(t, all[0])
		for _, verb := range []string{"%v", "%+v", "%d"} {
			check.Equal(t, fmt.Sprintf(verb, tr), "transactor of "+accounts)
		}
		check.Is(t, tr.Do(t.Context(), nil), session.ErrInvalidArgument)
		_, err = all[0].Create(t.Context(), accounts, nil, session.Container)
		check.OK(t, err)
		_, err = all[0].Create(t.Context(), accounts+"/bad", []byte("x"), session.Persistent)
		check.OK(t, err)
		for want, f := range map[error]func(tx *config.Tx) error{
			session.ErrInvalidPath:     func(tx *config.Tx) error { return store(tx, "..", 1) },
			config.ErrInvalid:          func(tx *config.Tx) error { _, err := load(tx, "bad"); return err },
			session.ErrInvalidArgument: func(tx *config.Tx) error { return config.Store(tx, "a", nil, 1) },
			session.ErrTooLarge: func(tx *config.Tx) error {
				return config.Store(tx, "a", config.Text, strings.Repeat("x", 2<<20))
			},
		} {
			check.Is(t, tr.Do(t.Context(), f), want)
		}
		check.Is(t, tr.Do(t.Context(), func(tx *config.Tx) error { _, err := load(tx, ".."); return err }), session.ErrInvalidPath)
		check.Is(t, tr.Do(t.Context(), func(tx *config.Tx) error { _, err := loadWith(tx, "a", nil); return err }), session.ErrInvalidArgument)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Is(t, tr.Do(ctx, func(*config.Tx) error { return nil }), context.Canceled)
	})
}

// TestTxIsOver: a Tx whose function has returned refuses reads and writes, which would be lost in
// silence. So does the zero Tx.
func TestTxIsOver(t *testing.T) {
	transactors(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		tr := transactor(t, all[0])
		var done, failed, left, none *config.Tx
		errFailed := errors.New("failed")
		check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error { done = tx; return store(tx, "0", 1) }))
		check.Is(t, tr.Do(t.Context(), func(tx *config.Tx) error { failed = tx; return errFailed }), errFailed)
		check.True(t, actors.Contain(func() {
			_ = tr.Do(t.Context(), func(tx *config.Tx) error { left = tx; panic("left") })
		}) != nil, "no panic")
		synctest.Wait()
		srv.ResetRequests()
		for name, tx := range map[string]*config.Tx{"done": done, "failed": failed, "left": left, "nil": none, "the zero one": {}} {
			for of, err := range map[string]error{"Load": with(load(tx, "0")), "Store": store(tx, "0", 2), "Delete": tx.Delete("0")} {
				check.True(t, errors.Is(err, session.ErrInvalidArgument) && strings.Contains(err.Error(), "tx"), "%s, %s: %v", name, of, err)
			}
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")
	})
}

func with[T any](_ T, err error) error { return err }
