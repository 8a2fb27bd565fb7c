package main

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	path     = "/locks/backup"
	patience = 3 * time.Minute // much more than anything that works takes
)

// asProgram is a variable of the environment with which the test's executable behaves as zkactors.
const asProgram = "ZKACTORS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// open returns a session of another client.
func open(t *testing.T, srv *zktest.Server) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), srv.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// line waits until n contenders stand in line.
func line(t *testing.T, s *session.Session, n int) []lock.Contender {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		all, err := lock.Contenders(ctx, s, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == n {
			return all
		}
		<-time.After(5 * time.Millisecond)
	}
}
