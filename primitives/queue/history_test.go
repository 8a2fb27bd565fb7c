package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// The options of a soak: items are rejected often, and soon come again, or become dead letters.
var (
	soakOptions = queue.Options{MaxAttempts: 2}
	soakBackoff = queue.Backoff{First: 10 * time.Millisecond, Most: 100 * time.Millisecond}
)

// A life is what is known of the deliveries of an item.
type life struct {
	due      time.Time // it is not delivered before
	doomed   bool      // it is rejected until it has been a dead letter
	received int       // since it was put, or redriven
	redriven int
	acked    int      // the attempt that was acknowledged
	causes   []string // of its rejections
	sure     bool     // the last rejection is confirmed
	buried   time.Time
}

// A history is a ledger with deliveries and dead letters.
type history struct {
	*testing.T
	*ledger
	lives                       map[string]*life
	rejections, dead, delivered int
	unreceived                  int // attempts that were counted, and that no reader received
}

func newHistory(t *testing.T) *history {
	return &history{T: t, ledger: newLedger(), lives: map[string]*life{}}
}

// begins notes that items are to be put.
func (h *history) begins(doomed bool, delay time.Duration, items ...string) {
	h.noted(func() {
		for _, x := range items {
			h.lives[x] = &life{due: time.Now().Add(delay), doomed: doomed}
		}
	})
}

// takes notes the outcome of a Take.
func (h *history) takes(data [][]byte, err error) {
	h.noted(func() {
		for _, d := range data {
			x := string(d)
			h.timely(x)
			h.left(x, err, h.taken)
		}
	})
}

func (h *history) timely(x string) {
	if early := time.Until(h.lives[x].due); early > 0 {
		h.Errorf("%s is delivered %v early", x, early)
	}
}

// receives checks a delivery.
func (h *history) receives(item queue.Item) (doomed bool) {
	x := string(item.Data)
	h.noted(func() {
		h.timely(x)
		l := h.lives[x]
		l.received++
		h.delivered++
		if item.Attempt > l.received { // a crash came between a claim for a reader that waited, and its delivery
			h.unreceived++
			l.received++
		}
		check.True(h, item.Attempt <= l.received, "%s: attempt %d in delivery %d", x, item.Attempt, l.received)
		check.False(h, h.acked[x] > 0 && l.redriven == 0 && item.Attempt > l.acked, "attempt %d of %s, which was acknowledged as attempt %d", item.Attempt, x, l.acked)
		h.because(x, item.Cause)
		doomed = l.doomed && l.redriven == 0
	})
	return doomed
}

// because checks the cause of the last rejection.
func (h *history) because(x, cause string) {
	l := h.lives[x]
	switch {
	case cause == "" && len(l.causes) == 0:
	case l.sure && cause != l.causes[len(l.causes)-1], cause != "" && !slices.Contains(l.causes, cause):
		h.Errorf("%s: its cause is %q, of %q", x, cause, l.causes)
	}
}

// settle acknowledges or rejects an item.
func (h *history) settle(ctx context.Context, item queue.Item, doomed bool) {
	x := string(item.Data)
	chance := rand.IntN(20)
	if chance > 3 && !doomed {
		err := item.Ack(ctx)
		h.noted(func() {
			h.left(x, err, h.acked)
			if err == nil {
				h.lives[x].acked = item.Attempt
			}
		})
		return
	}
	var l *life
	var cause string
	h.noted(func() {
		l = h.lives[x]
		h.rejections++
		cause = fmt.Sprintf("no, %d times: %s", len(l.causes)+1, x)
		l.causes, l.sure = append(l.causes, cause), false
	})
	delay := time.Duration(chance) * 20 * time.Millisecond // or none
	err := item.RejectAfter(ctx, delay, fmt.Errorf("%s", cause))
	h.noted(func() { l.sure = err == nil && l.causes[len(l.causes)-1] == cause })
}

// redrive has the dead letters tried again, until the context ends.
func (h *history) redrive(ctx context.Context, s *session.Session) {
	dead, err := queue.DeadLetters(context.WithoutCancel(ctx), s, at, &soakOptions)
	check.Must(h, err)
	for ctx.Err() == nil {
		var ids []string
		for letter, err := range dead.All(ctx) {
			if err != nil {
				break // it is tried again
			}
			h.buried(letter)
			ids = append(ids, letter.ID)
		}
		if len(ids)%2 == 0 {
			_ = dead.Redrive(ctx, ids...)
		} else {
			_, _ = dead.RedriveAll(ctx)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// buried checks a dead letter, whose attempts begin anew.
func (h *history) buried(letter queue.Letter) {
	x := string(letter.Data)
	h.noted(func() {
		l := h.lives[x]
		if letter.Buried.Equal(l.buried) {
			return // it was not redriven
		}
		l.buried = letter.Buried
		h.dead++
		if letter.Attempts > l.received {
			h.unreceived++
			l.received++
		}
		check.True(h, letter.Attempts >= soakOptions.MaxAttempts && letter.Attempts <= l.received && letter.Origin == at,
			"%s is a dead letter after %d deliveries: %+v", x, l.received, letter)
		check.False(h, h.acked[x]+h.taken[x] > 0, "%s is a dead letter, acknowledged %d times, and taken %d times", x, h.acked[x], h.taken[x])
		h.because(x, letter.Cause)
		l.received = 0
		l.redriven++
	})
}

// remains checks what is there in the end.
func (h *history) remains(ctx context.Context, s *session.Session) {
	q, err := queue.NewPriority(s, at, &soakOptions)
	check.Must(h, err)
	dead, err := queue.DeadLetters(ctx, s, at, &soakOptions)
	check.Must(h, err)
	var left []string
	for {
		data, err := q.TryTake(ctx)
		if err != nil {
			check.Is(h, err, queue.ErrEmpty)
			break
		}
		left = append(left, string(data))
	}
	for letter, err := range dead.All(ctx) {
		check.Must(h, err)
		left = append(left, string(letter.Data))
	}
	for _, x := range left {
		check.False(h, h.taken[x]+h.acked[x] > 0, "%s is there, taken %d times and acknowledged %d times", x, h.taken[x], h.acked[x])
		check.False(h, h.put[x] && !h.unknown[x], "%s is there in the end", x)
	}
	check.True(h, h.unreceived <= 2+h.delivered/500, "%d attempts were counted that no reader has received, in %d deliveries", h.unreceived, h.delivered)
	h.Logf("%d deliveries, %d rejections, %d attempts not received, %d dead letters redriven; there in the end: %s",
		h.delivered, h.rejections, h.unreceived, h.dead, strings.Join(left, ", "))
}
