package queue

import (
	"fmt"
	"math"
	"time"

	"github.com/zkactors/zkactors/session"
)

// A Backoff determines the delay after which a rejected item is delivered again.
type Backoff struct {
	// First is the delay after the first attempt. It doubles with each. The default is one second.
	// If First is negative, there is no delay: rejected items go back to their places, and come
	// first.
	First time.Duration

	// Most is the greatest delay. The default is one minute, or First if that is longer.
	Most time.Duration
}

// defaults returns the backoff with its defaults filled in.
func (b Backoff) defaults() Backoff {
	if b.First == 0 {
		b.First = time.Second
	}
	if b.Most == 0 {
		b.Most = max(time.Minute, b.First)
	}
	return b
}

// validate refuses delays that contradict each other.
func (b Backoff) validate(options string) error {
	if b.Most < 0 || b.Most > 0 && b.Most < b.First {
		return fmt.Errorf("%s.Backoff: %w: Most is %v, First %v", options, session.ErrInvalidArgument, b.Most, b.First)
	}
	return nil
}

// delay returns the delay after an attempt, of which a random part, up to a half, is left out.
// Items that were rejected together do not all come back together. The chance is from 0 to 1.
func (b Backoff) delay(attempt int, chance float64) time.Duration {
	if b.First <= 0 {
		return 0
	}
	d := math.Min(float64(b.Most), math.Ldexp(float64(b.First), max(attempt, 1)-1))
	return time.Duration(d * (1 - chance/2))
}
