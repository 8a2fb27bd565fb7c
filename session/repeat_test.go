package session

import (
	"context"
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// A request that a busy server has refused, and whose context has ended by then, fails with the
// cause too.
func TestRefusedAtTheEnd(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := repeatPassing(ctx, Async{}, func() (int, error) {
		end(enough)
		return 0, &ServerError{Code: -127}
	})
	check.Is(t, err, enough)
	check.Is(t, err, ErrBusy)
}
