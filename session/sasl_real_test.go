package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// saslServers starts servers that require SASL of every session, and know three users.
func saslServers(t *testing.T, n int) *zktest.Ensemble {
	t.Helper()
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	text := `Server {
	org.apache.zookeeper.server.auth.DigestLoginModule required
	user_bob="secret"
	user_zoe="pässe"
	user_eve="€uro, \"quoted\"";
};
`
	check.Must(t, os.WriteFile(jaas, []byte(text), 0o600))
	return zktest.StartEnsemble(t, n,
		zktest.Setting("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
		zktest.Setting("sessionRequireClientSASLAuth", "true"),
		zktest.JVMFlags("-Djava.security.auth.login.config="+jaas))
}

// TestRealSASL: a session authenticates each of its connections, before it sends anything else, to
// a server that requires it.
func TestRealSASL(t *testing.T) {
	t.Parallel()
	ens := saslServers(t, 1)
	ctx := check.Patient(t)
	for user, password := range map[string]string{"bob": "secret", "zoe": "pässe", "eve": `€uro, "quoted"`} {
		proxy := zktest.NewProxy(t, ens.Addrs()...)
		s := kit.Open(t, proxy.Addrs(), &session.Options{
			Timeout: 20 * time.Second, SASL: session.DigestMD5(user, password),
			ACL: []session.ACL{{Perms: session.PermAll, Scheme: "sasl", ID: user}},
		})
		check.Have(s.Create(ctx, "/"+user, []byte("x"), session.Ephemeral))(t)
		before := s.ID()
		for range 3 {
			proxy.Disconnect(0)
			if _, _, err := s.Get(ctx, "/"+user); err != nil {
				t.Fatalf("%s after a reconnect: %v", user, err)
			}
		}
		check.Equal(t, s.ID(), before, "the session of "+user+" after reconnects")
		other := kit.Open(t, ens.Addrs(), &session.Options{SASL: session.DigestMD5("bob", "secret")})
		if _, _, err := other.Get(ctx, "/"+user); (err == nil) != (user == "bob") || err != nil && !errors.Is(err, session.ErrNoAuth) {
			t.Errorf("bob reads what is %s's: %v", user, err)
		}
	}
	for name, opts := range map[string]*session.Options{
		"a wrong password": {SASL: session.DigestMD5("bob", "hunter2")},
		"an unknown user":  {SASL: session.DigestMD5("mallory", "hunter2")},
	} {
		_, err := session.Open(ctx, ens.Addrs(), opts)
		check.False(t, !errors.Is(err, session.ErrAuthFailed) || strings.Contains(err.Error(), "hunter2"), "%s: %v", name, err)
	}
	// The server does not refuse a session without SASL, but its first request.
	s := check.Have(session.Start(ens.Addrs(), nil))(t)
	defer s.Close()
	check.Fails(s.Exists(ctx, "/"))(t, session.ErrAuthFailed) // without SASL
}

// A broken mechanism fails in one of its steps.
type broken struct {
	session.SASL

	step   int // that fails
	why    error
	begins atomic.Int32
	again  func() // called at the second attempt
}

func (b *broken) Start(ctx context.Context, server string) (session.SASLExchange, []byte, error) {
	if b.begins.Add(1) == 2 {
		b.again()
	}
	if b.step == 0 {
		return nil, nil, b.why
	}
	x, first, err := b.SASL.Start(ctx, server)
	return &brokenExchange{x, b.step, b.why}, first, err
}

type brokenExchange struct {
	session.SASLExchange

	left int // steps, the last of which fails
	why  error
}

func (x *brokenExchange) Step(challenge []byte) ([]byte, bool, error) {
	if x.left--; x.left == 0 {
		return nil, false, x.why
	}
	return x.SASLExchange.Step(challenge)
}

// TestRealSASLHook: an error of the users' mechanism is named, and does not hang. One that blocks
// ends with the connection.
func TestRealSASLHook(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := saslServers(t, 1)
	why := errors.New("no ticket")
	for step := range 3 {
		ctx, cancel := context.WithCancel(check.Patient(t))
		_, err := session.Open(ctx, ens.Addrs(), &session.Options{SASL: &broken{SASL: session.DigestMD5("bob", "secret"), step: step, why: why, again: cancel}})
		check.False(t, step == 0 && (!errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no ticket")), "step %d: %v", step, err)
		check.True(t, step <= 0 || err != nil, "step %d: a session was opened", step)
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	check.Fails(session.Open(ctx, ens.Addrs(), &session.Options{SASL: endless{}}))(t, context.DeadlineExceeded)
}

// endless waits for a ticket that does not come.
type endless struct{}

func (endless) Start(ctx context.Context, _ string) (session.SASLExchange, []byte, error) {
	<-ctx.Done()
	return nil, nil, context.Cause(ctx)
}
