package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	if err := run(t.Context(), zktest.Start(t).Addrs()); err != nil {
		t.Fatal(err)
	}
}

// TestTroubledHost: a host goes on after every loss of its leadership, by the network or by another
// client.
func TestTroubledHost(t *testing.T) {
	for name, harm := range map[string]func(srv *zktest.Server, s *session.Session, leader election.Candidacy) error{
		"its session expires": func(srv *zktest.Server, _ *session.Session, leader election.Candidacy) error {
			srv.Expire(leader.Session)
			return nil
		},
		"a reply is lost": func(srv *zktest.Server, _ *session.Session, leader election.Candidacy) error {
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: leader.Session})
			return nil
		},
		"its node is deleted": func(_ *zktest.Server, s *session.Session, leader election.Candidacy) error {
			return s.Delete(t.Context(), leader.Node, session.AnyVersion)
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, err := zktest.NewServer(zktest.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
			defer end()
			s, err := session.Open(ctx, srv.Addrs(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			o, err := election.Observe(s, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			result := make(chan error, 1)
			go func() { result <- host(ctx, srv.Addrs(), "host-1") }()
			for ev := range o.Events() {
				if ev.Acknowledged {
					break
				}
			}
			line, err := election.Candidates(ctx, s, path, nil)
			if err != nil || len(line) != 1 {
				t.Fatal(line, err)
			}
			if err := errors.Join(harm(srv, s, line[0]), <-result); err != nil {
				t.Error(err)
			}
		})
	}
}
