package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/examples/zkactors/console"
	"github.com/zkactors/zkactors/session"
)

const consoleHelp = `Serve a web page with the content of watch, live, until the command is interrupted. What waits longest stands first. The page
works with the keyboard; "?" lists the keys. With --allow-writes the page can break locks, and ask their holders to
release.

Only for you: without other flags only this machine can reach the page, and every user of it can read what your
credentials let you read. To write, open the address that the command prints: keep it to yourself.

For a team: --users names a file with a line name:hash for each user, as "htpasswd -nB ann" prints it. Users log in with
their password, and each may read, and write with --allow-writes. Their logins and writes are logged to the standard
error, with their names. Passwords need TLS: give --https-cert and --https-key, or put a proxy with TLS in front of the
console. In both cases --public-origin is the address that browsers show:

  nginx:  location /zk/ { proxy_pass http://127.0.0.1:7070; }   --public-origin https://ops.example/zk

An address of --listen that other machines can reach is refused without users and TLS, unless --insecure is given.

`

// A consoleFlags has the flags of the console.
type consoleFlags struct {
	listen, users, cert, key string
	insecure                 bool
	opts                     console.Options
}

func (p *program) consoleCommand() *cobra.Command {
	var f consoleFlags
	c := p.command(&cobra.Command{
		Use:   "console [PATH]",
		Short: "Show the locks, elections, queues … below a path as a web page, live",
		Long:  consoleHelp + statusHelp,
		Example: "  zkactors console\n  zkactors console --allow-writes /locks\n  zkactors console --listen 127.0.0.1:0\n" +
			"  zkactors console --users users --public-origin https://ops.example/zk\n" +
			"  zkactors console --users users --listen :7070 --https-cert c.pem --https-key k.pem --public-origin https://zk1.example:7070",
	}, func(ctx context.Context, path string, _ []string) error {
		certificate, err := f.validate()
		if err != nil {
			return &failure{exitUsage, err}
		}
		f.opts.Logger = slog.New(slog.NewTextHandler(p.stderr, nil))
		if f.insecure {
			_, _ = fmt.Fprintln(p.stderr, "zkactors: --insecure: whoever reaches the address can read all that your credentials can read; without TLS, passwords and tokens too")
		}
		return p.with(ctx, func(ctx context.Context, s *session.Session) error { return p.serve(ctx, s, path, &f, certificate) })
	})
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "serve the page at this `host:port`; port 0 is any that is free")
	flags.BoolVar(&f.opts.AllowWrites, "allow-writes", false, "let the page break locks and ask for their release, after a question")
	flags.StringVar(&f.opts.PublicOrigin, "public-origin", "", "the `address` of the page as browsers show it: https://ops.example/zk")
	flags.StringVar(&f.users, "users", "", "`file` with a line name:hash for each user, of htpasswd -B; they log in")
	flags.StringVar(&f.cert, "https-cert", "", "`file` with the certificate of the page, in PEM: serve https")
	flags.StringVar(&f.key, "https-key", "", "`file` with its key, in PEM")
	flags.DurationVar(&f.opts.Slow, "slow", time.Minute, "draw what waits for this long amber")
	flags.DurationVar(&f.opts.Stuck, "stuck", 10*time.Minute, "draw what waits for this long red")
	flags.BoolVar(&f.insecure, "insecure", false, "serve other machines although there is no login, or no TLS")
	return c
}

// loopback reports whether only this machine reaches the host.
func loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// validate checks the flags before anything is sent, and reads their files.
func (f *consoleFlags) validate() (*tls.Config, error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %q is not host:port", f.listen)
	}
	if err := console.ValidateOrigin(f.opts.PublicOrigin); err != nil {
		return nil, fmt.Errorf("--public-origin: %w", err)
	}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--https-cert and --https-key belong together")
	}
	if f.opts.Slow <= 0 || f.opts.Stuck < f.opts.Slow {
		return nil, fmt.Errorf("--slow %v is not positive, or longer than --stuck %v", f.opts.Slow, f.opts.Stuck)
	}
	if f.users != "" {
		file, err := os.Open(f.users)
		if err != nil {
			return nil, fmt.Errorf("--users: %w", err)
		}
		f.opts.Users, err = console.ReadUsers(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("--users %s: %w", f.users, err)
		}
	}
	secure := f.cert != "" || strings.HasPrefix(f.opts.PublicOrigin, "https:")
	if !loopback(host) && !f.insecure && (f.users == "" || !secure) {
		return nil, fmt.Errorf("--listen %s: other machines can reach it: give --users, and --https-cert or --public-origin https://…; "+
			"or listen at 127.0.0.1; or give --insecure if every one of them may read this", f.listen)
	}
	if u, err := url.Parse(f.opts.PublicOrigin); err == nil && f.users != "" && u.Scheme == "http" && !loopback(u.Hostname()) && !f.insecure {
		return nil, fmt.Errorf("--public-origin %s: passwords need TLS between browsers and this address: make it https://…, or give --insecure", f.opts.PublicOrigin)
	}
	if f.cert == "" {
		return nil, nil //nolint:nilnil // there is no TLS
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--https-cert, --https-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// serve serves the page until ctx ends. Without a certificate there is no TLS.
func (p *program) serve(ctx context.Context, s *session.Session, path string, f *consoleFlags, certificate *tls.Config) error {
	page, err := console.New(s, path, &f.opts) //nolint:contextcheck // it ends with Close
	if err != nil {
		return err
	}
	defer page.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, TLSConfig: certificate,
		ErrorLog: slog.NewLogLogger(f.opts.Logger.Handler(), slog.LevelDebug), // a port scan is no news
	}
	served := make(chan error, 1)
	address := "http://" + listener.Addr().String() + "/"
	if certificate != nil {
		address = "https://" + listener.Addr().String() + "/"
		go func() { served <- server.ServeTLS(listener, "", "") }()
	} else {
		go func() { served <- server.Serve(listener) }()
	}
	if f.opts.PublicOrigin != "" {
		address = strings.TrimSuffix(f.opts.PublicOrigin, "/") + "/"
	}
	if page.Token() != "" {
		address += "#" + page.Token()
	}
	err = p.printf("The console of %s is at %s\n", path, address)
	if err == nil {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case err = <-served:
			return err
		}
	}
	err = errors.Join(err, server.Close())
	if why := <-served; !errors.Is(why, http.ErrServerClosed) {
		err = errors.Join(err, why)
	}
	return err
}
