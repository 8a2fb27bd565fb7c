package semaphore_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A tenancy is what the server says of one lease: the zxids of the node's creation, and of
// the first and the last transaction that its guard let pass while its holder believed in
// it.
type tenancy struct {
	weight, number       int
	created, first, last int64
}

// A history is what clients saw, in the server's own time.
type history struct {
	mu        sync.Mutex
	tenancies []tenancy
	limits    []limited
}

// limited is a limit that was set at a zxid.
type limited struct {
	zxid  int64
	limit int
}

// guarded writes under the guard of the lease, and returns at which zxid.
func guarded(ctx context.Context, s *session.Session, l *semaphore.Lease, node string) (int64, error) {
	results, err := s.Multi(ctx, l.Guard(), session.SetOp(node, nil, session.AnyVersion))
	if err != nil {
		return 0, err
	}
	return results[1].Stat.Mzxid, nil
}

// greatest returns the greatest limit that was in force at a zxid between from and to.
func (h *history) greatest(from, to int64) int {
	most := 0
	for i, l := range h.limits {
		if l.zxid <= to && (i+1 == len(h.limits) || h.limits[i+1].zxid > from) {
			most = max(most, l.limit)
		}
	}
	return most
}

// check looks at every zxid at which a lease was first seen to be held. All who hold then
// were in line already when the last of them in line was let in: so their weights in sum
// are within the limit of that moment.
func (h *history) check(t *testing.T) (most int) {
	t.Helper()
	slices.SortFunc(h.limits, func(a, b limited) int { return cmp.Compare(a.zxid, b.zxid) })
	for _, at := range h.tenancies {
		sum, last := 0, tenancy{}
		for _, other := range h.tenancies {
			if other.first <= at.first && at.first <= other.last {
				sum += other.weight
				check.True(t, other.number < 0 || other == at || other.number != at.number, "number %d twice, at zxid %d", at.number, at.first)
				if other.created > last.created {
					last = other
				}
			}
		}
		limit := h.greatest(last.created, last.first)
		check.AtMost(t, sum, limit, "are held at zxid", at.first, "and the limit was at most when the last was let in, in (", last.created, last.first, ")")
		most = max(most, sum)
	}
	return most
}

// TestHistory: at no zxid are there leases of more weight than the limit lets in, whatever
// happens to clients, their nodes, their connections and the limit meanwhile, and all who
// wait get on.
func TestHistory(t *testing.T) {
	const sessions, clients, patience = 4, 10, 90 * time.Second
	rounds := hasten.Sized(hasten.Usually(25, 12), 8)
	for name, c := range map[string]struct {
		weights                int
		limits, strikes, razes bool
		numbered               bool
	}{
		"units":                   {weights: 1},
		"weights":                 {weights: 3},
		"units, limits":           {weights: 1, limits: true},
		"weights, limits":         {weights: 3, limits: true},
		"weights, limits, deaths": {weights: 3, limits: true, strikes: true},
		"weights, razed":          {weights: 3, strikes: true, razes: true},
		"numbers, deaths":         {weights: 1, strikes: true, numbered: true},
		"numbers, limits, deaths": {weights: 3, limits: true, strikes: true, numbered: true},
		"numbers, razed":          {weights: 1, strikes: true, razes: true, numbered: true},
	} {
		for seed := range hasten.Sized[uint64](2, 1) {
			runInBubble(t, fmt.Sprint(name, " ", seed), sessions+1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				operator := all[sessions]
				setLimit(t, operator, 4)
				check.Must(t, operator.EnsurePath(t.Context(), "/marks"))
				var h history
				_, stat, err := operator.Get(t.Context(), path)
				check.Must(t, err)
				h.limits = []limited{{stat.Mzxid, 4}}
				var wg, operators sync.WaitGroup
				over := make(chan struct{})
				operators.Go(func() {
					r := rand.New(rand.NewPCG(seed, 99))
					for {
						select {
						case <-over:
							return
						case <-time.After(time.Duration(r.IntN(80)) * time.Millisecond):
						}
						if c.limits {
							limit := c.weights + r.IntN(5)
							if r.IntN(3) > 0 {
								setLimit(t, operator, limit)
							} else if _, err := operator.Set(t.Context(), path, []byte(strconv.Itoa(limit)), session.AnyVersion); err != nil { // by hand
								t.Error(err)
							}
							_, stat, err := operator.Get(t.Context(), path)
							if err != nil {
								t.Error(err)
								return
							}
							h.mu.Lock()
							h.limits = append(h.limits, limited{stat.Mzxid, limit})
							h.mu.Unlock()
						}
						if c.razes && r.IntN(4) == 0 { // and whichever contender comes first makes it anew
							raze(t, operator, path)
						}
						if !c.strikes {
							continue
						}
						switch s := all[r.IntN(sessions)]; r.IntN(12) {
						case 0:
							srv.Expire(s.ID())
						case 1:
							srv.Disconnect(s.ID())
						case 2:
							srv.DropReply(zktest.Match{Session: s.ID()})
						case 3:
							if names := children(t, operator); len(names) > 0 {
								_ = operator.Delete(t.Context(), path+"/leases/"+names[r.IntN(len(names))], session.AnyVersion)
							}
						}
					}
				})
				for i := range clients {
					r, s, mark := rand.New(rand.NewPCG(seed, uint64(i))), all[i%sessions], fmt.Sprint("/marks/", i)
					check.Must(t, operator.EnsurePath(t.Context(), mark))
					wg.Go(func() {
						for range rounds {
							held := tenancy{weight: 1 + r.IntN(c.weights)}
							ctx, cancel := context.WithTimeout(t.Context(), patience)
							l, err := semaphore.Acquire(ctx, s, path, 4, &semaphore.Options{Weight: held.weight, AnyLimit: true, Numbered: c.numbered})
							cancel()
							if err != nil {
								t.Error(err)
								return
							}
							held.created, held.number = l.ID(), l.Number()
							if c.razes { // also the numbers of leases that are held
								held.number = -1
							}
							if c.numbered { // the ID is that of the number
								stat, err := s.Exists(t.Context(), l.Node())
								if check.OK(t, err); stat == nil {
									l.Close()
									continue
								}
								held.created = stat.Czxid
							}
							if held.first, err = guarded(t.Context(), s, l, mark); err == nil {
								<-time.After(time.Duration(r.IntN(60)) * time.Millisecond)
								if held.last, err = guarded(t.Context(), s, l, mark); err != nil {
									held.last = held.first
								}
								h.mu.Lock()
								h.tenancies = append(h.tenancies, held)
								h.mu.Unlock()
							} else if !c.strikes {
								t.Error(err)
							}
							l.Close()
						}
					})
				}
				wg.Wait()
				close(over)
				operators.Wait()
				srv.ClearFaults()
				most := h.check(t)
				t.Logf("%d leases, at most %d held at once, %d limits", len(h.tenancies), most, len(h.limits))
				<-time.After(10 * time.Second)
				check.Len(t, children(t, operator), 0, "are left")
			}, zktest.Replicas(3, 4*time.Millisecond), zktest.Latency(time.Millisecond))
		}
	}
}

// raze deletes a node and all below it, as far as these are not made anew meanwhile.
func raze(t *testing.T, s *session.Session, node string) {
	t.Helper()
	names, _, err := s.Children(t.Context(), node)
	check.OK(t, client.Without(err, session.ErrNoNode))
	for _, name := range names {
		raze(t, s, node+"/"+name)
	}
	err = s.Delete(t.Context(), node, session.AnyVersion)
	check.OK(t, client.Without(client.Without(err, session.ErrNoNode), session.ErrNotEmpty))
}

// TestQuiet: after any burst of whatever happens, when nothing happens any more, all hold
// their leases for whom there is room, and Holders says who does.
func TestQuiet(t *testing.T) {
	const sessions, bursts, places = 4, 25, 7
	for seed := range hasten.Sized(hasten.Usually[uint64](12, 4), 3) {
		runInBubble(t, fmt.Sprint(seed), sessions+1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			operator, r := all[sessions], rand.New(rand.NewPCG(seed, 7))
			weights := 1 + int(seed%3)
			setLimit(t, operator, 4)
			leases := make([]*semaphore.Lease, places)
			for burst := range bursts {
				for range 1 + r.IntN(4) {
					switch i := r.IntN(places); {
					case r.IntN(5) == 0:
						setLimit(t, operator, weights+r.IntN(4))
					case r.IntN(16) == 0:
						srv.Disconnect(all[r.IntN(sessions)].ID())
					case r.IntN(16) == 0:
						srv.DropReply(zktest.Match{Session: all[r.IntN(sessions)].ID()})
					case r.IntN(30) == 0:
						srv.Expire(all[r.IntN(sessions)].ID())
					case r.IntN(16) == 0:
						if names := children(t, operator); len(names) > 0 {
							_ = operator.Delete(t.Context(), path+"/leases/"+names[r.IntN(len(names))], session.AnyVersion)
						}
					case leases[i] == nil:
						leases[i] = join(t, all[r.IntN(sessions)], 4, &semaphore.Options{Weight: 1 + r.IntN(weights), AnyLimit: true, Data: []byte{byte(i)}})
					default:
						go leases[i].Close()
						leases[i] = nil
					}
					<-time.After(time.Duration(r.IntN(6)) * time.Millisecond)
				}
				<-time.After(20 * time.Second)
				srv.ClearFaults()
				for i, l := range leases {
					if l != nil && l.Err() != nil {
						l.Close()
						leases[i] = nil
					}
				}
				settled(t, operator, burst, leases)
			}
			for _, l := range leases {
				if l != nil {
					l.Close()
				}
			}
			<-time.After(time.Second) // for the operator's replica
			check.Len(t, children(t, operator), 0, "are left")
		}, zktest.Replicas(3, 4*time.Millisecond), zktest.Latency(time.Millisecond))
	}
}

// settled expects that all for whom there is room hold their leases.
func settled(t *testing.T, s *session.Session, burst int, leases []*semaphore.Lease) {
	t.Helper()
	limit := check.Have(semaphore.Limit(t.Context(), s, path))(t)
	names := children(t, s)
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a[len(a)-10:], b[len(b)-10:]) })
	sum, room, want := 0, []byte(nil), []byte(nil)
	for _, name := range names {
		data, _, err := s.Get(t.Context(), path+"/leases/"+name)
		check.Must(t, err)
		weight := 1
		if parts := strings.Split(name, "-"); len(parts[len(parts)-2]) == 1 {
			weight = int(parts[len(parts)-2][0] - '0')
		}
		i := data[0]
		if sum += weight; sum <= limit {
			room = append(room, i)
		}
		if l := leases[i]; l != nil && held(l) {
			want = append(want, i)
		} else if l == nil {
			t.Errorf("burst %d: %q of nobody", burst, name)
		} else if sum <= limit {
			t.Errorf("burst %d: %d waits, with all ahead %d of %d", burst, i, sum, limit)
		}
	}
	holders, err := semaphore.Holders(t.Context(), s, path)
	var got []byte
	for _, h := range holders {
		got = append(got, h.Data...)
	}
	check.True(t, err == nil && slices.Equal(got, want), "burst %d: holders are %v, want %v (room for %v); %v", burst, got, want, room, err)
}
