package actors_test

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/actors"
)

// TestCall: the result comes once. One that is not received holds up no goroutine, which goleak
// would find.
func TestCall(t *testing.T) {
	begin, failed := make(chan struct{}), errors.New("failed")
	result := actors.Call(func() error {
		<-begin
		return failed
	})
	select {
	case err := <-result:
		t.Errorf("%v before the call has ended", err)
	default:
	}
	close(begin)
	if err := <-result; !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	actors.Call(func() error { return failed })
}
