package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
)

// encrypted returns the address of a listener that demands a certificate from its clients, and
// forwards their connections to the server.
func encrypted(t *testing.T, srv *zktest.Server, certificate tls.Certificate) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			theirs, err := listener.Accept()
			if err != nil {
				return
			}
			ours, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Addrs()[0])
			if err != nil {
				t.Error(err)
				return
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // until one side closes
				_, _ = to.Close(), from.Close()
			}
			running.Go(func() { pass(ours, theirs) })
			running.Go(func() { pass(theirs, ours) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// TestTLS: the connection is encrypted, both sides present certificates, and the client checks the
// name in the servers' certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // it has a self-signed certificate for 127.0.0.1 and example.com
	defer web.Close()
	certificate := web.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"c.pem": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, "k.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := encrypted(t, zktest.Start(t), certificate)
	run := func(flags string, line ...string) result {
		t.Helper()
		flags = "--timeout 2s --servers " + at + " " + strings.ReplaceAll(flags, "DIR", dir)
		return runIn(t, "", false, append(strings.Fields(flags), line...)...)
	}
	const both = "--tls-ca DIR/c.pem --tls-cert DIR/c.pem --tls-key DIR/k.pem"
	run(both, "put", "/q", "item").want(t, 0, "\n", "")
	run(both+" --tls-server-name example.com", "len", "/q").want(t, 0, "1\n", "")
	run(both+" --tls-server-name evil.example", "len", "/q").want(t, exitUnavailable, "", "evil.example")
	run("--tls-ca DIR/c.pem", "len", "/q").want(t, exitUnavailable, "", "certificate")
	run("--tls-cert DIR/c.pem --tls-key DIR/k.pem", "len", "/q").want(t, exitUnavailable, "", "authority")
	run("", "len", "/q").want(t, exitUnavailable, "", at)
}
