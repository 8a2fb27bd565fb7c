package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	const booked = `order-1 of 3: committed by coordinator
order-2 of 4: aborted by coordinator: a site voted no: payments
order-3 of 2: committed by coordinator
inventory: 5 free, 2 orders
payments: 0 free, 2 orders
`
	for _, crash := range []bool{false, true} {
		var out strings.Builder
		if err := run(t.Context(), &out, zktest.Start(t).Addrs(), crash); err != nil {
			t.Fatal(err)
		}
		want := booked
		if crash {
			want = "order-1 has lost its coordinator\norder-1 is resumed\n" + want
		}
		if got := out.String(); got != want {
			t.Errorf("crash=%v:\n%s", crash, got)
		}
	}
}

// An interrupter calls a function when the output reports that the coordinator is lost.
type interrupter struct {
	strings.Builder
	interrupt func()
}

func (w *interrupter) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "lost its coordinator") {
		w.interrupt()
	}
	return w.Builder.Write(line)
}

// TestInterrupted: a run that is interrupted between the phases leaves an order behind. The next
// run resumes that order, and books its own.
func TestInterrupted(t *testing.T) {
	servers := zktest.Start(t).Addrs()
	ctx, interrupt := context.WithCancel(t.Context())
	if err := run(ctx, &interrupter{interrupt: interrupt}, servers, true); !errors.Is(err, context.Canceled) {
		t.Error("interrupted:", err)
	}
	var out strings.Builder
	if err := run(t.Context(), &out, servers, false); err != nil {
		t.Error(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "order-1 is resumed\norder-1 of 3: ") || !strings.Contains(got, "order-3 of 2: ") {
		t.Errorf("the next run:\n%s", got)
	}
}
