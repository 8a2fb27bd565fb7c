package session_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// certified returns a certificate for a host, and who trusts it.
func certified(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key := check.Have(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der := check.Have(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	leaf := check.Have(x509.ParseCertificate(der))(t)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLS: the server must have a certificate for the host that is dialled. A session that
// is cut off or closed does not wait for the other side to end TLS in form.
func TestTLS(t *testing.T) {
	const host = "zk.example"
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		certificate, pool := certified(t, host)
		opts.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			inner, err := srv.DialContext(ctx, network, srv.Addrs()[0])
			if err != nil {
				return nil, err
			}
			near, far := net.Pipe()
			outer := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate}})
			for _, way := range []struct{ to, from net.Conn }{{inner, outer}, {outer, inner}} {
				go func() {
					_, _ = io.Copy(way.to, way.from) // until one of them is closed
					_, _ = inner.Close(), far.Close()
				}()
			}
			return near, nil
		}
		opts.TLS = &tls.Config{RootCAs: pool}
		s := mustOpen(t, []string{host + ":2181"}, opts)
		for range 3 {
			check.Have(s.Set(t.Context(), "/", make([]byte, 100_000), session.AnyVersion))(t)
			srv.Disconnect(0)
			check.Must(t, exists(t, s))
		}
		srv.Freeze(0, zktest.Both)
		begun := time.Now()
		s.Close()
		check.AtMost(t, time.Since(begun), 2*time.Second, "Close took")
		srv.Thaw(0)

		for name, row := range map[string]struct {
			server string
			config *tls.Config
			why    string
		}{
			"another host":        {"other.example:2181", &tls.Config{RootCAs: pool}, host},
			"an unknown issuer":   {host + ":2181", &tls.Config{RootCAs: x509.NewCertPool()}, "unknown authority"},
			"a name that is told": {"other.example:2181", &tls.Config{RootCAs: pool, ServerName: host}, ""},
		} {
			opts.TLS = row.config
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			s, err := session.Open(ctx, []string{row.server}, opts)
			cancel()
			switch {
			case err == nil:
				s.Close()
				check.True(t, row.why == "", "%s: a session was opened", name)
			case row.why == "", !errors.Is(err, context.DeadlineExceeded), !strings.Contains(err.Error(), row.why), !strings.Contains(err.Error(), row.server):
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A writerFunc is a function that takes what is written.
type writerFunc func(text []byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}

// wrongKind opens a session at a port that is of the other kind, with TLS or without, and wants the
// warning and the error to say so.
func wrongKind(t *testing.T, addr string, config *tls.Config, want string) {
	t.Helper()
	ctx, cancel := context.WithCancel(check.Patient(t))
	defer cancel()
	warned := writerFunc(func(text []byte) {
		if strings.Contains(string(text), want) {
			cancel()
		}
	})
	s, err := session.Open(ctx, []string{addr}, &session.Options{TLS: config, Logger: slog.New(slog.NewTextHandler(warned, nil))})
	if err == nil {
		s.Close()
	}
	check.True(t, errors.Is(err, context.Canceled) && strings.Contains(err.Error(), want), "%s: %v", addr, err)
}

// TestWrongPort: a server that expects no TLS closes the connection, and so does a server that
// expects TLS.
func TestWrongPort(t *testing.T) {
	srv := zktest.Start(t)
	wrongKind(t, srv.Addrs()[0], &tls.Config{MinVersion: tls.VersionTLS12}, "is the port for TLS?")

	certificate, _ := certified(t, "zk.example")
	secure := check.Have(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := secure.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // the handshake, which fails
			_ = c.Close()
		}
	}()
	wrongKind(t, secure.Addr().String(), nil, "the port may be for TLS")
	check.Must(t, secure.Close())
	<-ended
}
