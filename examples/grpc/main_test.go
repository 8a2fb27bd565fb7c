package main

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/zkactors/zkactors/examples/grpc/zkresolver"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlay(t *testing.T) {
	var out strings.Builder
	if err := play(check.Patient(t), zktest.Start(t).Addrs(), &out); err != nil {
		t.Fatal(err)
	}
	if want := "both instances answer\none has gone, and the other answers all calls\n"; out.String() != want {
		t.Errorf("it said %q, want %q", out.String(), want)
	}
}

// A recorder is a connection that records what its resolver reports.
type recorder struct {
	states chan []string
	errs   chan error
}

func (r *recorder) UpdateState(s resolver.State) error {
	addrs := []string{}
	for _, e := range s.Endpoints {
		addrs = append(addrs, e.Addresses[0].Addr)
	}
	r.states <- addrs
	return nil
}
func (r *recorder) ReportError(err error)                              { r.errs <- err }
func (*recorder) NewAddress([]resolver.Address)                        {}
func (*recorder) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

// TestResolver: what cannot be called is left out, and the end of the session is reported.
func TestResolver(t *testing.T) {
	srv := zktest.Start(t)
	s, err := session.Open(t.Context(), srv.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, i := range []discovery.Instance{
		{ID: "a", Address: "10.0.0.7", Port: 80},
		{ID: "b", Address: "::1", SSLPort: 443},
		{ID: "c", Address: "10.0.0.8", Port: 80, Disabled: true},
		{ID: "d", Address: "10.0.0.9"},
		{ID: "e", Port: 80},
	} {
		i.Service = search
		if _, err := discovery.Announce(t.Context(), s, services, i, nil); err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{make(chan []string, 10), make(chan error, 1)}
	b := zkresolver.New(s, services, nil)
	if _, err := b.Build(resolver.Target{URL: url.URL{Scheme: "zk"}}, r, resolver.BuildOptions{}); err == nil {
		t.Error("a target without a service")
	}
	got, err := b.Build(resolver.Target{URL: url.URL{Scheme: "zk", Path: "/" + search}}, r, resolver.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if state, want := <-r.states, []string{"10.0.0.7:80", "[::1]:443"}; !slices.Equal(state, want) {
		t.Errorf("resolved %v, want %v", state, want)
	}
	s.Close()
	if err := <-r.errs; err == nil {
		t.Error("no error at the end of the session")
	}
	got.ResolveNow(resolver.ResolveNowOptions{})
	got.Close()
}
