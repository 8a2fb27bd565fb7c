package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
