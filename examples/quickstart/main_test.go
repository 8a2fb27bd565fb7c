package main

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun runs in a bubble, whose clock takes no time.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.NewServer(zktest.Config{InProcess: true})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		if err := run(t.Context(), srv, &session.Options{Timeout: 4 * time.Second, Dialer: srv.DialContext}); err != nil {
			t.Fatal(err)
		}
	})
}
