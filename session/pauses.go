package session

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newPauses returns pauses between attempts, each longer than the last, but at most as long as that.
func newPauses(first, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(longest),
		backoff.WithMaxElapsedTime(0),
	)
}
