package main

import (
	"context"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/demo"
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
		if err := demo.On(t.Context(), "", func(ctx context.Context, servers []string) error { return run(ctx, &out, servers, crash) }); err != nil {
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
