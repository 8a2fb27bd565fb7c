package session_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
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

// An authority signs certificates for one host, a loopback address that no other test has.
type authority struct {
	host        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{serial: 1, host: fmt.Sprintf("127.%d.%d.%d", 1+mathrand.N(250), mathrand.N(250), 1+mathrand.N(250))}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	check.Must(t, err)
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue signs a certificate for the host, and for clients.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	a.serial++
	key := check.Have(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.ParseIP(a.host)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := check.Have(x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key))(t)
	return tls.Certificate{Certificate: [][]byte{der, a.certificate.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// pemOf returns the key and the chain of a certificate.
func pemOf(t *testing.T, c tls.Certificate) []byte {
	t.Helper()
	key := check.Have(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for _, der := range c.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

// secureServer starts a server that accepts TLS with client certificates of the authority, and
// returns its addresses: with TLS, and without.
func secureServer(t *testing.T, a *authority) (secure, plain string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		check.Must(t, os.WriteFile(path, text, 0o600))
		return path
	}
	const port = "2281"
	// The manifest of Debian's ZooKeeper lacks parts of Netty that TLS needs. All parts must have
	// one loader.
	var netty []string
	for _, part := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll", "transport-native-unix-common"} {
		netty = append(netty, "/usr/share/java/netty-"+part+".jar")
	}
	ens := zktest.StartEnsemble(t, 1,
		zktest.Setting("secureClientPort", port),
		zktest.Setting("secureClientPortAddress", a.host),
		zktest.Setting("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"),
		zktest.Setting("ssl.keyStore.location", file("server.pem", pemOf(t, a.issue(t, "server")))),
		zktest.Setting("ssl.keyStore.type", "PEM"),
		zktest.Setting("ssl.trustStore.location", file("authority.pem", a.pem())),
		zktest.Setting("ssl.trustStore.type", "PEM"),
		zktest.Setting("ssl.clientAuth", "need"),
		zktest.Setting("authProvider.1", "org.apache.zookeeper.server.auth.X509AuthenticationProvider"),
		zktest.JVMFlags("-Xbootclasspath/a:"+strings.Join(netty, ":")),
	)
	return net.JoinHostPort(a.host, port), ens.Addrs()[0]
}

// TestRealTLS: a session authenticates itself with a client certificate, which is renewed while it
// runs: a new connection presents the new one.
func TestRealTLS(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	a := newAuthority(t)
	addr, plain := secureServer(t, a)
	ctx := check.Patient(t)
	var current atomic.Pointer[tls.Certificate]
	first := a.issue(t, "first")
	current.Store(&first)
	var last atomic.Pointer[net.Conn]
	s := kit.Open(t, []string{addr}, &session.Options{
		Timeout: 20 * time.Second,
		TLS: &tls.Config{
			RootCAs: a.pool(), MinVersion: tls.VersionTLS12,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return current.Load(), nil
			},
		},
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				last.Store(&c)
			}
			return c, err
		},
		ACL: []session.ACL{{Perms: session.PermAll, Scheme: "x509", ID: "CN=first"}},
	})
	check.Have(s.Create(ctx, "/first", []byte("x"), session.Ephemeral))(t)
	before := s.ID()
	second := a.issue(t, "second")
	current.Store(&second)
	_ = (*last.Load()).Close() // the session connects again
	if _, _, err := s.Get(ctx, "/first"); !errors.Is(err, session.ErrNoAuth) {
		t.Errorf("with the second certificate: %v", err)
	}
	check.Equal(t, s.ID(), before, "session, then")
	current.Store(&first)
	_ = (*last.Load()).Close()
	if _, _, err := s.Get(ctx, "/first"); err != nil {
		t.Error(err)
	}

	wrongKind(t, addr, nil, "the port may be for TLS")
	wrongKind(t, plain, &tls.Config{RootCAs: a.pool()}, "is the port for TLS?")
	stranger := newAuthority(t)
	foreign := stranger.issue(t, "foreign")
	for _, config := range map[string]*tls.Config{
		"no certificate":        {RootCAs: a.pool()},
		"a foreign certificate": {RootCAs: a.pool(), Certificates: []tls.Certificate{foreign}},
		"a foreign authority":   {RootCAs: stranger.pool(), Certificates: []tls.Certificate{first}},
		"another name":          {RootCAs: a.pool(), Certificates: []tls.Certificate{first}, ServerName: "zk.example"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		check.Fails(session.Open(ctx, []string{addr}, &session.Options{TLS: config}))(t, context.DeadlineExceeded)
		cancel()
	}
}
