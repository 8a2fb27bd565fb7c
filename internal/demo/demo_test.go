package demo

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOn(t *testing.T) {
	ran := errors.New("ran")
	run := func(_ context.Context, servers []string) error {
		if len(servers) == 0 {
			t.Error("no servers")
		}
		return ran
	}
	if err := On(t.Context(), "", run); !errors.Is(err, ran) {
		t.Error(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for servers, want := range map[string]error{
		"localhost:99999":      session.ErrInvalidArgument,
		",":                    session.ErrInvalidArgument,
		"127.0.0.1:2181/apps":  session.ErrInvalidArgument,
		silent.Addr().String(): errNoAnswer,
	} {
		err := On(t.Context(), servers, run)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "-servers") {
			t.Errorf("%s: %v", servers, err)
		}
		if errors.Is(want, errNoAnswer) && !strings.Contains(err.Error(), servers) {
			t.Errorf("the server is not named: %v", err)
		}
	}
}
