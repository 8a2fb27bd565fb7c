package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/zkactors/zkactors/session/zktest"
)

// TestConsoleCommand: the console prints its address, and serves the page there until it is
// interrupted. The address has the token only if the page may write.
func TestConsoleCommand(t *testing.T) {
	srv := zktest.Start(t)
	for _, writes := range []bool{false, true} {
		out, in := io.Pipe()
		var stderr bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: in, stderr: &stderr, terminal: func(any) bool { return false }}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		args := []string{"--servers", strings.Join(srv.Addrs(), ","), "console", "--listen", "127.0.0.1:0", "/locks"}
		if writes {
			args = append(args, "--allow-writes")
		}
		ended := make(chan int, 1)
		go func() { ended <- p.run(ctx, args) }()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		address, ok := strings.CutPrefix(strings.TrimSpace(line), "The console of /locks is at ")
		address, token, found := strings.Cut(address, "#")
		if !ok || found != writes || found && len(token) < 20 {
			t.Errorf("it says %q", line)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it was read
		if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(page, []byte("<title>zkactors console</title>")) {
			t.Errorf("%s, %v: %.200s", answer.Status, err, page)
		}
		stop()
		if status := <-ended; status != exitSignal+2 {
			t.Errorf("status %d: %s", status, stderr.String())
		}
	}
}

// pair writes a certificate for 127.0.0.1 and its key into files.
func pair(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	certificate := web.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AddCert(web.Certificate())
	return cert, key, pool
}

// TestConsoleForATeam: with a certificate and a file of users, the console serves https, and asks
// for a login. The printed address has no token.
func TestConsoleForATeam(t *testing.T) {
	srv := zktest.Start(t)
	cert, key, pool := pair(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, append([]byte("ann:"), hash...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	var stderr bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: in, stderr: &stderr, terminal: func(any) bool { return false }}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- p.run(ctx, []string{
			"--servers", strings.Join(srv.Addrs(), ","), "console", "--listen", "0.0.0.0:0", "--users", users, "--https-cert", cert, "--https-key", key, "--allow-writes",
		})
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, address, ok := strings.Cut(strings.TrimSpace(line), " is at https://")
	_, port, err := net.SplitHostPort(strings.TrimSuffix(address, "/"))
	if !ok || err != nil {
		t.Fatalf("it says %q", line)
	}
	address = "https://127.0.0.1:" + port
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	send := func(method, path, body string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, method, address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Origin", address)
		request.Header.Set("Content-Type", "application/json")
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close() // nothing of it is read
		return answer.StatusCode
	}
	if status := send(http.MethodGet, "/events", ""); status != http.StatusUnauthorized {
		t.Error(status)
	}
	if status := send(http.MethodPost, "/login", `{"name":"ann","password":"secret"}`); status != http.StatusNoContent {
		t.Error(status)
	}
	stop()
	if status := <-ended; status != exitSignal+2 || !strings.Contains(stderr.String(), "msg=login user=ann") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}

// TestConsoleListen: other machines are served only with a login over TLS, or on demand.
func TestConsoleListen(t *testing.T) {
	cert, key, _ := pair(t)
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann:$2y$05$mJwJbmJVjbVy7Tj0qzPkK.5wnJqzPaEnYUQQSJjYVfy5v5ilMV.oS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, why := range map[string]string{
		"--listen 127.0.0.1:7070":         "",
		"--listen 127.7.7.7:7070":         "",
		"--listen [::1]:7070":             "",
		"--listen localhost:7070":         "",
		"--listen 0.0.0.0:7070":           "other machines can reach it",
		"--listen :7070":                  "other machines can reach it",
		"--listen ops.example:7070":       "other machines can reach it",
		"--listen :7070 --users " + users: "other machines can reach it",
		"--listen :7070 --https-cert " + cert + " --https-key " + key:                       "other machines can reach it",
		"--listen :7070 --public-origin http://ops.example --users " + users:                "other machines can reach it",
		"--listen :7070 --public-origin https://ops.example --users " + users:               "",
		"--listen :7070 --https-cert " + cert + " --https-key " + key + " --users " + users: "",
		"--listen :7070 --insecure":                                      "",
		"--public-origin http://ops.example --users " + users:            "passwords need TLS",
		"--public-origin http://localhost:8080 --users " + users:         "",
		"--public-origin http://ops.example --insecure --users " + users: "",
		"--public-origin ops.example":                                    `--public-origin: "ops.example" is not an address`,
		"--slow 0s":                                                      "--slow 0s is not positive",
		"--slow 2m --stuck 1m":                                           "longer than --stuck 1m",
		"--users /nowhere":                                               "--users: open /nowhere",
		"--users " + cert:                                                "--users " + cert + ": line 1 is not name:hash",
		"--https-cert " + cert:                                           "--https-cert and --https-key belong together",
		"--https-cert " + cert + " --https-key " + cert:                  "--https-cert, --https-key: ",
	} {
		want := exitUnavailable // the command line is right, and there is no server
		if why != "" {
			want = exitUsage
		}
		got := runIn(t, "", false, append([]string{"--servers", "127.0.0.1:1", "--timeout", "50ms", "console"}, strings.Fields(line)...)...)
		if got.status != want || !strings.Contains(got.stderr, why) || strings.Contains(got.stderr, "zkactors: --insecure") != strings.Contains(line, "--insecure") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestConsoleRefuses(t *testing.T) {
	srv := zktest.Start(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	runWith(t, srv, "console --listen nowhere").want(t, exitUsage, "", `--listen "nowhere" is not host:port`)
	runWith(t, srv, "console locks").want(t, exitUsage, "", `PATH "locks"`)
	runWith(t, srv, "console --listen "+taken.Addr().String()).want(t, exitSoftware, "", "--listen: ")
	runIn(t, "", false, "--servers", "127.0.0.1:1", "--timeout", "100ms", "console").want(t, exitUnavailable, "", "127.0.0.1:1")
}
