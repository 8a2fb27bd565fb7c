package queue_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestForeignClaims: a persistent node in the place of a claim would hide its item for ever. It is
// refused by name, whatever else there is. A claim of a consumer that works for long is not.
func TestForeignClaims(t *testing.T) {
	for _, others := range []int{0, 3} {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q, other := open(t, s[0], nil), open(t, s[1], nil)
			put(t, q, "hidden")
			c := consume(t, q, 1)
			item := next(t, c)
			put(t, q, numbers(others)...)
			begin := func() (takes <-chan error) {
				for range others {
					check.Have(other.TryTake(t.Context()))(t)
				}
				return beginTake(t.Context(), other)
			}
			takes := begin()
			kit.Pass(time.Hour)
			srv.ResetRequests()
			kit.Pass(time.Hour)
			got := srv.Requests()
			check.Equal(t, got.Total()-got[zktest.OpSync]-got[zktest.OpPing], 0, "requests of an idle call")
			check.None(t, takes)
			check.Must(t, item.RejectAfter(t.Context(), 0, nil))
			c.Close()
			check.Must(t, answered(t, takes))

			put(t, q, "hidden")
			c = consume(t, q, 1)
			item = next(t, c)
			check.Must(t, item.RejectAfter(t.Context(), 0, nil))
			c.Close()
			claim := at + "/claims/" + item.ID
			check.Must(t, s[0].EnsurePath(t.Context(), claim))
			put(t, q, numbers(others)...)
			takes = begin()
			kit.Pass(2 * time.Minute)
			refused(t, answered(t, takes), queue.ErrLayout, claim)
			_, err := q.Peek(t.Context())
			if isEmpty(err) {
				_, err = q.Peek(t.Context())
			}
			refused(t, err, queue.ErrLayout, claim)
			c = consume(t, open(t, s[1], nil), 1)
			kit.Pass(2 * time.Minute)
			<-c.Done()
			refused(t, c.Err(), queue.ErrLayout, claim)
			check.Must(t, s[0].Delete(t.Context(), claim, session.AnyVersion))
			check.EqualSlices(t, drain(t, q), []string{"hidden"}, "left")
		})
	}
}

// TestReadUnderWay: a call does not find the queue empty because of a read that another call of the
// session has begun before the first item was put, and that is answered later.
func TestReadUnderWay(t *testing.T) {
	const trip = time.Second // one way
	const bucket = at + "/items/2147483648-0000000000"
	for put := time.Duration(0); put < 12*trip; put += trip / 2 {
		bubbled(t, zktest.Config{Latency: trip}, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			check.Must(t, s[0].EnsurePath(t.Context(), at))
			q, waits := open(t, s[0], nil), open(t, s[0], nil)
			check.Fails(q.TryTake(t.Context()))(t, queue.ErrEmpty)
			takes := beginTake(t.Context(), waits)
			kit.Pass(put)
			go func() {
				_, err := s[1].Multi(t.Context(), session.CreateOp(at+"/items", nil, session.Persistent), session.CreateOp(bucket, nil, session.Persistent),
					session.CreateOp(bucket+"/_c_00000000-0000-4000-8000-000000000000-item-", []byte("first"), session.PersistentSequential),
					session.CreateOp(bucket+"/_c_00000000-0000-4000-8000-000000000001-item-", []byte("second"), session.PersistentSequential))
				check.OK(t, err)
			}()
			kit.Pass(trip + time.Millisecond)
			_, err := q.TryTake(t.Context())
			check.OK(t, err, "put after", put)
			check.Must(t, answered(t, takes))
		})
	}
}
