package zktest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// A failing is a test that notes why it fails.
type failing struct {
	testing.TB

	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf returns why a test fails that awaits a negative number.
func failureOf(ch <-chan int) string {
	f := new(failing)
	done := make(chan struct{})
	go func() {
		defer close(done)
		zktest.Await(f, ch, func(n int) bool { return n < 0 })
	}()
	<-done
	return f.why
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int, 3)
		ch <- 1
		ch <- 2
		ch <- 3
		check.Equal(t, zktest.Await(t, ch, func(n int) bool { return n == 2 }), 2)
		check.Equal(t, zktest.Await(t, ch, nil), 3)
		ch <- 7
		if why := failureOf(ch); !strings.Contains(why, "3m0s have passed; what arrived: 7") {
			t.Error(why)
		}
		close(ch)
		if why := failureOf(ch); !strings.Contains(why, "closed; what arrived: nothing") {
			t.Error(why)
		}
		many := make(chan int, 100)
		for n := range cap(many) {
			many <- n
		}
		close(many)
		if why := failureOf(many); !strings.Contains(why, ": 80; 81;") || !strings.HasSuffix(why, "; 99") {
			t.Error(why)
		}
	})
}
